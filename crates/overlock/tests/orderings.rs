// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ordering audit: each ordering of the lock source, weakened by one step, is caught by a
//! model, or has a reason to stay.
//!
//! An ordering that survives weakening is not needed or not tested. So every atomic call site that
//! any model executes has a row here for each step down from its ordering (`AcqRel` to `Acquire`
//! and to `Release`, these two to `Relaxed`; a fence removed): in [`CAUGHT`] with the cheapest
//! model that fails then, or in [`KEPT`] with the reason. A site without a row, or a row without a
//! site, fails.
//!
//! `OVERLOCK_VERIFY=long` also tries all models on each row of [`KEPT`].

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use support::models::Depth;
use support::sites::{self, Site};
use support::table::{MODELS, model};

/// Site, weakened ordering, model that fails.
const CAUGHT: &[(&str, Ordering, &str)] = &[
    ("hybrid.rs lock compare_exchange", Relaxed, "hybrid_two"),
    ("hybrid.rs try_steal compare_exchange", Relaxed, "hybrid_two"),
    ("hybrid.rs unlock fetch_sub", Relaxed, "hybrid_two"),
    ("hybrid.rs watch compare_exchange", Relaxed, "hybrid_two"),
    ("park.rs kick_halted fence", Relaxed, "tas_two"),
    ("queue.rs come_back swap", Relaxed, "queued_again_spurious"),
    ("queue.rs halt_first compare_exchange", Relaxed, "queued_two"),
    ("queue.rs hand_on swap", Acquire, "queued_again"),
    ("queue.rs join compare_exchange", Acquire, "queued_again"),
    ("queue.rs join compare_exchange", Release, "queued_two"),
    ("queue.rs kick_first fence", Relaxed, "queued_two"),
    ("queue.rs link_behind swap", Acquire, "queued_behind"),
    ("queue.rs link_behind swap", Release, "queued_again"),
    ("queue.rs promote_asleep compare_exchange", Relaxed, "queued_again_spurious"),
    ("queue.rs skip swap", Release, "queued_behind"),
    ("queue.rs take compare_exchange", Relaxed, "queued_two"),
    ("queued.rs lock compare_exchange", Relaxed, "queued_two"),
    ("queued.rs lock_pending compare_exchange 2", Relaxed, "queued_spin"),
    ("queued.rs try_lock compare_exchange", Relaxed, "queued_timed"),
    ("queued.rs unlock fetch_sub", Relaxed, "queued_two"),
    ("test_and_set.rs lock compare_exchange", Relaxed, "tas_two"),
    ("test_and_set.rs take_or_mark compare_exchange", Acquire, "tas_two"),
    ("test_and_set.rs take_or_mark compare_exchange", Release, "tas_two"),
    ("test_and_set.rs try_take compare_exchange", Relaxed, "tas_two"),
    ("test_and_set.rs unlock store", Relaxed, "tas_spin"),
    ("test_and_set.rs unlock swap", Relaxed, "tas_two"),
    ("ticket.rs clear_slow fetch_and", Relaxed, "ticket_again"),
    ("ticket.rs halt fetch_or", Acquire, "ticket_two"),
    ("ticket.rs halt fetch_or", Release, "ticket_again"),
    ("ticket.rs is_served load", Relaxed, "ticket_two"),
    ("ticket.rs kick fence", Relaxed, "ticket_two"),
    ("ticket.rs unlock fetch_add", Relaxed, "ticket_two"),
    ("ticket.rs unlock store", Relaxed, "ticket_spin"),
];

