// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a host is told, or tells, that the command has no option for.

use super::PATIENCE;
use super::guest::{self, Ended};
use super::machine::{self, Machine};
use super::said::Said;
use std::io::{self, Write as _};

/// What the kernel said of waiting, and what KVM counted during one run of a lock on `smp` vCPUs.
fn under_kvm(smp: u32, options: &[&str], nopvspin: u8) -> (String, u64, u64) {
    let image = machine::image("kvm-guest").expect("an image").expect("no Ctrl-C");
    let plan = format!("do=micro ms=300 runs=1 cs=20000 locks=ticket nopvspin={nopvspin}");
    let machine = Machine::new("kvm-guest", smp, &image, &plan, options).expect("a machine");
    let (mut mode, mut counted) = (None, None);
    let ended = guest::run(machine, PATIENCE, |said| {
        match said {
            Said::Mode { why, .. } => mode = Some(why),
            Said::Host { counters } => counted = Some(counters),
            _ => {}
        }
        Ok(())
    });
    assert!(matches!(ended, Ok(Ended::Whole { fine: true })), "{ended:?}");
    let counted = counted.expect("KVM's counters");
    (mode.expect("a mode"), counted["hypercalls"], counted["halt_exits"])
}

/// The locks wait where the host takes vCPUs away and offers the kick, and nowhere else: the host
/// sees no hypercall and no halt.
#[test]
fn waiting_is_off_where_kvm_or_the_user_says_so() {
    if let Err(why) = machine::look_for("kvm-guest") {
        writeln!(io::stderr(), "skipped: {why:#}").expect("stderr takes a line");
        return;
    }
    let (why, hypercalls, halts) = under_kvm(4, &[], 0);
    assert!(why.is_empty() && hypercalls > 0 && halts > 0, "{why}: {hypercalls}, {halts}");
    for (smp, options, nopvspin, because) in [
        (4, &["--realtime"][..], 0, "KVM_HINTS_REALTIME"),
        (4, &["--no-unhalt"], 0, "the host offers no KVM_FEATURE_PV_UNHALT"),
        (1, &[], 0, "there is one CPU"),
        (4, &[], 1, "nopvspin"),
    ] {
        let found = under_kvm(smp, options, nopvspin);
        assert_eq!(found, (because.to_owned(), 0, 0));
    }
}
