//! The ordering audit: a model catches each ordering of the source when it is weakened by one step.
//!
//! An ordering that survives weakening is either not needed or not tested. So [`CAUGHT`] has a row
//! for every atomic call site that any model executes and for each step down from its ordering
//! (`AcqRel` to `Acquire` and to `Release`, these two to `Relaxed`; a fence removed), with a cheap
//! model that then fails. A site without a row fails the audit, and so does a row without a site.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use crate::support::models::{self, Depth, model};
use crate::support::sites::{self, Site};

/// Site, weakened ordering, and the model that then fails.
const CAUGHT: &[(&str, Ordering, &str)] = &[
    ("enqueue.rs enqueue update", Acquire, "queued_again"),
    ("enqueue.rs enqueue update", Release, "queued_behind"),
    ("enqueue.rs enqueue swap", Acquire, "queued_behind"),
    ("enqueue.rs enqueue swap", Release, "queued_again"),
    ("hand_off.rs give_up update", Relaxed, "queued_timed_both"),
    ("hand_off.rs hand_on swap", Relaxed, "queued_again"),
    ("hand_off.rs promote_asleep compare_exchange", Relaxed, "queued_again_spurious"),
    ("hand_off.rs skip swap", Acquire, "queued_unlinked"),
    ("hand_off.rs skip swap", Release, "queued_behind"),
    ("head.rs take update", Relaxed, "queued_two"),
    ("head.rs halt_as_head update", Relaxed, "queued_two"),
    ("kick.rs kick_head fence", Relaxed, "queued_two"),
    ("newcomer.rs spin_as_newcomer cas", Relaxed, "hybrid_parked_spin"),
    ("newcomer.rs take_or_mark update", Acquire, "hybrid_parked_two"),
    ("newcomer.rs take_or_mark update", Release, "hybrid_parked_two"),
    ("park.rs kick_halted fence", Relaxed, "tas_two"),
    ("queue.rs lock compare_exchange", Relaxed, "queued_two"),
    ("queue.rs lock set_lowest_bit", Relaxed, "hybrid_cheap_two"),
    ("queue.rs take_past_reservation update", Relaxed, "hybrid_reserved"),
    ("queue.rs try_lock compare_exchange", Relaxed, "queued_timed"),
    ("queue.rs try_lock set_lowest_bit", Relaxed, "hybrid_cheap_timed"),
    ("queue.rs try_take cas", Relaxed, "queued_two"),
    ("queue.rs unlock clear_low_byte", Relaxed, "hybrid_cheap_two"),
    ("queue.rs unlock cas", Relaxed, "hybrid_two"),
    ("queue.rs unlock fetch_sub", Relaxed, "queued_two"),
    ("release.rs release_natively fetch_sub", Relaxed, "queued_spin"),
    ("release.rs release update", Relaxed, "hybrid_cheap_again"),
    ("release.rs unlock_if_locked cas", Relaxed, "queued_unsure"),
    ("unsure.rs unlock_ticket compare_exchange", Relaxed, "ticket_unsure"),
    ("wait.rs come_back swap", Relaxed, "queued_again_spurious"),
    ("refresh.rs begin compare_exchange", Relaxed, "refresh_two"),
    ("refresh.rs begin fence", Relaxed, "refresh_last"),
    ("refresh.rs last fence", Relaxed, "refresh_last"),
    ("refresh.rs last load", Relaxed, "refresh_last"),
    ("refresh.rs leave swap", Relaxed, "refresh_two"),
    ("refresh.rs wait_for_end compare_exchange", Relaxed, "refresh_two"),
    ("read_write.rs try_once cas", Relaxed, "rw_read_write"),
    ("read_write.rs try_take update", Relaxed, "rw_reads_past"),
    ("read_write.rs unlock_shared fetch_sub", Relaxed, "rw_read_write"),
    ("read_write.rs release update", Relaxed, "rw_two_writers"),
    ("read_write.rs lock cas", Relaxed, "rw_two_writers"),
    ("read_write.rs unlock cas", Relaxed, "rw_two_writers"),
    ("wait.rs lock_slow cas", Relaxed, "rw_two_writers"),
    ("wait.rs give_up update", Relaxed, "rw_timed"),
    ("wait.rs halt update", Relaxed, "rw_read_write"),
    ("condvar.rs halt compare_exchange", Relaxed, "cond_two"),
    ("node.rs release store", Relaxed, "queued_left_behind"),
    ("slot.rs take compare_exchange", Relaxed, "queued_left_behind"),
    ("test_and_set.rs lock compare_exchange", Relaxed, "tas_two"),
    ("test_and_set.rs take_or_mark compare_exchange", Acquire, "tas_two"),
    ("test_and_set.rs take_or_mark compare_exchange", Release, "tas_two"),
    ("test_and_set.rs try_take compare_exchange", Relaxed, "tas_two"),
    ("test_and_set.rs unlock store", Relaxed, "tas_spin"),
    ("test_and_set.rs unlock swap", Relaxed, "tas_two"),
    ("width.rs advance add_half", Relaxed, "ticket_cheap_two"),
    ("ticket.rs clear_slow fetch_and", Relaxed, "ticket_again"),
    ("ticket.rs is_served load", Relaxed, "ticket_two"),
    ("ticket.rs kick_next fence", Relaxed, "ticket_two"),
    ("ticket.rs set_slow fetch_or", Acquire, "ticket_two"),
    ("ticket.rs set_slow fetch_or", Release, "ticket_again"),
    ("ticket.rs unlock fetch_add", Relaxed, "ticket_two"),
    ("ticket.rs unlock store", Relaxed, "ticket_spin"),
];

