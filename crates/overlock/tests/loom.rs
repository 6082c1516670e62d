// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every interleaving of two or three CPUs on each lock, by loom.
//!
//! The locks are the very source that runs elsewhere, on the platform [`support::platform`]: an
//! ordinary `cargo test`. What is checked in each model says [`support::models`], which models
//! there are [`support::table`]. A model also fails if it has not reached what it is there for: an
//! event of the lock, a call site.
//!
//! Bounds: models of two CPUs and one section each are explored completely, as far as loom goes.
//! The others are bounded in preemptions (1 to 3, see the table; `OVERLOCK_VERIFY=long` adds one).
//! loom does not explore load buffering.
//!
//! [`busted`] shows that the models find locks that are wrong. `tests/orderings.rs` weakens each
//! ordering in turn. [`s3`] is the race that S3 is about.

mod support;

#[path = "support/busted.rs"]
mod busted;
#[path = "support/s3.rs"]
mod s3;

use support::models::Depth;
use support::sites;
use support::table::{MODELS, model};

/// Explores a model: nothing fails, and it has reached what it is there for.
fn check(name: &str) {
    let model = model(name);
    sites::reset(None);
    let report = (model.run)(Depth::wanted());
    assert_eq!(report.failure, None, "{name}, execution {}", report.executions);
    let missed = model.missed(&report);
    assert!(missed.is_empty(), "{name} never reaches {missed:?}, but {:?}", report.events);
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*

        #[test]
        fn every_model_is_a_test() {
            let models: Vec<_> = MODELS.iter().map(|model| model.name).collect();
            assert_eq!(models, [$(stringify!($name)),*]);
        }
    };
}

tests! {
    tas_two tas_token tas_addr tas_again tas_again_token
    tas_again_spurious tas_three tas_three_token tas_three_addr tas_timed
    tas_timed_three tas_full tas_spin tas_spin_timed ticket_two
    ticket_token ticket_narrow ticket_again ticket_again_token ticket_three
    ticket_three_token ticket_spurious ticket_full ticket_numberless ticket_spin
    queued_two queued_token queued_again queued_again_token queued_again_spurious
    queued_three queued_three_stale queued_three_token queued_three_spurious queued_timed
    queued_timed_three queued_timed_late queued_timed_both queued_behind queued_numberless
    queued_full queued_spin hybrid_two hybrid_token
    hybrid_again hybrid_again_token hybrid_polite hybrid_polite_three hybrid_three
    hybrid_three_token hybrid_three_spurious hybrid_bound hybrid_timed hybrid_timed_three
    hybrid_numberless hybrid_spin hybrid_spin_three
    queued_interrupted
}
