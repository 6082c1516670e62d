// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a thread left its processor, by the kernel's own call chain.

use crate::platform;
use overlock_trace::Reason;
use std::collections::HashMap;
use std::thread::JoinHandle;

/// The kernel's functions, sorted by address.
type Functions = Vec<(u64, String)>;

/// Call chains of the kernel, numbered, and the names of its functions.
pub(crate) struct Kernel {
    loading: Option<JoinHandle<Functions>>,
    functions: Functions,
    numbers: HashMap<Vec<u64>, Chain>,
    texts: Vec<String>,
}

/// What a call chain means.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chain {
    pub(crate) reason: Reason,
    /// The thread left in the work that the kernel does before a return to user mode. There, since
    /// Linux 6.18, a thread whose group has spent its quota leaves the run queue.
    pub(crate) is_at_work: bool,
}

/// How many call chains are kept apart.
const MOST_CHAINS: usize = 4096;

impl Kernel {
    /// Starts to read the names in the background: it takes as long as many programs run.
    pub(crate) fn new() -> Self {
        Kernel {
            loading: std::thread::Builder::new().spawn(load).ok(),
            functions: Vec::new(),
            numbers: HashMap::new(),
            texts: vec!["in the kernel".to_owned()],
        }
    }

    /// Returns the meaning of a call chain, the innermost address first.
    pub(crate) fn chain(&mut self, addresses: Vec<u64>) -> Chain {
        if let Some(loading) = self.loading.take() {
            self.functions = loading.join().unwrap_or_default();
        }
        if let Some(chain) = self.numbers.get(&addresses) {
            return *chain;
        }
        let unknown = Chain { reason: Reason(0), is_at_work: false };
        if self.functions.is_empty() || self.numbers.len() >= MOST_CHAINS {
            return unknown;
        }
        let names: Vec<&str> = addresses.iter().filter_map(|at| self.name(*at)).collect();
        let has = |part| names.iter().any(|name: &&str| name.contains(part));
        let is_at_work = has("task_work_run") && has("cond_resched");
        let reason = why(&names);
        let reason = self.reason(&reason);
        let chain = Chain { reason, is_at_work };
        self.numbers.insert(addresses, chain);
        chain
    }

    /// Returns the number for some words.
    pub(crate) fn reason(&mut self, text: &str) -> Reason {
        let known = self.texts.iter().position(|known| *known == text);
        let number = known.unwrap_or_else(|| {
            self.texts.push(text.to_owned());
            self.texts.len() - 1
        });
        Reason(u32::try_from(number).unwrap_or(0))
    }

    /// Returns the words for a number.
    pub(crate) fn text(&self, reason: Reason) -> &str {
        self.texts.get(reason.0 as usize).map_or("in the kernel", String::as_str)
    }

    fn name(&self, address: u64) -> Option<&str> {
        let next = self.functions.partition_point(|(start, _)| *start <= address);
        Some(&self.functions[next.checked_sub(1)?].1)
    }
}

fn load() -> Functions {
    // The first record waits for the names.
    platform::hurry();
    let text = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let function = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let kind = words.next()?;
        (address > 0 && kind.eq_ignore_ascii_case("t"))
            .then(|| words.next().map(str::to_owned))?
            .map(|name| (address, name))
    };
    let mut functions: Functions = text.lines().filter_map(function).collect();
    functions.sort();
    functions
}

/// Says in words why a thread with this call chain sleeps.
fn why(names: &[&str]) -> String {
    let has = |part: &str| names.iter().any(|name| name.contains(part));
    if has("exc_page_fault") || has("do_user_addr_fault") || has("handle_mm_fault") {
        let is_file =
            has("filemap_") || has("folio_wait") || has("do_fault") || has("do_read_fault");
        return if is_file { "page fault of a file" } else { "page fault" }.to_owned();
    }
    let call = names.iter().find_map(|name| {
        let name = ["__x64_sys_", "__arm64_sys_", "__do_sys_", "__se_sys_", "ksys_"]
            .iter()
            .find_map(|start| name.strip_prefix(start))?;
        Some(name.split('.').next().unwrap_or(name))
    });
    match call {
        Some("nanosleep" | "clock_nanosleep") => "sleep for a time".to_owned(),
        Some(call) if has("io_schedule") || has("folio_wait") || has("submit_bio") => {
            format!("{call}, a disk")
        }
        Some(call) if has("pipe_") => format!("{call}, a pipe"),
        Some(call) if has("sock_") || has("unix_") || has("tcp_") => format!("{call}, a socket"),
        Some(call) if has("rwsem_down") || has("mutex_lock") => format!("{call}, a kernel lock"),
        Some(call) => call.to_owned(),
        None => {
            let common = ["__schedule", "schedule", "__traceiter", "perf_"];
            let own = names.iter().find(|name| !common.iter().any(|part| name.starts_with(part)));
            own.map_or("in the kernel", |name| name).to_owned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::why;

    #[test]
    fn chains_are_said_in_words() {
        let chain = ["schedule", "do_nanosleep", "hrtimer_nanosleep", "__x64_sys_clock_nanosleep"];
        assert_eq!(why(&chain), "sleep for a time");
        let chain = ["schedule", "anon_pipe_read", "vfs_read", "ksys_read", "do_syscall_64"];
        assert_eq!(why(&chain), "read, a pipe");
        let chain = ["schedule", "io_schedule", "folio_wait_bit_common", "filemap_fault"];
        let chain = [&chain[..], &["handle_mm_fault", "exc_page_fault"]].concat();
        assert_eq!(why(&chain), "page fault of a file");
        assert_eq!(why(&["__schedule", "schedule", "odd_function"]), "odd_function");
    }
}
