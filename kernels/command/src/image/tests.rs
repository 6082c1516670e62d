//! What a host is told, or tells, that the command has no option for.

use super::guest::{self, Ended};
use super::machine::{self, Machine};
use super::said::{Said, Sample};
use super::{PATIENCE, unsent};
use std::collections::BTreeMap;
use std::io::{self, Write as _};

#[test]
fn one_kick_more_than_was_sent_is_found() {
    let unsent = |kicked, stale| {
        let counters = [("kicked".into(), kicked), ("stale".into(), stale), ("kicks".into(), 700)];
        unsent(&overlock_results::Run { counters: counters.into(), ..Default::default() })
    };
    assert_eq!([unsent(692, 8), unsent(693, 8), unsent(0, 705)], [0, 1, 5]);
}

/// A run of a lock on `smp` CPUs with sections of 20 us: what the kernel said of waiting, the run,
/// and what KVM counted.
fn run(
    world: &str,
    smp: u32,
    options: &[&str],
    switch: &str,
) -> (String, Sample, BTreeMap<String, u64>) {
    let image = machine::image(world).expect("an image").expect("no Ctrl-C");
    let plan = format!("do=micro ms=300 runs=1 cs=20000 locks=ticket {switch}");
    let machine = Machine::new(world, smp, &image, &plan, options).expect("a machine");
    let (mut mode, mut run, mut counted) = (String::new(), None, BTreeMap::new());
    let ended = guest::run(machine, PATIENCE, |said| {
        match said {
            Said::Mode { why, .. } => mode = why,
            Said::Sample(sample) => run = Some(sample),
            Said::Host { counters } => counted = counters,
            _ => {}
        }
        Ok(())
    });
    assert!(matches!(ended, Ok(Ended::Whole { fine: true })), "{ended:?}");
    (mode, run.expect("a run"), counted)
}

/// Whether the machine of `world` can be made here; else says what is missing.
fn has(world: &str) -> bool {
    let missing = machine::look_for(world).err();
    if let Some(why) = &missing {
        writeln!(io::stderr(), "skipped: {why:#}").expect("stderr takes a line");
    }
    missing.is_none()
}

/// The locks wait where the host takes vCPUs away and offers the kick, and nowhere else: the host
/// sees no hypercall and no halt.
#[test]
fn waiting_is_off_where_kvm_or_the_user_says_so() {
    if !has("kvm-guest") {
        return;
    }
    let (why, _, counted) = run("kvm-guest", 4, &[], "");
    let both = counted["hypercalls"] > 0 && counted["halt_exits"] > 0;
    assert!(why.is_empty() && both, "{why}: {counted:?}");
    for (smp, options, switch, because) in [
        (4, &["--realtime"][..], "", "KVM_HINTS_REALTIME"),
        (4, &["--no-unhalt"], "", "the host offers no KVM_FEATURE_PV_UNHALT"),
        (1, &[], "", "there is one CPU"),
        (4, &[], "nopvspin=1", "nopvspin"),
    ] {
        let (why, _, counted) = run("kvm-guest", smp, options, switch);
        assert_eq!((&*why, counted["hypercalls"], counted["halt_exits"]), (because, 0, 0));
    }
}

/// Under Xen there is nothing but the user's wish: without it vCPUs poll and kick, with it they do
/// neither.
#[test]
fn waiting_is_off_under_xen_where_the_user_says_so() {
    if !has("xen") {
        return;
    }
    let count = |switch| {
        let (_, run, _) = run("xen", 4, &[], switch);
        ["halts", "kicks"].map(|event| run.counters.get(event).copied().unwrap_or(0))
    };
    assert!(count("").iter().all(|count| *count > 0));
    assert_eq!(count("nopvspin=1"), [0, 0]);
}
