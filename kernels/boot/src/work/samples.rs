//! One run as a JSON record: the fields that all worlds have, as far as the kernel knows them.

use core::fmt::{self, Display};

use overlock::counters::Event;

use super::locks::counted;
use super::waits::Waits;
use crate::cpus;
use crate::kernel::Kernel;
use crate::say;

pub(super) struct Point<'a> {
    pub(super) world: &'static str,
    pub(super) lock: &'a str,
    pub(super) cpus: usize,
    pub(super) round: u64,
    pub(super) cs_ns: u64,
    pub(super) ncs_ns: u64,
    /// How long it took.
    pub(super) ns: u64,
}

/// What had been counted at some moment.
#[derive(Clone, Copy)]
pub(super) struct Seen {
    events: [u64; Event::ALL.len()],
    tallies: [(&'static str, u64); cpus::COUNTS],
    stolen_ns: u64,
}

impl Seen {
    pub(super) fn now<K: Kernel>() -> Self {
        let mut tallies = cpus::of(0).tally.all();
        let mut stolen_ns = K::stolen_ns(0);
        for cpu in 1..cpus::started() {
            for (sum, (_, count)) in tallies.iter_mut().zip(cpus::of(cpu).tally.all()) {
                sum.1 += count;
            }
            stolen_ns += K::stolen_ns(cpu);
        }
        Self { events: counted(), tallies, stolen_ns }
    }

    pub(super) fn since(mut self, before: &Self) -> Self {
        for (now, then) in self.events.iter_mut().zip(before.events) {
            *now -= then;
        }
        for (now, (_, then)) in self.tallies.iter_mut().zip(before.tallies) {
            now.1 -= then;
        }
        self.stolen_ns -= before.stolen_ns;
        self
    }
}

/// The counts that are not zero, as the fields of an object.
struct Counts<'a>(&'a Seen);

impl Display for Counts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = Event::ALL.iter().zip(self.0.events).map(|(event, n)| (event.name(), n));
        let mut separator = "";
        for (name, count) in events.chain(self.0.tallies).filter(|(_, count)| *count != 0) {
            write!(f, "{separator}\"{name}\":{count}")?;
            separator = ",";
        }
        Ok(())
    }
}

struct List<I>(I);

impl<I: Iterator<Item = u64> + Clone> Display for List<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, value) in self.0.clone().enumerate() {
            write!(f, "{}{value}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

pub(super) fn tell<'a, W: Iterator<Item = &'a Waits> + Clone>(
    point: &Point<'_>,
    ops: impl Iterator<Item = u64> + Clone,
    waits: impl Fn() -> W,
    lost: u64,
    seen: &Seen,
) {
    let Point { world, lock, cpus, round, cs_ns, ncs_ns, ns } = point;
    let [p50, p99, p999] = [500, 990, 999].map(|share| Waits::quantile(waits(), share));
    let longest = waits().map(Waits::longest).max().unwrap_or(0);
    say!(
        "{{\"kind\":\"sample\",\"world\":\"{world}\",\"workload\":\"micro\",\"lock\":\"{lock}\",\
         \"cpus\":{cpus},\"round\":{round},\"cs_ns\":{cs_ns},\"ncs_ns\":{ncs_ns},\"ns\":{ns},\
         \"ops\":[{}],\"wait_ns\":{{\"p50\":{p50},\"p99\":{p99},\"p999\":{p999},\"max\":{longest}}},\
         \"lost\":{lost},\"stolen_ns\":{},\"counters\":{{{}}}}}",
        List(ops),
        seen.stolen_ns,
        Counts(seen)
    );
}
