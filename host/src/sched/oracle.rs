//! The oracle: every event that the scheduler saw, through the policies of `overlock-vcpu`.

use super::abi::{Event, IPI, POLICIES, RUNS, SLOTS, SPIN, Tally, WORKED};
use overlock_vcpu::host::sched::yield_to::{
    Candidate, Notice, Policy, Ruling, Skipped, SpinCount, Trace, View, by_name,
};
use overlock_vcpu::host::sched::{Spin, SpinHint};
use overlock_vcpu::host::{Nanos, Vcpu};
use std::collections::BTreeMap;

/// The policy with this number, as the scheduler has it.
pub(crate) fn policy(number: u32, cap: u32) -> Option<Box<dyn Policy + Send>> {
    let vcpus = SLOTS as u32;
    match *POLICIES.get(number as usize)? {
        "spin-count" => Some(Box::new(SpinCount::with_cap(vcpus, cap))),
        name => by_name(name, vcpus),
    }
}

/// An answer as the scheduler writes it: a kind, a reason, a slot.
pub(crate) type Answer = (u8, u8, u8);

/// What the oracle answers to one event, and counts.
pub(crate) fn play(policy: &mut dyn Policy, event: &Event, tally: &mut Tally) -> Option<Answer> {
    let at = Nanos(event.at);
    let slot = Vcpu(event.slot.into());
    match event.kind {
        RUNS => policy.notice(at, Notice::Runs(slot)),
        WORKED => policy.notice(at, Notice::Worked(slot)),
        IPI => policy.notice(at, Notice::Ipi { from: slot, to: Vcpu(event.other.into()) }),
        SPIN => return Some(spin(policy, event, tally)),
        _ => {}
    }
    None
}

fn spin(policy: &mut dyn Policy, event: &Event, tally: &mut Tally) -> Answer {
    let has = |set: u64, slot: u8| set >> slot & 1 == 1;
    let unfit = |slot| match slot {
        _ if slot == event.slot => Some(Skipped::Itself),
        _ if !has(event.used, slot) => Some(Skipped::Unknown),
        _ if has(event.running, slot) => Some(Skipped::Running),
        _ if has(event.halted, slot) => Some(Skipped::Halted),
        _ if has(event.ahead, slot) => Some(Skipped::AheadOfShare),
        _ => None,
    };
    let candidate = |slot| {
        let (spinning, in_user) = (has(event.spinning, slot), has(event.in_user, slot));
        Candidate { unfit: unfit(slot), spinning, in_user }
    };
    let candidates: Vec<Candidate> = (0..event.slots).map(candidate).collect();
    let view = View::new(Nanos(event.at), event.pcpus.into(), &candidates);
    let named = |plus_one: u8| plus_one.checked_sub(1).map(|slot| Vcpu(slot.into()));
    let hint = SpinHint { holder: named(event.holder), waiters: event.next.map(named) };
    let spin = Spin { hint, ..Spin::reported(Vcpu(event.slot.into())) };
    let mut trace = Trace::new(event.slots.into());
    let verdict = policy.on_spin(&spin, &view, &mut trace);
    let (answer, chosen) = match verdict {
        Ruling::To(to, why) => {
            tally.to[why as usize] += 1;
            ((0, why as u8, to.0 as u8), Some(to))
        }
        Ruling::Plain(why) => {
            tally.plain[why as usize] += 1;
            ((1, why as u8, 0), None)
        }
        Ruling::Stay(why) => {
            tally.stay[why as usize] += 1;
            ((2, why as u8, 0), None)
        }
    };
    for (_, why) in trace.iter().filter(|&(vcpu, _)| Some(vcpu) != chosen) {
        tally.skipped[why as usize] += 1;
    }
    answer
}

