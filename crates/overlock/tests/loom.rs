// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of two or three CPUs on each lock, by loom.
//!
//! The locks are the very source that runs elsewhere, on the platform [`support::platform`], in an
//! ordinary `cargo test`. [`support::models`] describes what each model checks, and
//! [`support::table`] lists the models. A model also fails if it has not reached what it exists
//! for: an event of the lock, a call site.
//!
//! Bounds: with `OVERLOCK_VERIFY=bounded`, models of two CPUs with one critical section each are
//! explored completely, as far as loom can, and the others are bounded in preemptions (1 to 3, see
//! the tables). `OVERLOCK_VERIFY=long` then explores each with one more preemption, for up to 20
//! seconds. Without it, each is explored briefly: see [`Depth`]. loom does not explore load
//! buffering.
//!
//! [`busted`] shows that the models find faulty locks. [`orderings`] weakens each ordering in turn,
//! always within the models' own bounds. [`s3`] is the race that S3 is about.

mod support;

#[path = "support/busted.rs"]
mod busted;
#[path = "support/busted_refresh.rs"]
mod busted_refresh;
#[path = "support/busted_states.rs"]
mod busted_states;
#[path = "support/orderings.rs"]
mod orderings;
#[path = "support/s3.rs"]
mod s3;

use std::collections::BTreeSet;
use std::process::Command;
use std::{env, thread};

use support::models::Depth;
use support::sites;
use support::table::{model, models};

/// Checks a model in a process of its own. loom maps and unmaps a stack for each thread of each
/// execution, and threads of one process that do so hold each other up in the kernel.
fn check(name: &str) {
    let thread = thread::current();
    match thread.name() {
        // With `--test-threads=1` the harness runs tests on this thread, one after the other.
        None | Some("main") => check_here(name),
        Some(_) if env::var_os(ALONE).is_some() => check_here(name),
        Some(test) => {
            let mut program = Command::new(env::current_exe().expect("the path of this test"));
            program.args([test, "--exact", "--nocapture", "--test-threads=1"]).env(ALONE, "1");
            let output = program.output().expect("this program starts once more");
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said);
            let passed = output.status.success() && said.contains("ok. 1 passed");
            assert!(passed, "{name}: {}\n{said}", output.status);
        }
    }
}

/// In the environment of a process that has been started for one test.
const ALONE: &str = "OVERLOCK_TEST_ALONE";

/// Explores a model, and checks that it passes and has reached what it exists for.
fn check_here(name: &str) {
    let model = model(name);
    let mut depth = Depth::wanted();
    loop {
        sites::reset(None);
        let report = (model.run)(depth);
        assert_eq!(report.failure, None, "{name}, execution {}", report.executions);
        let missed = model.missed(&report);
        match depth.deeper() {
            _ if missed.is_empty() => return,
            Some(deeper) => depth = deeper,
            None => panic!("{name} never reaches {missed:?}, but {:?}", report.events),
        }
    }
}

#[test]
fn every_role_is_of_a_function_that_is_there() {
    sites::check_roles();
}

/// The tests of the models. Each of those under `first` takes as long as several dozen of the
/// others. The harness starts tests in the order of their names, so these must not come last.
macro_rules! tests {
    (first { $($early:ident)* } then { $($name:ident)* }) => {
        mod first {
            $(
                #[test]
                fn $early() {
                    super::check(stringify!($early));
                }
            )*
        }

        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        #[test]
        fn every_model_is_a_test() {
            let names: BTreeSet<_> = models().map(|model| model.name).collect();
            let tests = [$(stringify!($early),)* $(stringify!($name)),*];
            assert_eq!(names, BTreeSet::from(tests));
            assert_eq!(names.len(), tests.len(), "a test twice");
        }
    };
}

tests! {
    first { queued_left_behind queued_three_token queued_unlinked }
    then {
        tas_two tas_token tas_addr tas_again tas_again_token
        tas_again_spurious tas_three tas_three_token tas_three_addr tas_timed
        tas_timed_three tas_full tas_spin tas_spin_timed ticket_two
        ticket_token ticket_narrow ticket_again ticket_again_token ticket_three
        ticket_three_token ticket_spurious ticket_full ticket_numberless
        ticket_cheap_two ticket_cheap_token ticket_cheap_again ticket_cheap_three ticket_cheap_refused ticket_spin
        queued_two queued_token queued_again queued_again_token queued_again_spurious
        queued_three queued_three_again queued_three_stale queued_three_spurious queued_timed
        queued_timed_three queued_timed_late queued_timed_both queued_timed_back queued_behind queued_numberless
        queued_full queued_cheap_two queued_cheap_token queued_cheap_again queued_cheap_three queued_cheap_timed
        queued_cheap_refused queued_spin queued_spin_three hybrid_two hybrid_token
        hybrid_again hybrid_again_token hybrid_disabled hybrid_disabled_three hybrid_three
        hybrid_three_token hybrid_three_spurious hybrid_bound hybrid_timed
        hybrid_timed_three hybrid_timed_back hybrid_reserved hybrid_numberless hybrid_cheap_two hybrid_cheap_token
        hybrid_cheap_again hybrid_cheap_disabled
        hybrid_cheap_three hybrid_cheap_addr hybrid_cheap_timed hybrid_cheap_left hybrid_cheap_refused
        hybrid_cheap_spurious hybrid_spin hybrid_spin_three
        hybrid_parked_two hybrid_parked_token hybrid_parked_again hybrid_parked_spin hybrid_parked_three
        hybrid_parked_number hybrid_parked_joins hybrid_parked_timed hybrid_parked_cheap hybrid_parked_cheap_three
        hybrid_parked_refused
        queued_unsure queued_twice ticket_unsure ticket_twice
        queued_nested_two queued_nested_three queued_nested_four queued_nested_five
        hybrid_nested_four
        mixed_ticket_queued mixed_ticket_hybrid mixed_ticket_tas mixed_tas_queued mixed_tas_ticket
        mixed_queued_ticket mixed_hybrid_tas mixed_interrupted_kick queued_interrupted_kick
        mixed_inside mixed_inside_token mixed_nested mixed_nested_token
        refresh_two refresh_token refresh_addr refresh_spurious refresh_spin
        refresh_full refresh_numberless refresh_fresh refresh_again refresh_last
        refresh_last_again refresh_panics refresh_panics_addr refresh_stops refresh_three refresh_three_addr
        rw_read_write rw_two_writers rw_token rw_addr rw_again rw_recursive rw_reads_past
        rw_two_readers rw_queue rw_spurious rw_timed rw_timed_reader rw_spin rw_upgradable
        rw_crowd rw_crowd_addr rw_crowd_token rw_crowd_head rw_crowd_given_up rw_crowd_upgradable
        rw_upgrade rw_upgrade_token rw_upgrade_three rw_upgrade_both rw_upgrade_timed
        rw_downgrade rw_downgrade_three rw_turns rw_turns_reader rw_upgradable_beside rw_kept
        cond_two cond_inside cond_token cond_addr cond_spurious cond_spin cond_queued cond_all cond_all_three
        cond_all_two cond_one_each cond_later cond_timed cond_timed_three cond_timed_all cond_full cond_numberless
    }
}
