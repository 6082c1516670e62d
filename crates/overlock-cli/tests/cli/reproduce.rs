// SPDX-License-Identifier: MIT OR Apache-2.0
//! What `reproduce` counts: the instructions of locks as they are built here.

use crate::support::{Said, overlock, said};
use serde_json::Value;
use std::io::{self, Write, stderr};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// The counts, or nothing where no child may be traced.
fn counted(said: &Said) -> Option<Vec<Value>> {
    assert_eq!(said.code, Some(0), "{said:?}");
    if said.stderr.contains("skipped: the instructions") {
        writeln!(stderr(), "SKIPPED counts of instructions: {}", said.stderr).expect("stderr");
        return None;
    }
    Some(said.records("instructions"))
}

/// The one count of a lock that is released so.
#[track_caller]
fn of<'a>(counts: &'a [Value], lock: &str, release: &str) -> &'a Value {
    let is_it = |count: &&Value| count["lock"] == lock && count["release"] == release;
    counts.iter().find(is_it).unwrap_or_else(|| panic!("no {lock}, {release} in {counts:?}"))
}

#[test]
fn a_switch_costs_instructions_and_a_paravirtual_release_a_locked_one() {
    let said = said(&["reproduce", "S1", "--quick", "--json", "--no-lab"]);
    let Some(counts) = counted(&said) else { return };
    let native = of(&counts, "native-ticket", "instruction");
    let (off, on) =
        (of(&counts, "ticket-off", "instruction"), of(&counts, "ticket", "instruction"));
    for (count, locked) in [(native, 1), (off, 1), (on, 2)] {
        let each = |half: &str, what: &str| count[half][what].as_u64().unwrap();
        assert_eq!(each("locking", "locked") + each("unlocking", "locked"), locked, "{count}");
        assert!(each("locking", "instructions") > 2 && each("unlocking", "instructions") > 1);
    }
    let extra = |count: &Value| count["extra_instructions"].as_i64().unwrap();
    assert_eq!(extra(native), 0, "{native}");
    assert!(0 < extra(off) && extra(off) < extra(on), "{off} {on}");
    assert!(on["of_operation"].as_f64().unwrap() < 0.02, "within the noise: {on}");
    assert_eq!((&on["published"], &on["size_agrees"]), (&5.into(), &5.into()), "{on}");
    let sequences: Vec<_> = counts.iter().filter(|count| count["release"] == "sequence").collect();
    for count in &sequences {
        // One that was cut off would have released by a locked instruction after all.
        assert_eq!(count["unlocking"]["locked"], 0, "{count}");
    }
    if sequences.is_empty() {
        writeln!(stderr(), "SKIPPED restartable sequences: there are none here").expect("stderr");
    }
    let figures = said.records("reproduced");
    let figure = |name: &str, lock: &str| {
        let is_it = |one: &&Value| one["figure"] == name && one["lock"] == lock;
        figures.iter().find(is_it).unwrap().clone()
    };
    let locked = figure("pair_locked", "ticket");
    assert_eq!(locked["ours"]["median"], 0.5, "twice as many are half as good: {locked}");
    assert_eq!((&locked["direction"], &locked["size"]), (&"yes".into(), &"yes".into()));
    let instructions = figure("pair_instructions", "ticket");
    assert!((instructions["published_ratio"].as_f64().unwrap() - 14.0 / 18.0).abs() < 1e-9);
}

#[test]
fn counts_that_differ_from_the_published_ones_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    // A test-and-set lock is taken by a locked instruction, and released by a store or another.
    let text = |value: u32| {
        format!(
            "about = ''\nsource = ''\nworkload = 'micro'\n[factors]\n\
             locks = ['native-test-and-set', 'test-and-set']\ncpus = [1]\n\
             [host]\nmachine = 'dev-kvm'\npcpus = 1\nseconds = 0.001\n\
             [[published]]\nlock = 'test-and-set'\ncpus = 1\nfigure = 'pair_locked'\n\
             value = {value}\nless_is_better = true\nsource = ''\n\
             over = {{ lock = 'native-test-and-set', value = 1 }}\n"
        )
    };
    for (value, direction, size) in [(2, "yes", "yes"), (9, "yes", "no"), (1, "no", "no")] {
        std::fs::write(&path, text(value)).unwrap();
        let said =
            said(&["reproduce", "--json", "--no-lab", "--experiment", path.to_str().unwrap()]);
        if counted(&said).is_none() {
            return;
        }
        let [figure] = &said.records("reproduced")[..] else { panic!("{said:?}") };
        assert_eq!((&figure["direction"], &figure["size"]), (&direction.into(), &size.into()));
    }
}

