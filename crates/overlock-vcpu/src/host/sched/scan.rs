// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the indices agree with a scan of all CPUs (S6), and that restrictions hold.
//!
//! The scans below are how the scheduler once found the vCPU to run, preempt or let in. After any
//! events, with any weights and restrictions, each query has the same answer either way.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::num::NonZeroU32;

use proptest::prelude::*;

use self::events::{PCPUS, VCPUS, event, now, vcpu};
use super::judge::standard;
use super::scheduler::Slot;
use super::vcpu::VirtualTime;
use super::yield_to::{NAMES, Policy, RoundRobin, by_name};
use super::{Config, Event, Scheduler, Standing};
use crate::host::{Nanos, Pcpu, Vcpu};

#[path = "../../../tests/support/events.rs"]
mod events;

/// The results of a scan.
impl<P: Policy> Scheduler<P> {
    fn scan_pick(&self, pcpu: Pcpu) -> Option<Vcpu> {
        let slot = &self.slots[pcpu.index()];
        let allowed = |vcpu| self.affinity.allows(vcpu, pcpu);
        if let Some(next) = slot.next.filter(|&next| self.is_preempted(next) && allowed(next)) {
            return Some(next);
        }
        let most = self.slots.iter().filter_map(|slot| slot.queue.find(allowed)).min();
        match (slot.queue.first(), most) {
            (Some((here, local)), Some((there, remote))) => {
                let worth = here > there.plus(standard(self.config.migrate_lag));
                Some(if worth { remote } else { local })
            }
            (_, most) => most.map(|(_, remote)| remote),
        }
    }

    fn scan_least_running(&self, counts: impl Fn(&Slot) -> bool) -> Option<VirtualTime> {
        let owners = self.slots.iter().filter(|slot| counts(slot)).filter_map(|slot| slot.owner);
        owners.map(|owner| self.vcpus[owner.index()].accounted(self.now).time).min()
    }

    fn scan_furthest(&self, target: Vcpu) -> Option<(VirtualTime, Vcpu, Pcpu)> {
        let mut furthest: Option<(VirtualTime, Vcpu, Pcpu)> = None;
        for (pcpu, slot) in (0..).map(Pcpu).zip(&self.slots) {
            let Some(owner) = slot.owner.filter(|_| !slot.preempting) else { continue };
            let time = self.vcpus[owner.index()].accounted(self.now).time;
            if self.affinity.allows(target, pcpu) && furthest.is_none_or(|(most, ..)| time > most) {
                furthest = Some((time, owner, pcpu));
            }
        }
        furthest
    }

    fn scan_idle(&self, vcpu: Vcpu, home: Pcpu) -> Option<Pcpu> {
        let idle = |pcpu: &Pcpu| {
            self.slots[pcpu.index()].owner.is_none() && self.affinity.allows(vcpu, *pcpu)
        };
        Some(home).filter(idle).or_else(|| (0..self.config.pcpus).map(Pcpu).find(idle))
    }

    /// Answers every query both ways.
    fn agree(&mut self) -> Result<(), String> {
        let same = |what: &str, same: bool| {
            if same { Ok(()) } else { Err(format!("{what} differs")) }
        };
        let heads = self.slots.iter().filter_map(|slot| slot.queue.first());
        same("the least that waits", self.least() == heads.map(|(time, _)| time).min())?;
        let queued: usize = self.slots.iter().map(|slot| slot.queue.len()).sum();
        same("how many wait", self.waiting as usize == queued)?;
        let least = self.scan_least_running(|_| true);
        same("the least that runs", self.owners.least(self.now) == least)?;
        let span = self.config.yield_lead + self.config.yield_lead;
        let least = self.scan_least_running(|slot| self.now - slot.entered <= span);
        same("the least of the recent", self.owners.least_recent(self.now, span) == least)?;
        for pcpu in (0..self.config.pcpus).map(Pcpu) {
            // Of those that lag equally, either way may find another one.
            let lag =
                |vcpu: Vcpu| (self.vcpus[vcpu.index()].time, self.affinity.allows(vcpu, pcpu));
            same("the pick", self.pick(pcpu).map(lag) == self.scan_pick(pcpu).map(lag))?;
            for vcpu in (0..self.config.vcpus).map(Vcpu) {
                same("the idle", self.idle_for(vcpu, pcpu) == self.scan_idle(vcpu, pcpu))?;
                same("the furthest", self.furthest(vcpu) == self.scan_furthest(vcpu))?;
            }
        }
        Ok(())
    }

