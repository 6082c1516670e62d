// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock boot`: kernels that really start, and the ways in which they fail to.
//!
//! Machines are emulated, so nothing here depends on /dev/kvm. If QEMU or Xen is missing, a test
//! skips and reports it.

use super::support::{Said, interrupt, overlock, said};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

fn skip(what: &str) {
    writeln!(io::stderr(), "skipped: {what}").expect("stderr takes a line");
}

pub(crate) fn has_qemu() -> bool {
    let found = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !found {
        skip("kernels: there is no qemu-system-x86_64 (apt-get install qemu-system-x86)");
    }
    found
}

pub(crate) fn has_xen() -> bool {
    let found = std::fs::read_dir("/boot").is_ok_and(|mut entries| {
        entries.any(|e| e.is_ok_and(|e| e.file_name().to_string_lossy().starts_with("xen-")))
    });
    if !found {
        skip("Xen: it is not in /boot (apt-get install xen-hypervisor-4.17-amd64)");
    }
    found && has_qemu()
}

/// Other tests keep the host's CPUs busy meanwhile.
pub(crate) const PATIENT: [&str; 2] = ["--timeout", "600"];

/// Asserts that every check of a kernel in this world is fine, and that there are at least this
/// many.
fn verified(world: &[&str], least: usize) {
    let said = said(&[&["boot", "--json", "--cpus", "4"], world, &PATIENT].concat());
    let checks = said.records("check");
    for check in &checks {
        assert_eq!(check["fine"], true, "{check}");
    }
    assert!(checks.len() >= least, "{} checks: {said:?}", checks.len());
    said.ends(0, "");
}

#[test]
fn a_bare_machine_keeps_the_contract() {
    if has_qemu() {
        verified(&["--verify", "--on", "tcg"], 50);
    }
}

/// As a confidential guest has to, whose `hlt` traps (F12).
#[test]
fn a_machine_that_halts_by_a_call_keeps_the_contract() {
    if has_qemu() {
        // Halted CPUs poll, which takes QEMU's big lock: on a busy host they hold each other up.
        verified(&["--verify", "--on", "tcg", "--halt-by-call"], 50);
    }
}

#[test]
fn a_stand_in_for_kvm_keeps_the_contract() {
    if has_qemu() {
        verified(&["--verify", "--on", "kvm", "--stand-in"], 50);
    }
}

#[test]
fn xen_keeps_the_contract() {
    if has_xen() {
        verified(&["--verify", "--on", "xen"], 48);
    }
}

/// 8 vCPUs on 2 processors: a kick that was sent, or Xen itself, ends every poll, and no update is
/// lost.
#[test]
fn polls_under_xen_are_ended_by_kicks() {
    if !has_xen() {
        return;
    }
    let args = ["boot", "--on", "xen", "--locks", "ticket,queued,hybrid", "--runs", "1", "--json"];
    let said = said(&[&args[..], &["--ops", "20000", "--seconds", "60"], &PATIENT].concat());
    for point in said.records("point") {
        let count = |event: &str| point["counters"][event].as_u64().unwrap_or(0);
        assert_eq!(point["lost"], 0, "{point}");
        assert_eq!(count("halts"), count("kicked") + count("overdue") + count("stray"), "{point}");
        assert!(count("kicked") + count("stale") <= count("kicks"), "{point}");
        assert!(count("kicked") > 0, "no vCPU waited: {point}");
    }
    said.ends(0, "");
}

/// The switch is patched into the code at boot, in either position: the locks wait, or never do.
#[test]
fn waiting_is_switched_at_boot() {
    if !has_qemu() {
        return;
    }
    let waits = |more: &[&str]| -> u64 {
        let args = ["boot", "--cpus", "4", "--cs", "50us", "--runs", "1", "--json", "--seconds"];
        let said = said(&[&args[..], &["0.1", "--locks", "paravirtual"], &PATIENT, more].concat());
        let count = |point: &serde_json::Value| -> u64 {
            let events = ["pv_wait_head", "pv_wait_node", "pv_wait_again", "pv_kick_unlock"];
            events.iter().filter_map(|event| point["counters"][event].as_u64()).sum()
        };
        let points = said.records("point");
        assert_eq!(points.len(), 4, "{said:?}");
        assert!(points.iter().all(|point| point["lost"] == 0), "{said:?}");
        points.iter().map(count).sum()
    };
    assert!(waits(&[]) > 0);
    assert_eq!(waits(&["--nopvspin"]), 0);
}

