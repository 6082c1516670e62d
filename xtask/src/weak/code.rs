//! Does the aarch64 code of the locks order as much as their source requires, and no more?
//!
//! On x86-64 an acquiring, a releasing and a full read-modify-write are the same instruction; on
//! aarch64 they are not, and S3's point is that a lock is taken with acquire alone. The probes
//! (`crates/overlock/tests/code/probes.rs`) are functions around one verb of one lock each. This
//! file requires of the compiler's assembly: code that takes a lock acquires and does not release;
//! code that releases it releases and does not acquire; neither has a barrier. `NAME_try_lock` of
//! `hybrid` and `queued` is the stealing path by itself: one load, one CAS.
//!
//! The models check the source's orderings, and so does the audit, which refuses one that is
//! stronger than needed.

use std::collections::BTreeMap;
use std::ops::BitOr;

use anyhow::{Result, bail, ensure};

/// A kind of atomic instructions that aarch64 compilers emit.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// The compiler features that select it.
    pub(super) features: &'static str,
    /// The CAS of the stealing path: an instruction, or a function that is called.
    steal: &'static str,
}

/// Exclusive pairs; the single instructions of ARMv8.1; and calls to a function that chooses
/// between the two at run time, the default.
pub(super) const KINDS: &[Kind] = &[
    Kind { name: "LL/SC", features: "-lse,-outline-atomics", steal: "ldaxr" },
    Kind { name: "LSE", features: "+lse,-outline-atomics", steal: "casa" },
    Kind { name: "outlined", features: "+outline-atomics", steal: "__aarch64_cas4_acq" },
];

/// Functions that take a lock by stealing and do nothing else.
const STEALING: [&str; 4] = [
    "hybrid_native_try_lock",
    "hybrid_threads_try_lock",
    "queued_native_try_lock",
    "queued_threads_try_lock",
];

/// The probe with a CAS that is too strong, which the check must refuse.
const TOO_STRONG: &str = "strong_try_lock";

/// Ten locks with three verbs each.
const PROBES: usize = 30;

/// The order that the memory accesses of some code impose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Order {
    acquires: bool,
    releases: bool,
}

const RELAXED: Order = Order { acquires: false, releases: false };
const ACQUIRE: Order = Order { acquires: true, releases: false };
const RELEASE: Order = Order { acquires: false, releases: true };
const BOTH: Order = Order { acquires: true, releases: true };

impl BitOr for Order {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { acquires: self.acquires | other.acquires, releases: self.releases | other.releases }
    }
}

/// The instructions of ARMv8.1 whose name ends in their order, then in their size.
const SINGLE: [&str; 7] = ["cas", "swp", "ldadd", "ldclr", "ldeor", "ldset", "stadd"];

/// Returns what an instruction orders. Barriers of any kind count as everything: a lock needs none.
fn order(instruction: &str) -> Order {
    let mut words = instruction.split_whitespace();
    let name = words.next().unwrap_or_default();
    if let Some(helper) = words.next().and_then(|operand| operand.strip_prefix("__aarch64_")) {
        return Order { acquires: helper.contains("_acq"), releases: helper.ends_with("_rel") };
    }
    if let Some(suffix) = SINGLE.iter().find_map(|single| name.strip_prefix(single)) {
        let suffix = suffix.trim_end_matches(['b', 'h']);
        return Order { acquires: suffix.contains('a'), releases: suffix.contains('l') };
    }
    let starts = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
    if starts(&["dmb", "dsb"]) {
        BOTH
    } else if starts(&["ldar", "ldapr", "ldaxr"]) {
        ACQUIRE
    } else if starts(&["stlr", "stlxr"]) {
        RELEASE
    } else {
        RELAXED
    }
}

/// Returns the instructions of each function in a compiler's assembly. A function that the compiler
/// found to be the same as another has only an assignment.
fn functions(assembly: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut all: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut same = Vec::new();
    let mut name = "";
    for line in assembly.lines() {
        if let Some(code) = line.strip_prefix('\t') {
            if !code.starts_with('.') {
                all.entry(name).or_default().push(code);
            }
        } else if let Some((alias, other)) = line.split_once(" = ") {
            same.push((alias, other));
        } else if let Some(label) = line.strip_suffix(':').filter(|label| !label.starts_with('.')) {
            name = label;
        }
    }
    for (alias, other) in same {
        if let Some(code) = all.get(other).cloned() {
            all.insert(alias, code);
        }
    }
    all
}