/// Site, weakened ordering, why no model fails and the ordering stays.
const KEPT: &[(&str, Ordering, &str)] = &[
    (
        "queue.rs give_up compare_exchange",
        Acquire,
        "Leaving publishes nothing: the successor finds what it needs in its own node, or behind the swap of `hand_on`.",
    ),
    (
        "queue.rs give_up compare_exchange",
        Release,
        "The swap of `hand_on` acquires the successor's node too: either suffices.",
    ),
    (
        "queue.rs hand_on swap",
        Release,
        "A tail that names another has been acquired with that one's node, by the CAS of `take` or `give_up`: either suffices.",
    ),
    (
        "queue.rs promote_asleep fetch_or",
        Relaxed,
        "The promoter holds the lock: whoever releases it later, and looks for the entry, has acquired it from the promoter.",
    ),
    (
        "queue.rs skip compare_exchange",
        Acquire,
        "The tail names the node, so nobody else has reached it, and after the CAS nobody can: there is nobody to publish to.",
    ),
    ("queue.rs skip compare_exchange", Release, "As above: there is nobody to acquire from."),
    (
        "queue.rs skip swap",
        Acquire,
        "Needed: whoever finds GONE and frees the node comes after its waiter gave up. No model gets there in its bounds.",
    ),
    (
        "slot.rs release store",
        Relaxed,
        "Needed: the last swap on `next` comes before its CPU makes the node new. No model gets there in its bounds.",
    ),
    ("slot.rs take compare_exchange", Relaxed, "Needed: the other half of the release above."),
];

/// All call sites that the models execute, with their orderings.
fn executed() -> &'static BTreeMap<Site, Ordering> {
    static SITES: OnceLock<BTreeMap<Site, Ordering>> = OnceLock::new();
    SITES.get_or_init(|| {
        let mut all = BTreeMap::new();
        for model in MODELS {
            sites::reset(None);
            let report = (model.run)(Depth::Glance);
            assert_eq!(report.failure, None, "{}", model.name);
            all.extend(report.sites);
        }
        all
    })
}

fn site(name: &str) -> &'static Site {
    let mut sites = executed().keys();
    sites.find(|site| site.name == name).unwrap_or_else(|| panic!("no model executes {name}"))
}

/// Weakens each site of a file as [`CAUGHT`] says.
fn audit(file: &str) {
    let rows = CAUGHT.iter().filter(|(name, ..)| name.starts_with(file));
    for &(name, weaker, by) in rows {
        sites::reset(Some((site(name), weaker)));
        let failure = (model(by).run)(Depth::Bounded).failure;
        assert!(failure.is_some(), "{by} passes with {name} weakened to {weaker:?}");
    }
}

#[test]
fn every_step_down_has_a_verdict() {
    let steps: BTreeSet<String> = executed()
        .iter()
        .flat_map(|(site, order)| {
            let steps = sites::steps_down(*order).iter();
            steps.map(|weaker| format!("{} {weaker:?}", site.name))
        })
        .collect();
    let rows = CAUGHT.iter().chain(KEPT).map(|(name, weaker, _)| format!("{name} {weaker:?}"));
    let odd: Vec<_> = steps.symmetric_difference(&rows.collect()).cloned().collect();
    assert!(odd.is_empty(), "a site without a row, or a row without a site: {odd:#?}");
}

#[test]
fn test_and_set() {
    audit("test_and_set.rs");
    audit("park.rs");
}

#[test]
fn ticket() {
    audit("ticket.rs");
}

#[test]
fn queue() {
    audit("queue.rs");
    audit("slot.rs");
}

#[test]
fn queued() {
    audit("queued.rs");
}

#[test]
fn hybrid() {
    audit("hybrid.rs");
}

#[test]
fn kept_orderings_are_caught_by_no_model() {
    if Depth::wanted() != Depth::Long {
        return;
    }
    for &(name, weaker, _) in KEPT {
        let site = site(name);
        for model in MODELS {
            sites::reset(Some((site, weaker)));
            let report = (model.run)(Depth::Bounded);
            let by = model.name;
            assert_eq!(report.failure, None, "{by} catches {name} weakened to {weaker:?}");
            assert_eq!(model.missed(&report), [""; 0], "{by}, {} executions", report.executions);
        }
    }
}