    /// No vCPU runs or waits where it may not, unless it has been asked to come out, and no pCPU is
    /// idle while a vCPU that may run there waits.
    fn restrictions_hold(&self) -> Result<(), String> {
        for vcpu in (0..self.config.vcpus).map(Vcpu) {
            let (at, leaves) = match self.vcpus[vcpu.index()].standing {
                Standing::Running(pcpu) => (pcpu, self.is_preempting(pcpu)),
                Standing::Queued(pcpu) => (pcpu, false),
                Standing::Halted | Standing::Stopped => continue,
            };
            if !leaves && !self.affinity.allows(vcpu, at) {
                return Err(format!("{vcpu} is at {at}"));
            }
            let waits = self.is_preempted(vcpu);
            if let Some(idle) = self.idle_for(vcpu, at).filter(|_| waits) {
                return Err(format!("{vcpu} waits, and {idle} is idle"));
            }
        }
        Ok(())
    }
}

/// What the embedder does: it sends events, and changes weights and restrictions.
#[derive(Clone, Debug)]
enum Deed {
    Tell(Event),
    Weigh(Vcpu, u32),
    Restrict(Vcpu, Vec<Pcpu>),
}

fn deed(restricts: bool) -> impl Strategy<Value = Deed> {
    let weight = prop_oneof![Just(1), Just(3), Just(1024), Just(5000)];
    let pcpus = proptest::collection::vec((0..PCPUS).prop_map(Pcpu), 0..3);
    prop_oneof![
        20 => event().prop_map(Deed::Tell),
        1 => (vcpu(), weight).prop_map(|(vcpu, weight)| Deed::Weigh(vcpu, weight)),
        u32::from(restricts) * 3 => (vcpu(), pcpus).prop_map(|(v, p)| Deed::Restrict(v, p)),
    ]
}

fn holds(policy: &str, pcpus: u32, deeds: Vec<(Nanos, Deed)>) -> Result<(), String> {
    let policy = by_name(policy, VCPUS).ok_or("no policy")?;
    let mut sched =
        Scheduler::new(Config::new(VCPUS, pcpus), policy).map_err(|e| format!("{e}"))?;
    let mut clock = Nanos::ZERO;
    for (span, deed) in deeds {
        clock = clock + span;
        match deed {
            Deed::Tell(event) => drop(sched.on(clock, event)),
            Deed::Weigh(vcpu, weight) => {
                let _ = sched.set_weight(vcpu, NonZeroU32::new(weight).ok_or("no weight")?);
            }
            Deed::Restrict(vcpu, pcpus) => drop(sched.set_affinity(clock, vcpu, &pcpus)),
        }
        sched.agree()?;
        while sched.rebalance().is_some() {
            sched.agree()?;
        }
        sched.restrictions_hold()?;
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn indices_find_what_a_scan_finds(
        policy in 0..NAMES.len(),
        pcpus in 1..=PCPUS + 2,
        deeds in any::<bool>().prop_flat_map(|restricts| {
            proptest::collection::vec((now(), deed(restricts)), 1..150)
        }),
    ) {
        prop_assert_eq!(holds(NAMES[policy], pcpus, deeds), Ok(()));
    }
}

#[test]
fn of_vcpus_that_lag_equally_any_may_be_picked() {
    let kick = |target| Deed::Tell(Event::Kicked { target: Vcpu(target), by: None });
    // 3, 4 and 5 run; 0 waits behind 2, which may not run on pCPU 2, and 1 waits elsewhere.
    let mut deeds = Vec::from([Deed::Restrict(Vcpu(2), Vec::from([Pcpu(0)]))]);
    deeds.extend([3, 4, 5, 2, 0, 1].map(kick));
    let deeds = deeds.into_iter().map(|deed| (Nanos::ZERO, deed)).collect();
    assert_eq!(holds(NAMES[0], 3, deeds), Ok(()));
}

#[test]
fn the_scan_catches_an_index_that_was_not_told() {
    type Harm = fn(&mut Scheduler<RoundRobin>);
    let harms: [(&str, Harm); 5] = [
        ("the heads", |sched| [0, 1].into_iter().for_each(|n| sched.heads.set(n, None))),
        ("an idle pCPU", |sched| sched.idle.set(Pcpu(1), true)),
        ("an owner", |sched| sched.owners.leave(Pcpu(0))),
        ("a preemption", |sched| sched.slots[0].preempting = true),
        ("an account", |sched| sched.vcpus[0].weight = NonZeroU32::MIN),
    ];
    for (what, harm) in harms {
        let mut sched = Scheduler::new(Config::new(4, 2), RoundRobin::default()).unwrap();
        for n in 0..4 {
            sched.on(Nanos(u64::from(n)), Event::Kicked { target: Vcpu(n), by: None }).unwrap();
        }
        sched.now = Nanos(500_000);
        assert_eq!(sched.agree(), Ok(()));
        harm(&mut sched);
        assert!(sched.agree().is_err(), "{what} went unseen");
    }
}
