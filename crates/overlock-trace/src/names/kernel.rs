//! Why a thread left its processor, by the kernel's own call chain, or by its system call.

use super::Kind;
use super::table::{Line, lines};
use crate::analysis::Reason;
use crate::analysis::hash::HashMap;
use std::cell::{Cell, OnceCell};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::thread::JoinHandle;

/// The kernel's functions, sorted by address.
type Functions = Vec<(u64, String)>;

/// Call chains of the kernel and words for them, numbered, and the names of its functions. These
/// are read when the first chain comes, and waited for when words are wanted: that takes as long
/// as many programs run.
pub(crate) struct Kernel {
    loading: Cell<Option<JoinHandle<Functions>>>,
    functions: OnceCell<Functions>,
    chains: HashMap<Vec<u64>, Reason>,
    words: HashMap<(Kind, String), Reason>,
    reasons: Vec<Why>,
    /// What threads have slept in at an instruction of a process.
    places: HashMap<(u32, u64), Vec<Reason>>,
    /// Whether processes can write themselves into pipes that they wait for.
    own_pipes: HashMap<(u32, PathBuf), bool>,
}

/// What a reason stands for.
#[derive(Default)]
struct Why {
    chain: Vec<u64>,
    words: OnceCell<(Kind, String)>,
    is_at_work: OnceCell<bool>,
}

/// A sleep in something that is not known.
const UNKNOWN: Reason = Reason(0);
/// A sleep in a wait for a futex.
pub(crate) const FUTEX: Reason = Reason(1);
/// How many reasons are kept apart.
const MOST_REASONS: usize = 4096;
/// How many places are remembered, and how many reasons of each.
const MOST_PLACES: usize = 1 << 16;
const MOST_OF_PLACE: usize = 8;

impl Default for Kernel {
    fn default() -> Self {
        let mut kernel = Kernel {
            loading: Cell::new(None),
            functions: OnceCell::new(),
            chains: HashMap::default(),
            words: HashMap::default(),
            reasons: Vec::new(),
            places: HashMap::default(),
            own_pipes: HashMap::default(),
        };
        let known = [(Kind::Unknown, "in the kernel"), (Kind::Futex, "futex")];
        let numbers = known.map(|(kind, words)| kernel.reason(kind, words));
        debug_assert_eq!(numbers, [UNKNOWN, FUTEX]);
        kernel
    }
}

impl Kernel {
    /// Returns the number for a call chain, the innermost address first.
    pub(crate) fn chain(&mut self, chain: Vec<u64>) -> Reason {
        if let Some(reason) = self.chains.get(&chain) {
            return *reason;
        }
        if self.chains.is_empty() {
            self.loading.set(std::thread::Builder::new().spawn(load).ok());
        }
        let reason = self.number(Why { chain: chain.clone(), ..Why::default() });
        if reason != UNKNOWN {
            self.chains.insert(chain, reason);
        }
        reason
    }

    /// Returns whether a thread left its processor in the work that the kernel does before a return
    /// to user mode. There, since Linux 6.18, a thread whose group has spent its quota leaves the
    /// run queue.
    pub(crate) fn is_at_work(&mut self, chain: Vec<u64>) -> bool {
        let reason = self.chain(chain);
        let Some(why) = self.reasons.get(reason.0 as usize) else { return false };
        let has = |part| self.names(&why.chain).any(|name| name.contains(part));
        *why.is_at_work.get_or_init(|| has("task_work_run") && has("cond_resched"))
    }

    /// A thread sleeps at an instruction of its process, for this reason.
    pub(crate) fn learns(&mut self, place: (u32, u64), reason: Reason) {
        if self.places.len() >= MOST_PLACES && !self.places.contains_key(&place) {
            return;
        }
        let known = self.places.entry(place).or_default();
        if known.contains(&reason) {
            return;
        }
        if known.len() < MOST_OF_PLACE {
            known.push(reason);
            return;
        }
        let first = known[0];
        if self.text(reason) != self.text(first) {
            // There is no room for it, but it has to be known that there are two.
            self.places.insert(place, vec![first, reason]);
        }
    }

    /// A process has ended, or runs another program.
    pub(crate) fn forget(&mut self, process: u32) {
        self.places.retain(|(of, _), _| *of != process);
    }

