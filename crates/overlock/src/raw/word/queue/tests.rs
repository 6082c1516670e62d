use super::*;

const ME: u32 = 0x0105;
const OTHER: u32 = 0x0209;

fn words(tail: u32) -> impl Iterator<Item = LockWord> {
    (0..1 << TAIL_SHIFT).map(move |low| LockWord::new(tail << TAIL_SHIFT | low))
}

fn me() -> NodeId {
    NodeId::decode(ME).expect("no tail is zero")
}

#[test]
fn newcomers_take_a_free_lock_that_admits_them_and_count() {
    for word in words(0).chain(words(OTHER)) {
        let full = word.has_queue() && word.steals() == LockWord::STEALS_MAX;
        let admits = !word.is_stealing_disabled() && !full || word.is_head_absent();
        let Some(taken) = word.taken_by_newcomer(false) else {
            assert!(word.is_locked() || !admits, "{:#x}", word.bits());
            continue;
        };
        assert!(admits && !word.is_locked(), "{:#x}", word.bits());
        let skips = word.bits() & STEALS_LOW == STEALS_LOW;
        let counts = word.has_queue() && !word.is_head_absent();
        let steal = if counts { 1 + u32::from(skips) } else { 0 };
        assert_eq!(taken.bits(), word.bits() + LOCKED + steal * STEAL, "{:#x}", word.bits());
    }
}

#[test]
fn a_release_changes_the_count_only_where_a_steal_may_be_missing() {
    let plain = |word: &LockWord| word.is_locked() && !word.is_handed_over();
    for word in words(0).chain(words(OTHER)).filter(plain) {
        let after = word.released(false, true);
        let counts = word.has_queue() && !word.is_head_absent();
        let missing = u32::from(counts && word.steals() == 0);
        assert_eq!(after.steals(), word.steals() + missing, "{:#x}", word.bits());
        let others = !(LOCKED | STEALS | PARKED);
        assert_eq!(after.without_note().bits() & others, word.bits() & others);
        assert!(!after.is_locked() && !after.has_parked());
        let strict = if counts { NO_STEALING } else { 0 };
        assert_eq!(word.released(true, true).bits(), after.bits() | strict);
    }
}

/// A note is no queue. Once a release has seen it, it stays, until a waiter wipes it.
#[test]
fn a_note_is_seen_and_the_last_waiter_leaves_none() {
    let plain = |word: &LockWord| !word.has_parked() && !word.is_handed_over();
    for word in words(0).filter(plain) {
        let free = word.released(false, true);
        let noted = word.noted().expect("the upper half is zero");
        assert!(!noted.is_seen() && !noted.has_queue() && noted.noted().is_none());
        assert_eq!(noted.without_note(), word);
        assert_eq!((noted.tail(), noted.reservation()), (None, word.reservation()));
        let seen = noted.released(false, true);
        assert!(seen.is_seen() && seen.released(false, true) == seen);
        assert_eq!(seen.without_note(), free);
        assert_eq!(seen.joined_by(me(), true), free.joined_by(me(), true));
        assert!(!word.parked().released(false, false).is_seen());
        for word in [word, noted, word.passed_on()] {
            let parked = word.parked();
            assert!(parked.is_seen() && parked.has_parked() && !parked.has_queue());
            assert_eq!(parked.released(false, true), seen);
            let passed = parked.passed_on();
            assert!(passed.is_seen() && passed.has_parked() && !passed.has_queue());
            assert_eq!(passed.released(false, true), free);
        }
    }
    for word in words(OTHER) {
        assert!(word.is_seen() && word.without_note() == word && word.noted().is_none());
        assert_eq!(word.passed_on(), word.parked());
    }
}

