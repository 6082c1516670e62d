//! Every interleaving of two or three CPUs on each lock, by loom.
//!
//! The locks are the very source that runs elsewhere, on the platform [`support::platform`], in an
//! ordinary `cargo test`. [`support::locks`] describes what each model of a lock checks, and
//! [`support::table`] lists them; the other families are beside them. A model also fails if it has
//! not reached what it exists for: an event of the lock, a call site.
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
#[path = "support/orderings.rs"]
mod orderings;
#[path = "support/s3.rs"]
mod s3;

use std::process::Command;
use std::{env, thread};

use support::models::{Depth, model};
use support::sites;

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