    /// Returns why a thread sleeps there, if the words are the same for all that did so before.
    pub(crate) fn reason_at(&self, place: (u32, u64)) -> Reason {
        let Some([first, others @ ..]) = self.places.get(&place).map(Vec::as_slice) else {
            return UNKNOWN;
        };
        let is_same = |other: &Reason| self.text(*other) == self.text(*first);
        if others.iter().all(is_same) { *first } else { UNKNOWN }
    }

    /// Returns the number for some words of a kind.
    pub(crate) fn reason(&mut self, kind: Kind, words: &str) -> Reason {
        let words = (kind, words.to_owned());
        if let Some(reason) = self.words.get(&words) {
            return *reason;
        }
        let reason = self.number(Why { words: words.clone().into(), ..Why::default() });
        self.words.insert(words, reason);
        reason
    }

    /// Returns the number for a system call with a first argument that may be a file of a process,
    /// of a type, if that is known: the upper bits of its mode.
    pub(crate) fn call(
        &mut self,
        process: u32,
        call: i64,
        (file, kind): (u64, Option<u8>),
    ) -> Reason {
        let number = call.to_string();
        let found = lines("calls").iter().find_map(|line| {
            let (of, name) = line.name.split_once(' ')?;
            (of == number).then_some((line, name))
        });
        let Some((line, name)) = found else {
            return self.reason(Kind::Call, &format!("system call {call}"));
        };
        let (kind, what) = match line.kind {
            // By the number of a file that has been closed, there may be another.
            Kind::Call if call == libc::SYS_close => (Kind::Call, ""),
            Kind::Call => self.file(process, file, kind).unwrap_or((Kind::Call, "")),
            kind => (kind, line.words),
        };
        self.reason(kind, &words(name, what))
    }

    /// Returns what an open file of a process is, or was: by its number there may be another one
    /// now.
    fn file(
        &mut self,
        process: u32,
        descriptor: u64,
        kind: Option<u8>,
    ) -> Option<(Kind, &'static str)> {
        let folder = PathBuf::from(format!("/proc/{process}/fd"));
        let link = std::fs::read_link(folder.join(descriptor.to_string())).unwrap_or_default();
        let is_it = |line: &&Line| link.to_str().is_some_and(|name| name.starts_with(line.name));
        let is_of = |line: &&Line| kind.is_none_or(|kind| types(line.kind).contains(&kind));
        let Some(line) = lines("files").iter().find(is_it).filter(is_of) else {
            let line = lines("files").iter().find(|line| kind.is_some_and(|_| is_of(line)))?;
            return Some((line.kind, line.words)).filter(|_| kind != Some(0) && kind != Some(2));
        };
        if line.kind != Kind::Pipe {
            return Some((line.kind, line.words));
        }
        if self.own_pipes.len() >= MOST_PLACES {
            self.own_pipes.clear();
        }
        let is_own = self.own_pipes.entry((process, link)).or_insert_with_key(|(_, link)| {
            let mut files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            files.any(|file| {
                std::fs::read_link(file.path()).is_ok_and(|of| of == *link)
                    && file.metadata().is_ok_and(|of| of.permissions().mode() & 0o200 != 0)
            })
        });
        Some(if *is_own { (Kind::OwnPipe, "a pipe of its own") } else { (line.kind, line.words) })
    }

    /// Returns the kind and the words for a number.
    pub(crate) fn why(&self, reason: Reason) -> (Kind, &str) {
        let Some(one) = self.reasons.get(reason.0 as usize) else {
            return (Kind::Unknown, "in the kernel");
        };
        let words = one.words.get_or_init(|| why(&self.names(&one.chain).collect::<Vec<_>>()));
        (words.0, &words.1)
    }

    /// Returns the words for a number.
    pub(crate) fn text(&self, reason: Reason) -> &str {
        self.why(reason).1
    }

    fn number(&mut self, why: Why) -> Reason {
        if self.reasons.len() >= MOST_REASONS {
            return UNKNOWN;
        }
        self.reasons.push(why);
        u32::try_from(self.reasons.len() - 1).map_or(UNKNOWN, Reason)
    }