/// Replays the events of all groups: the oracle's tally, and the first event that it answers
/// otherwise. The events are sorted by group and number; one that is missing ends the comparison.
pub(crate) fn check(events: &[Event], number: u32, cap: u32) -> Result<Tally, String> {
    let mut tally = Tally::default();
    let mut policies: BTreeMap<u32, (u64, Box<dyn Policy + Send>)> = BTreeMap::new();
    for event in events {
        let fresh = || policy(number, cap).map(|policy| (0, policy));
        let (due, policy) = match policies.entry(event.group) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(place) => {
                place.insert(fresh().ok_or("there is no such policy")?)
            }
        };
        if event.number != *due {
            return Err(format!("event {due} of group {} is missing", event.group));
        }
        *due += 1;
        let said = play(policy.as_mut(), event, &mut tally);
        let other = if event.verdict == 0 { event.other } else { 0 };
        let own = (event.verdict, event.why, other);
        if said.is_some_and(|said| said != own) {
            return Err(format!("{event:?}: the oracle says {said:?}, the scheduler {own:?}"));
        }
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    #![expect(unsafe_code, reason = "it calls the scheduler's own code")]

    use super::*;

    unsafe extern "C" {
        static overlock_group_size: libc::c_ulong;
        fn overlock_play(group: *mut u64, event: *mut Event, policy: u32, cap: u32, out: *mut u64);
    }

    /// The scheduler's own decisions, as plain code.
    struct Native {
        group: Vec<u64>,
        tally: Tally,
    }

    impl Native {
        fn new() -> Self {
            // SAFETY: a constant of the linked code.
            let size = unsafe { overlock_group_size } as usize;
            Self { group: vec![0; size.div_ceil(8)], tally: Tally::default() }
        }

        fn play(&mut self, event: &mut Event, policy: u32, cap: u32) {
            let skipped = self.tally.skipped.as_mut_ptr();
            // SAFETY: a group of the size it says, an event and a list of its layout.
            unsafe { overlock_play(self.group.as_mut_ptr(), event, policy, cap, skipped) };
            let why = event.why as usize;
            match (event.kind, event.verdict) {
                (SPIN, 0) => self.tally.to[why] += 1,
                (SPIN, 1) => self.tally.plain[why] += 1,
                (SPIN, _) => self.tally.stay[why] += 1,
                _ => {}
            }
        }
    }

    /// A sequence of numbers that only depends on its seed.
    fn random(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    fn event(seed: &mut u64, number: u64, slots: u8) -> Event {
        let all = u64::MAX >> (64 - u32::from(slots));
        let mut below = |n: u8| (random(seed) % u64::from(n)) as u8;
        let (kind, slot, other) =
            ([RUNS, WORKED, IPI, SPIN, SPIN, SPIN][below(6) as usize], below(slots), below(slots));
        let (named, pcpus) = (below(slots + 1), below(8) + 1);
        let next = [below(slots + 1), 0, below(slots + 1), 0];
        let mut sets = || random(seed) & random(seed) & all;
        let (running, halted, ahead, spinning) = (sets(), sets(), sets(), random(seed) & all);
        let halted = halted & !running;
        let ahead = ahead & !running & !halted & !(1 << slot);
        Event {
            number,
            at: number * 1_000_000,
            running: running | 1 << slot,
            halted: halted & !(1 << slot),
            spinning,
            ahead,
            in_user: random(seed) & all,
            used: random(seed) & all | random(seed) & all | running | halted | ahead | 1 << slot,
            kind,
            slot,
            other: if other == slot { (slot + 1) % slots } else { other },
            slots,
            pcpus,
            holder: if random(seed).is_multiple_of(2) { named } else { 0 },
            next,
            ..Event::default()
        }
    }

    fn events(policy: u32, slots: u8, cap: u32, seed: u64) -> (Vec<Event>, Tally) {
        let (mut native, mut seed) = (Native::new(), seed);
        let mut all = Vec::new();
        for number in 0..2000 {
            let mut event = event(&mut seed, number, slots);
            native.play(&mut event, policy, cap);
            all.push(event);
        }
        (all, native.tally)
    }

    #[test]
    fn the_scheduler_decides_and_counts_as_the_oracle_does() {
        for policy in 0..POLICIES.len() as u32 {
            for (slots, seed) in [(2, 1), (4, 2), (7, 3), (33, 4), (64, 5)] {
                let (events, own) = events(policy, slots, 3, seed);
                let oracle = check(&events, policy, 3);
                assert_eq!(oracle, Ok(own), "{} of {slots}", POLICIES[policy as usize]);
            }
        }
    }

    #[test]
    fn a_wrong_decision_a_wrong_cap_and_a_missing_event_are_noticed() {
        let number = |name| POLICIES.iter().position(|of| *of == name).unwrap() as u32;
        let (mut events, own) = events(number("spin-count"), 8, 3, 7);
        assert_eq!(check(&events, number("spin-count"), 3), Ok(own));
        assert!(check(&events, number("spin-count"), 2).is_err());
        assert!(check(&events, number("skip-spinners"), 3).is_err());
        let spin = events.iter_mut().rfind(|event| event.kind == SPIN).unwrap();
        spin.why ^= 1;
        assert!(check(&events, number("spin-count"), 3).is_err());
        events.remove(10);
        let said = check(&events, number("spin-count"), 3).unwrap_err();
        assert_eq!(said, "event 10 of group 0 is missing");
    }
}