#[test]
fn the_same_experiments_run_on_real_vcpus_at_the_same_overcommit() {
    let said = said(&["reproduce", "S4", "S3", "--quick", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let figures = said.records("reproduced");
    let here: Vec<_> = figures.iter().filter(|figure| figure["world"] == "kvm").collect();
    if said.stderr.contains("skipped: the laboratory's side") {
        assert!(here.is_empty(), "{said:?}");
        writeln!(stderr(), "SKIPPED the laboratory: {}", said.stderr).expect("stderr");
        return;
    }
    let number = |figure: &Value, name: &str| figure[name].as_u64().unwrap();
    let mut overcommits = Vec::new();
    for figure in &here {
        let pcpus = if figure["experiment"] == "s4-36-cores" || figure["experiment"] == "s4-micro" {
            36
        } else if figure["experiment"] == "s3" {
            16
        } else {
            32
        };
        let (own, pcpus_here) = (number(figure, "ours_cpus"), number(figure, "ours_pcpus"));
        assert_eq!(number(figure, "cpus") * pcpus_here, own * pcpus, "{figure}");
        let simulated = |one: &&Value| {
            let same = |name: &str| one[name] == figure[name];
            one["world"] == "sim" && same("experiment") && same("lock") && same("figure")
        };
        assert!(figures.iter().any(|one| simulated(&one)), "{figure}");
        assert!(figure["ours"]["median"].as_f64().unwrap() >= 0.0, "{figure}");
        overcommits.push(own);
    }
    assert!(overcommits.contains(&6) && overcommits.contains(&1), "1x to 3x: {overcommits:?}");
    let sequential = here.iter().filter(|figure| figure["experiment"] == "s3").count();
    assert_eq!(sequential, 1, "by the lock with sequentially consistent accesses: {said:?}");
}

#[test]
fn without_the_laboratory_there_is_none() {
    let said = said(&["reproduce", "S3", "--quick", "--json", "--no-lab"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.records("reproduced").iter().all(|figure| figure["world"] == "sim"), "{said:?}");
    assert!(!said.stderr.contains("laboratory"), "{said:?}");
}

#[test]
fn where_nothing_may_be_traced_counts_are_skipped_and_said_to_be() {
    let mut command = overlock(&["reproduce", "S1", "--quick", "--json", "--no-lab"]);
    // SAFETY: the two calls may be made between fork and exec.
    unsafe { command.pre_exec(forbid_ptrace) };
    let said = Said::from(command.output().unwrap());
    said.ends(0, "skipped: the instructions of s1: a process may not trace its children here");
    assert_eq!(said.records("instructions").len(), 0, "{said:?}");
    let figures = said.records("reproduced");
    assert_eq!(figures.len(), 10, "the simulated ones: {said:?}");
    let lost = Command::new(crate::support::OVERLOCK).args(["count-child", "luck"]).output();
    Said::from(lost.unwrap()).ends(2, "there is no lock 'luck'");
}

/// Has every `ptrace` of this process and its children refused.
fn forbid_ptrace() -> io::Result<()> {
    // The number of a call is the first word of what a filter sees.
    const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const UNLESS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const ANSWER: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let code = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let refused = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    let mut filter = [
        code(LOAD, 0, 0),
        code(UNLESS, 1, libc::SYS_ptrace as u32),
        code(ANSWER, 0, refused),
        code(ANSWER, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: takes numbers only.
    let able = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } == 0;
    let (set, by_filter) = (libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER);
    // SAFETY: the program and its instructions are live, and copied.
    if able && unsafe { libc::prctl(set, by_filter, &raw const program) } == 0 {
        return Ok(());
    }
    Err(io::Error::last_os_error())
}
