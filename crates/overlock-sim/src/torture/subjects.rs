//! All that can be tortured.

use overlock::raw::Narrow;
use overlock::{Hybrid, Queued, TestAndSet, Ticket};

use crate::torture::failure::Property;
use crate::torture::platform::{
    ByAddress, ByNumber, Cheap, Ending, Inject, SpinOnly, SwitchedOff, Unfenced,
};
use crate::torture::subject::{
    CHEAP_QUEUED, ENDING, HYBRID, Probe, QUEUED, Subject, TICKET, UNFAIR, bad, plain, timed,
};

mod broken;
mod family;
mod mixed;
mod shared;

/// All subjects; those that are meant to fail come last.
pub fn subjects() -> impl Iterator<Item = &'static Subject> {
    let sound = SUBJECTS.iter().chain(mixed::SUBJECTS).chain(shared::SUBJECTS);
    let sound = sound.chain(family::SUBJECTS);
    let broken = broken::SUBJECTS.iter().chain(mixed::BROKEN).chain(shared::BROKEN);
    sound.chain(broken).chain(family::BROKEN)
}

/// The subject with this name, including those that are meant to fail.
pub fn subject(name: &str) -> Option<&'static Subject> {
    subjects().find(|subject| subject.name == name)
}

/// If `membarrier` does nothing, a cheap release misses a waiter that has halted.
const UNFENCED: &[Property] =
    &[Property::LostWakeup, Property::Progress, Property::Order, Property::Bypass];

static SUBJECTS: &[Subject] = &[
    timed::<ByNumber, TestAndSet<Inject<ByNumber>, Probe>>("test-and-set", UNFAIR),
    timed::<ByAddress, TestAndSet<Inject<ByAddress>, Probe>>("test-and-set-by-address", UNFAIR),
    plain::<ByNumber, Ticket<Inject<ByNumber>, Probe>>("ticket", TICKET),
    plain::<ByNumber, Ticket<Inject<ByNumber>, Probe, Narrow>>("ticket-narrow", TICKET),
    timed::<ByNumber, Queued<Inject<ByNumber>, Probe>>("queued", QUEUED),
    timed::<ByNumber, Hybrid<Inject<ByNumber>, Probe>>("hybrid", HYBRID),
    timed::<Ending, Queued<Inject<Ending>, Probe>>("ending-queued", ENDING),
    timed::<Ending, Hybrid<Inject<Ending>, Probe>>("ending-hybrid", ENDING),
    plain::<Cheap, Ticket<Inject<Cheap>, Probe>>("cheap-ticket", TICKET),
    bad(
        &[Property::Progress],
        timed::<ByNumber, Queued<Inject<ByNumber>, Probe>>("endless-queued", ENDING),
    ),
    bad(
        &[Property::Progress, Property::LostWakeup],
        timed::<ByNumber, Hybrid<Inject<ByNumber>, Probe>>("endless-hybrid", ENDING),
    ),
    timed::<Cheap, Queued<Inject<Cheap>, Probe>>("cheap-queued", CHEAP_QUEUED),
    timed::<Cheap, Hybrid<Inject<Cheap>, Probe>>("cheap-hybrid", HYBRID),
    bad(UNFENCED, plain::<Unfenced, Ticket<Inject<Unfenced>, Probe>>("unfenced-ticket", TICKET)),
    bad(
        UNFENCED,
        timed::<Unfenced, Queued<Inject<Unfenced>, Probe>>("unfenced-queued", CHEAP_QUEUED),
    ),
    bad(UNFENCED, timed::<Unfenced, Hybrid<Inject<Unfenced>, Probe>>("unfenced-hybrid", HYBRID)),
    timed::<SwitchedOff, TestAndSet<Inject<SwitchedOff>, Probe>>("off-test-and-set", UNFAIR),
    plain::<SwitchedOff, Ticket<Inject<SwitchedOff>, Probe>>("off-ticket", TICKET),
    timed::<SwitchedOff, Queued<Inject<SwitchedOff>, Probe>>("off-queued", QUEUED),
    timed::<SwitchedOff, Hybrid<Inject<SwitchedOff>, Probe>>("off-hybrid", HYBRID),
    timed::<SpinOnly, TestAndSet<Inject<SpinOnly>, Probe>>("native-test-and-set", UNFAIR),
    plain::<SpinOnly, Ticket<Inject<SpinOnly>, Probe>>("native-ticket", TICKET),
    timed::<SpinOnly, Queued<Inject<SpinOnly>, Probe>>("native-queued", QUEUED),
    timed::<SpinOnly, Hybrid<Inject<SpinOnly>, Probe>>("native-hybrid", HYBRID),
];