/// All call sites that the models execute, with their orderings.
fn executed() -> &'static BTreeMap<Site, Ordering> {
    static SITES: OnceLock<BTreeMap<Site, Ordering>> = OnceLock::new();
    SITES.get_or_init(|| {
        let mut all = BTreeMap::new();
        for model in models::all() {
            sites::reset(None);
            // A reservation in vain takes two time-outs, which the first executions do not reach.
            // So do halts of an upgrading CPU, beside a queue head.
            let rare = ["hybrid_reserved", "rw_upgrade"].contains(&model.name);
            let report = (model.run)(if rare { Depth::Brief(5_000) } else { Depth::Glance });
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

/// Weakens each site of a file as [`CAUGHT`] lists it.
fn audit(file: &str) {
    let rows = CAUGHT.iter().filter(|(name, ..)| name.starts_with(file));
    let passes = rows.filter(|&&(name, weaker, by)| {
        // Most faults show with one preemption, which is soon explored.
        [Depth::Brief(20_000), Depth::Bounded].into_iter().all(|depth| {
            sites::reset(Some((site(name), weaker)));
            (model(by).run)(depth).failure.is_none()
        })
    });
    let passes: Vec<_> = passes.collect();
    assert!(passes.is_empty(), "models that pass with the weakened site: {passes:#?}");
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
    let rows = CAUGHT.iter().map(|(name, weaker, _)| format!("{name} {weaker:?}"));
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
    audit("width.rs");
}

#[test]
fn queue() {
    audit("queue.rs");
    audit("release.rs");
    audit("enqueue.rs");
    audit("wait.rs");
    audit("slot.rs");
    audit("node.rs");
}

#[test]
fn hand_off() {
    audit("hand_off.rs");
}

#[test]
fn head() {
    audit("head.rs");
    audit("kick.rs");
}

#[test]
fn newcomer() {
    audit("newcomer.rs");
}

#[test]
fn unsure() {
    audit("unsure.rs");
}

#[test]
fn refresh() {
    audit("refresh.rs");
}

#[test]
fn read_write() {
    audit("read_write.rs");
}

#[test]
fn condvar() {
    audit("condvar.rs");
}