#[test]
fn what_is_handed_over_is_for_those_that_have_halted() {
    let held = LockWord::HELD.parked();
    assert_eq!(LockWord::HELD.handed_over(), None);
    assert_eq!(held.joined_by(me(), false).handed_over(), None);
    let handed = held.handed_over().expect("a waiter has halted, and there is no queue");
    assert!(handed.is_locked() && !handed.has_parked());
    assert_eq!(handed.released(false, true), LockWord::FREE);
    let free = handed.parked().released(true, true);
    assert!(!free.is_locked() && free.bits() & 0xff != 0, "the fast path takes nothing");
    assert!(free.reservation().is_some() && free.taken_by_newcomer(false).is_none());
    assert_eq!(free.taken_by_newcomer(true), Some(LockWord::HELD));
    assert_eq!(free.taken_past_reservation(), LockWord::HELD);
    assert_eq!(free.left(), LockWord::FREE.passed_on());
}

#[test]
fn without_a_queue_nothing_is_left_that_a_cheap_release_would_lose() {
    for word in words(ME) {
        for left in [word.without_head(me(), true), word.taken_by_head(me(), true)] {
            let marked =
                if word.has_parked() { LockWord::FREE.passed_on() } else { LockWord::FREE };
            assert_eq!(left.bits() & !LOCKED, marked.bits(), "{:#x}", word.bits());
        }
    }
}

#[test]
fn a_head_that_leaves_others_resets_the_count_and_what_it_had_set() {
    for word in words(OTHER) {
        for strict in [false, true] {
            let left = word.taken_by_head(me(), strict);
            let disabled = if strict { DISABLED } else { 0 };
            let expected = OTHER << TAIL_SHIFT | disabled | LOCKED | word.bits() & PARKED;
            assert_eq!(left.bits(), expected, "{:#x}", word.bits());
        }
    }
}

#[test]
fn a_waiter_that_joins_is_the_tail_and_disables_stealing_as_the_head_of_a_strict_queue() {
    for word in words(0).chain(words(OTHER)) {
        for strict in [false, true] {
            let joined = word.joined_by(me(), strict);
            assert_eq!(joined.tail().map(NodeId::code), Some(ME));
            let set = if strict && !word.has_queue() { DISABLED } else { 0 };
            assert_eq!(joined.bits() & !TAIL, word.bits() & !TAIL | set);
        }
    }
}

/// So a CPU that looks only at the lowest byte takes no lock that it must not take.
#[test]
fn the_lowest_byte_is_zero_only_without_a_count_and_with_stealing() {
    let mut word = LockWord::new(OTHER << TAIL_SHIFT);
    let mut steals = 0;
    while let Some(taken) = word.taken_by_newcomer(true) {
        word = taken.released(false, true);
        assert_ne!(word.bits() & 0xff, 0, "{:#x}", word.bits());
        steals += 1;
    }
    let skipped = LockWord::STEALS_MAX >> 7;
    assert_eq!(steals, LockWord::STEALS_MAX - skipped);
    let counted = |word: &LockWord| word.steals() == 0 || word.bits() & STEALS_LOW != 0;
    let open = words(OTHER)
        .filter(|word| !word.is_locked() && !word.is_stealing_disabled())
        .filter(|word| !word.is_head_absent());
    for word in open.filter(counted) {
        for new in [
            LockWord::new(word.bits() | rmw::DISABLE_STEALING),
            LockWord::new(0).joined_by(me(), true),
            word.without_halted(true),
            word.without_head(me(), true),
            word.released(true, true),
        ] {
            assert!(new.is_stealing_disabled() && new.bits() & 0xff != 0, "{:#x}", new.bits());
        }
    }
}

#[test]
fn flags_change_alone() {
    for word in words(0).chain(words(OTHER)) {
        let bits = word.bits();
        assert_eq!(word.head_halted(true).bits(), bits | HALTED);
        assert_eq!(word.head_halted(false).bits(), bits & !NO_STEALING | HALTED);
        assert_eq!(word.without_halted(false).bits(), bits & !HALTED);
        assert_eq!(word.without_halted(true).bits(), bits & !HALTED | DISABLED);
        assert_eq!(word.without_halted(false).bits(), bits & !HALTED);
    }
}