/// The locks need what the contract asks of a platform: without it they hang, and the report says
/// so.
#[test]
fn a_lock_on_a_platform_that_loses_kicks_hangs() {
    if !has_qemu() {
        return;
    }
    let lossy = ["--broken", "kicks-nobody", "--cpus", "4", "--cs", "50us", "--locks", "ticket"];
    said(&[&["boot", "--seconds", "0.2", "--timeout", "5"], &lossy[..]].concat())
        .ends(2, "the kernel hangs: not a word for 5 s");
}

#[test]
fn records_are_those_of_all_worlds() {
    if !has_qemu() {
        return;
    }
    let args = ["boot", "--cpus", "1,2", "--locks", "hybrid,native-hybrid", "--seconds", "0.05"];
    let said = said(&[&args[..], &["--runs", "2", "--json"]].concat());
    let points = said.records("point");
    assert_eq!(points.len(), 4, "{said:?}");
    for point in &points {
        assert_eq!(point["world"], "tcg");
        assert_eq!(point["lost"], 0);
        assert_eq!(point["samples"].as_array().map(Vec::len), Some(2));
        assert!(point["ops_per_s"]["median"].as_f64().is_some_and(|ops| ops > 0.0), "{point}");
    }
    said.ends(0, "");
}

#[test]
fn an_interrupted_kernel_says_that_there_are_no_results() {
    if !has_qemu() {
        return;
    }
    let mut command = overlock(&["boot", "--cpus", "1", "--seconds", "600", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains(r#""kind":"run""#));
    interrupt(child.id());
    let said: Said = child.wait_with_output().unwrap().into();
    said.ends(130, "so there are no results");
}

#[test]
fn a_panic_a_silence_and_a_reset_are_one_clear_error() {
    if !has_qemu() {
        return;
    }
    let work = |work, more: &[&str]| -> Said {
        said(&[&["boot", "--cpus", "1", "--work", work], more].concat())
    };
    work("fault", &[]).ends(2, "the kernel gave up: a fault, as asked for");
    work("hang", &["--timeout", "3"]).ends(2, "not a word for 3 s; it said last:");
    work("reset", &[]).ends(2, "the kernel reset the machine");
}

#[test]
fn a_missing_part_is_named_with_its_remedy() {
    let nowhere = |variable: &str, value: &str, args: &[&str]| -> Said {
        overlock(args).env(variable, value).output().expect("it starts").into()
    };
    // An image that exists, so that nothing is built.
    let image = Path::new(env!("CARGO_BIN_EXE_overlock")).to_str().expect("a name");
    let mut no_qemu = overlock(&["boot"]);
    no_qemu.env("OVERLOCK_IMAGE", image).env("PATH", "/nowhere");
    Said::from(no_qemu.output().expect("it starts"))
        .ends(2, "there is no qemu-system-x86_64; `apt-get install qemu-system-x86` brings it");
    nowhere("OVERLOCK_IMAGE", "/no/image", &["boot"]).ends(2, "OVERLOCK_IMAGE names /no/image");
    nowhere("OVERLOCK_IMAGE", image, &["boot", "--locks", "nonsense"])
        .ends(2, "no lock is called nonsense");
    let mut no_xen = overlock(&["boot", "--on", "xen"]);
    no_xen.env("OVERLOCK_IMAGE", image).env("OVERLOCK_XEN", "/no/xen");
    Said::from(no_xen.output().expect("it starts")).ends(2, "/no/xen can't be unpacked");
}