/// Checks that a function orders what its verb requires.
fn is_right(name: &str, code: &[&str]) -> Result<()> {
    let wanted = if name.ends_with("_unlock") { RELEASE } else { ACQUIRE };
    let found = code.iter().map(|instruction| order(instruction)).fold(RELAXED, Order::bitor);
    ensure!(found == wanted, "{name} is {found:?} and should be {wanted:?}:\n{code:#?}");
    Ok(())
}

/// Checks the probes in a compiler's assembly. Returns a summary of what it checked.
pub(super) fn check(assembly: &str, kind: &Kind) -> Result<String> {
    let all = functions(assembly);
    let is_probe = |name: &str| name.ends_with("_lock") || name.ends_with("_unlock");
    let apart = |name: &str| name == TOO_STRONG || name == "fat_lock";
    let probes: Vec<_> = all.iter().filter(|(name, _)| is_probe(name) && !apart(name)).collect();
    ensure!(probes.len() == PROBES, "{} probes instead of {PROBES}", probes.len());
    for (name, code) in probes {
        is_right(name, code)?;
    }
    for name in STEALING {
        let steals = |code: &&str| code.split_whitespace().any(|word| word == kind.steal);
        ensure!(all[name].iter().any(steals), "{name} without {}: {:#?}", kind.steal, all[name]);
    }
    if is_right(TOO_STRONG, &all[TOO_STRONG]).is_ok() {
        bail!("the check does not notice {TOO_STRONG}: {:#?}", all[TOO_STRONG]);
    }
    Ok(format!("{PROBES} functions are right, {} steals; {TOO_STRONG} is refused", kind.steal))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_say_what_they_order() {
        for (instruction, expected) in [
            ("ldaxr\tw8, [x0]", ACQUIRE),
            ("ldaxrh\tw8, [x0]", ACQUIRE),
            ("ldxr\tw8, [x0]", RELAXED),
            ("stxr\tw9, w8, [x0]", RELAXED),
            ("stlxr\tw9, w8, [x0]", RELEASE),
            ("ldarh\tw8, [x0]", ACQUIRE),
            ("stlr\tw8, [x0]", RELEASE),
            ("casa\tw8, w9, [x0]", ACQUIRE),
            ("cash\tw10, w9, [x8]", RELAXED),
            ("casal\tw8, w9, [x0]", BOTH),
            ("swpl\tw8, w9, [x0]", RELEASE),
            ("ldaddlh\tw8, w9, [x0]", RELEASE),
            ("ldadd\tw8, w9, [x0]", RELAXED),
            ("ldrh\tw8, [x0]", RELAXED),
            ("bl\t__aarch64_cas4_acq", ACQUIRE),
            ("bl\t__aarch64_cas4_acq_rel", BOTH),
            ("bl\t__aarch64_ldadd4_rel", RELEASE),
            ("bl\t__aarch64_ldadd2_relax", RELAXED),
            ("dmb\tish", BOTH),
            ("ret", RELAXED),
        ] {
            assert_eq!(order(instruction), expected, "{instruction}");
        }
    }

    #[test]
    fn a_path_that_orders_too_much_or_too_little_is_refused() {
        let path = |take: &str| format!("a_lock:\n.LBB0_1:\n\t.cfi_startproc\n{take}\tret\n");
        let sound = |text: &str| is_right("a_lock", &functions(text)["a_lock"]).is_ok();
        assert!(sound(&path("\tldaxr\tw8, [x0]\n\tstxr\tw9, w1, [x0]\n")));
        assert!(!sound(&path("\tldaxr\tw8, [x0]\n\tstlxr\tw9, w1, [x0]\n")));
        assert!(!sound(&path("\tldxr\tw8, [x0]\n\tstxr\tw9, w1, [x0]\n")));
        assert!(!sound(&path("\tldxr\tw8, [x0]\n\tstxr\tw9, w1, [x0]\n\tdmb\tish\n")));
        let same = path("\tcasal\tw8, w9, [x0]\n") + "b_unlock = a_lock\n";
        assert!(is_right("b_unlock", &functions(&same)["b_unlock"]).is_err());
    }
}