    /// Returns the names of the functions of a chain, as far as they are known.
    fn names(&self, chain: &[u64]) -> impl Iterator<Item = &str> {
        let functions = self.functions.get_or_init(|| {
            let loaded = self.loading.take().map(JoinHandle::join);
            loaded.and_then(Result::ok).unwrap_or_default()
        });
        chain.iter().filter_map(|address| {
            let next = functions.partition_point(|(start, _)| start <= address);
            Some(&*functions.get(next.checked_sub(1)?)?.1)
        })
    }
}

/// Returns which types of files are of a kind: the upper bits of their modes (inode(7)).
fn types(kind: Kind) -> &'static [u8] {
    match kind {
        Kind::Pipe => &[1],
        Kind::Terminal => &[2],
        Kind::Disk => &[4, 6, 8],
        Kind::Socket => &[12],
        _ => &[0],
    }
}

fn load() -> Functions {
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

fn words(call: &str, what: &str) -> String {
    match what {
        "" => call.to_owned(),
        "time" => "sleep for a time".to_owned(),
        what => format!("{call}, {what}"),
    }
}

/// Says what a thread with this call chain sleeps for, and in words.
fn why(names: &[&str]) -> (Kind, String) {
    let has = |part: &str| names.iter().any(|name| name.contains(part));
    let found = lines("kernel").iter().find(|line| has(line.name));
    let found = found.map(|line| (line.name, line.kind, line.words));
    if has("exc_page_fault") || has("do_user_addr_fault") || has("handle_mm_fault") {
        let is_file =
            has("filemap_") || has("folio_wait") || has("do_fault") || has("do_read_fault");
        return match found {
            Some((_, Kind::KernelLock, what)) => (Kind::KernelLock, words("page fault", what)),
            _ if is_file => (Kind::Fault, "page fault of a file".to_owned()),
            _ => (Kind::Fault, "page fault".to_owned()),
        };
    }
    let call = names.iter().find_map(|name| {
        let name = ["__x64_sys_", "__arm64_sys_", "__do_sys_", "__se_sys_", "ksys_"]
            .iter()
            .find_map(|start| name.strip_prefix(start))?;
        Some(name.split('.').next().unwrap_or(name))
    });
    match (call, found) {
        (Some(call), Some((_, kind, what))) => (kind, words(call, what)),
        (Some(call), None) => (Kind::Call, call.to_owned()),
        (None, Some((part, kind, what))) => (kind, words(part.trim_end_matches('_'), what)),
        (None, None) => {
            let common = ["__schedule", "schedule", "__traceiter", "perf_"];
            let own = names.iter().find(|name| !common.iter().any(|part| name.starts_with(part)));
            (Kind::Unknown, own.map_or("in the kernel", |name| name).to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(functions: &[(u64, &str)]) -> Kernel {
        let kernel = Kernel::default();
        let functions = functions.iter().map(|(at, name)| (*at, (*name).to_owned())).collect();
        kernel.functions.set(functions).unwrap();
        kernel
    }

    #[test]
    fn a_place_with_two_reasons_has_none() {
        let mut kernel = with(&[(10, "__x64_sys_read")]);
        let (read, write) = (kernel.reason(Kind::Call, "read"), kernel.reason(Kind::Call, "write"));
        let also_read = kernel.chain(vec![15]);
        let (here, there) = ((1, 0x10), (2, 0x10));
        assert_eq!(kernel.reason_at(here), UNKNOWN);
        kernel.learns(here, read);
        kernel.learns(here, also_read);
        kernel.learns(there, write);
        assert_eq!((kernel.reason_at(here), kernel.reason_at(there)), (read, write));
        kernel.learns(here, write);
        assert_eq!((kernel.reason_at(here), kernel.reason_at(there)), (UNKNOWN, write));
    }

    #[test]
    fn of_a_place_with_many_chains_each_one_counts() {
        let mut kernel = with(&[(10, "__x64_sys_read"), (30, "__x64_sys_write")]);
        let here = (1, 0x10);
        for at in 10..30 {
            let read = kernel.chain(vec![at]);
            kernel.learns(here, read);
        }
        assert_eq!(kernel.text(kernel.reason_at(here)), "read");
        let write = kernel.chain(vec![30]);
        kernel.learns(here, write);
        assert_eq!(kernel.reason_at(here), UNKNOWN);
        kernel.forget(here.0);
        kernel.learns(here, write);
        assert_eq!(kernel.reason_at(here), write);
    }

    #[test]
    fn chains_without_end_take_no_memory_without_end() {
        let mut kernel = Kernel::default();
        for at in 0..2 * MOST_REASONS as u64 {
            kernel.chain(vec![at]);
        }
        assert!(kernel.chains.len() <= MOST_REASONS, "{}", kernel.chains.len());
    }

    #[test]
    fn chains_are_said_in_words() {
        let said = |chain: &str| why(&chain.split(' ').collect::<Vec<_>>());
        let sleep = "schedule do_nanosleep hrtimer_nanosleep __x64_sys_clock_nanosleep";
        assert_eq!(said(sleep).1, "sleep for a time");
        assert_eq!(
            said("schedule anon_pipe_read vfs_read ksys_read do_syscall_64").1,
            "read, a pipe"
        );
        let fault = "schedule io_schedule folio_wait_bit_common filemap_fault handle_mm_fault exc_page_fault";
        assert_eq!(said(fault), (Kind::Fault, "page fault of a file".into()));
        assert_eq!(said("__schedule schedule odd_function").1, "odd_function");
        // The function of the system call itself is left out where it ends with a jump.
        let semop = "schedule __do_semtimedop do_semtimedop do_syscall_64";
        assert_eq!(said(semop), (Kind::SysV, "semtimedop, a SysV semaphore".into()));
        let flock = "schedule locks_lock_inode_wait __do_sys_flock do_syscall_64";
        assert_eq!(said(flock), (Kind::FileLock, "flock, a file lock".into()));
        for line in lines("kernel") {
            let chain: Vec<&str> = line.example.split(" <- ").collect();
            let has = |part| chain.iter().any(|one| one.contains(part));
            let first = lines("kernel").iter().find(|line| has(line.name));
            let (found, words) = why(&chain);
            assert_eq!((first.unwrap().name, found), (line.name, line.kind), "{chain:?}");
            assert!(words.ends_with(line.words) || line.words == "time", "{words}");
        }
    }

    #[test]
    fn names_are_looked_up_when_they_are_wanted() {
        let mut kernel = with(&[(10, "schedule"), (20, "task_work_run"), (30, "x_cond_resched")]);
        let (sleep, work) = (kernel.chain(vec![15, 20]), vec![15, 25, 31]);
        assert_eq!(kernel.chain(vec![15, 20]), sleep);
        assert_eq!(kernel.text(sleep), "task_work_run");
        assert!(kernel.is_at_work(work) && !kernel.is_at_work(vec![15, 20]));
        assert_eq!(kernel.text(FUTEX), "futex");
        assert_eq!(kernel.reason(Kind::Futex, "futex"), FUTEX);
    }

    #[test]
    fn each_call_of_the_table_is_told() {
        let mut kernel = Kernel::default();
        for line in lines("calls") {
            let (number, name) = line.name.split_once(' ').unwrap();
            let reason = kernel.call(0, number.parse().unwrap(), (0, None));
            assert_eq!(kernel.why(reason), (line.kind, &*words(name, line.words)));
        }
        // The call does not tell which of the two it is.
        let write = kernel.call(0, libc::SYS_pwrite64, (0, None));
        assert_eq!(kernel.text(write), "pwrite64, a disk, or a lock of its file");
        assert!(lines("calls").len() > 40, "a table that is not read is empty");
        let process = std::process::id();
        let own = (Kind::OwnPipe, "read, a pipe of its own");
        for (is_own, told) in [(true, own), (false, (Kind::Pipe, "read, a pipe"))] {
            let (reads, writes) = std::io::pipe().unwrap();
            let _writes = is_own.then_some(writes);
            let mut kernel = Kernel::default();
            let file = std::os::fd::AsRawFd::as_raw_fd(&reads).unsigned_abs().into();
            for kind in [None, Some(1)] {
                let reason = kernel.call(process, libc::SYS_read, (file, kind));
                assert_eq!(kernel.why(reason), told);
            }
            // By that number there was another file when the call was made.
            for (kind, told) in [(12, "read, a socket"), (0, "read"), (2, "read")] {
                let reason = kernel.call(process, libc::SYS_read, (file, Some(kind)));
                assert_eq!(kernel.text(reason), told);
            }
            let reason = kernel.call(process, libc::SYS_close, (file, None));
            assert_eq!(kernel.text(reason), "close");
        }
    }
}
