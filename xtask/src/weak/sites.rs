//! Do the slow halves steal like the fast ones, with acquire alone?
//!
//! There the compiler mixes a steal with much else into one function, some of which has to release.
//! So each atomic instruction of the linked probes is traced, by the debug information, to the
//! source function from which it was inlined; what those functions order is then as clear as in a
//! separate function.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::code::{ACQUIRE, BOTH, Order, RELAXED, TOO_STRONG, order};

/// The functions all of whose atomic instructions are attempts to take a lock: module and name.
const TAKING: [(&str, &str); 4] = [
    ("::queue::", "::try_take"),
    ("::queue::", "::take_past_reservation"),
    ("::newcomer::", "::take_past_halted"),
    ("::head::", "::take"),
];

/// Functions that only pass an access on: those of the cells, and of the types around them.
const CELLS: [&str; 5] = [
    "core::sync::atomic",
    "overlock::atomic",
    "::word::queue::cas",
    "::word::queue::update",
    "::slot::node::State",
];

/// Checks a library of probes made of exclusive pairs, with debug information. Returns a summary of
/// what it checked.
pub(super) fn check(library: &Path) -> Result<String> {
    let listing = said(tool("objdump").args(["-d", "--no-show-raw-insn"]).arg(library))?;
    let instructions = ordered(&listing);
    let mut trace = tool("addr2line");
    trace.args(["--addresses", "--inlines", "--functions", "--demangle", "-e"]).arg(library);
    let traces = said(trace.args(instructions.keys()))?;
    verdict(&sites(&instructions, &traces))
}

/// The cross binutils.
pub(super) fn tool(name: &str) -> Command {
    Command::new(format!("aarch64-linux-gnu-{name}"))
}

fn said(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("{command:?} did not start"))?;
    ensure!(out.status.success(), "{command:?} failed");
    Ok(String::from_utf8(out.stdout)?)
}

/// Returns the instructions in a disassembly that order anything, by address.
fn ordered(listing: &str) -> BTreeMap<String, Order> {
    let parse = |line: &str| {
        let (address, instruction) = line.split_once(":\t")?;
        let order = order(instruction);
        (order != RELAXED).then(|| (format!("0x{:0>16}", address.trim()), order))
    };
    listing.lines().filter_map(parse).collect()
}

/// Returns what each function of the source orders, from the chains of inlined functions that
/// `addr2line` prints: an address, then pairs of a function and its place, innermost first.
fn sites<'a>(
    instructions: &BTreeMap<String, Order>,
    traces: &'a str,
) -> BTreeMap<&'a str, (Order, usize)> {
    let cell = |name: &str| CELLS.iter().any(|cell| name.contains(cell));
    let mut sites: BTreeMap<&str, (Order, usize)> = BTreeMap::new();
    let mut found: Option<Order> = None;
    let mut lines = traces.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            found = instructions.get(line).copied();
            continue;
        }
        let _place = lines.next();
        // The first function that does not belong to a cell contains the access.
        if let Some(order) = found.take_if(|_| !cell(line)) {
            let name = line.split("::{{closure}}").next().unwrap_or(line);
            let site = sites.entry(name).or_insert((RELAXED, 0));
            *site = (site.0 | order, site.1 + 1);
        }
    }
    sites
}

fn verdict(sites: &BTreeMap<&str, (Order, usize)>) -> Result<String> {
    let mut checked = 0;
    for (module, function) in TAKING {
        let is_it = |name: &str| name.contains(module) && name.ends_with(function);
        let here: Vec<_> = sites.iter().filter(|(name, _)| is_it(name)).collect();
        ensure!(!here.is_empty(), "nothing was inlined from {module}..{function}: {sites:#?}");
        for (name, (found, count)) in here {
            ensure!(*found == ACQUIRE, "{name} is {found:?} and should be {ACQUIRE:?}");
            checked += count;
        }
    }
    let strong = sites.get(TOO_STRONG).map(|(order, _)| *order);
    ensure!(strong == Some(BOTH), "the check does not notice {TOO_STRONG}: {strong:?}");
    Ok(format!("{checked} instructions take a lock and acquire only; {TOO_STRONG} is noticed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steal_that_releases_is_found_where_it_was_inlined() {
        let chain = |address: &str, site: &str| {
            format!(
                "{address}\n<core::sync::atomic::Atomic<u32>>::compare_exchange\natomic.rs:1\n\
                 {site}\nlock.rs:2\noverlock::raw::queue::QueueLock<P,O,C>::lock_slow\nqueue.rs:3\n"
            )
        };
        let (at, after) = ("0x0000000000003d8c", "0x0000000000003d98");
        let mut traces = String::new();
        for (module, function) in TAKING {
            traces +=
                &chain(at, &format!("overlock::raw{module}Lock<P,C>{function}::{{{{closure}}}}"));
        }
        let found = |store: &str, traces: &str| {
            let listing = format!("    3d8c:\tldaxr\tw8, [x9]\n    3d98:\t{store}\tw9, w8, [x9]\n");
            let strong = chain(at, TOO_STRONG) + &chain(after, TOO_STRONG);
            verdict(&sites(&ordered(&listing), &(strong + traces)))
        };
        assert!(found("stlxr", &traces).is_ok());
        let bad =
            traces.clone() + &chain(after, "overlock::raw::queue::QueueLock<P,O,C>::try_take");
        assert!(found("stlxr", &bad).is_err());
        // The strong probe would look like all others to a check that ignores releases.
        assert!(found("stxr", &traces).is_err());
        assert!(found("stlxr", "").is_err(), "nothing to check is no success");
    }
}
