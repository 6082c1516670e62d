//! Does the PM timer count, wrap, interrupt, save and restore as a real one does?

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use overlock_vcpu::host::Nanos;
use overlock_vcpu::host::pm_timer::read::{Clamped, Published, Pure, ReadRule};
use overlock_vcpu::host::pm_timer::{
    FREQUENCY_HZ, HostClock, NoSci, PmTimer, SciLine, TMR, TimerState, Width, start_of, ticks,
};
use proptest::prelude::*;

#[derive(Clone, Default)]
struct HandClock(Rc<Cell<u64>>);

impl HandClock {
    fn set(&self, at: Nanos) {
        self.0.set(at.0);
    }
}

impl HostClock for HandClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.get())
    }
}

/// A line that remembers its level.
#[derive(Clone, Default)]
struct HandLine(Rc<Cell<bool>>);

impl SciLine for HandLine {
    fn set_level(&self, high: bool) {
        self.0.set(high);
    }
}

const WIDTHS: [(Width, u32); 2] = [(Width::Bits24, 24), (Width::Bits32, 32)];

#[test]
fn the_count_wraps_at_its_width_and_nowhere_else() {
    for (width, bits) in WIDTHS {
        let clock = HandClock::default();
        let timer = PmTimer::new(width, clock.clone(), Pure, NoSci);
        for wraps in 1..=5u64 {
            let wrap = start_of(wraps << bits).unwrap();
            for nanos in wrap.0 - 1_500..wrap.0 + 1_500 {
                clock.set(Nanos(nanos));
                let expected = ticks(Nanos(nanos)) % (1 << bits);
                assert_eq!(u64::from(timer.count()), expected, "{width:?} at {nanos} ns");
            }
            clock.set(wrap - Nanos(1));
            assert_eq!(timer.count(), width.mask());
            clock.set(wrap);
            assert_eq!(timer.count(), 0);
        }
    }
}

#[test]
fn every_flip_is_an_event_exactly_once_without_any_reader() {
    for (width, bits) in WIDTHS {
        let (clock, line) = (HandClock::default(), HandLine::default());
        clock.set(Nanos::from_secs(77));
        let timer = PmTimer::new(width, clock.clone(), Pure, line.clone());
        timer.set_enable(TMR);
        for flip in 1..=9u64 {
            let due = timer.next_flip().unwrap();
            assert_eq!(due - Nanos::from_secs(77), start_of(flip << (bits - 1)).unwrap());
            clock.set(due - Nanos(1));
            assert_eq!((timer.service(), line.0.get()), (0, false));
            clock.set(due);
            assert_eq!((timer.service(), line.0.get()), (1, true));
            assert_eq!(timer.count() >> (bits - 1) & 1, (flip % 2) as u32);
            assert_eq!(timer.service(), 0, "the same flip twice");
            timer.clear_status(TMR);
            assert_eq!((timer.status(), line.0.get()), (0, false));
        }
    }
}

#[test]
fn a_late_service_finds_all_flips_and_sets_the_status_once() {
    let clock = HandClock::default();
    let timer = PmTimer::new(Width::Bits24, clock.clone(), Pure, NoSci);
    clock.set(start_of(5 << 23).unwrap());
    assert_eq!(timer.service(), 5);
    assert_eq!(timer.status(), TMR);
    timer.clear_status(!TMR);
    assert_eq!(timer.status(), TMR, "only a one in the timer's bit clears it");
    timer.clear_status(TMR);
    assert_eq!(timer.status(), 0);
}

#[test]
fn the_status_is_up_to_date_when_it_is_read() {
    let (clock, line) = (HandClock::default(), HandLine::default());
    let timer = PmTimer::new(Width::Bits24, clock.clone(), Pure, line.clone());
    clock.set(start_of(1 << 23).unwrap());
    assert_eq!(timer.status(), TMR);
    assert!(!line.0.get(), "not enabled");
    timer.set_enable(TMR);
    assert!(line.0.get(), "status was set before");
    timer.set_enable(0);
    assert!(!line.0.get());
}

#[test]
fn the_line_has_its_level_right_after_a_restore() {
    for (status, enable) in [(false, false), (true, false), (false, true), (true, true)] {
        let line = HandLine::default();
        line.0.set(true);
        let mut state = TimerState::new(Width::Bits24);
        (state.elapsed, state.status, state.enable) = (Nanos(5), status, enable);
        let timer = PmTimer::restore(state, HandClock::default(), Pure, line.clone());
        assert_eq!(line.0.get(), status && enable);
        assert_eq!(timer.save(), state);
    }
}

#[test]
fn the_end_of_time_is_survived() {
    let clock = HandClock::default();
    let timer = PmTimer::new(Width::Bits32, clock.clone(), Pure, NoSci);
    clock.set(Nanos::MAX);
    assert_eq!(u64::from(timer.count()), ticks(Nanos::MAX) % (1 << 32));
    assert_eq!(timer.next_flip(), None);
    timer.service();
    let timer = PmTimer::restore(timer.save(), clock, Pure, NoSci);
    assert_eq!(timer.elapsed(), Nanos::MAX);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Steps of time, clears, enables, saves and restores on other hosts: at each step the timer
    /// agrees with a model without wraps, packed words or concurrency.
    #[test]
    fn any_life_agrees_with_the_model(
        wide: bool,
        steps in proptest::collection::vec((0u8..6, 0u64..3_000_000_000), 1..60),
    ) {
        let (width, bits) = WIDTHS[usize::from(wide)];
        let line = HandLine::default();
        let mut clock = HandClock::default();
        let mut timer = PmTimer::new(width, clock.clone(), Pure, line.clone());
        let (mut elapsed, mut status, mut enable, mut events) = (0u64, false, false, 0);
        let mut noticed = 0;
        for (what, amount) in steps {
            match what {
                0 | 1 => {
                    let amount = if wide { amount * 200 } else { amount };
                    let flips = |at: u64| ticks(Nanos(at)) >> (bits - 1);
                    events += flips(elapsed + amount) - flips(elapsed);
                    status |= flips(elapsed + amount) > flips(elapsed);
                    elapsed += amount;
                    clock.set(clock.now() + Nanos(amount));
                    noticed += timer.service();
                }
                2 => {
                    timer.clear_status(TMR);
                    status = false;
                }
                3 | 4 => {
                    enable = what == 3;
                    timer.set_enable(if enable { TMR } else { 0 });
                }
                _ => {
                    let state = timer.save();
                    clock = HandClock::default();
                    clock.set(Nanos(amount));
                    timer = PmTimer::restore(state, clock.clone(), Pure, line.clone());
                    prop_assert_eq!(timer.save(), state);
                }
            }
            prop_assert_eq!(timer.elapsed(), Nanos(elapsed));
            let count = u128::from(elapsed) * u128::from(FREQUENCY_HZ) / 1_000_000_000;
            prop_assert_eq!(u128::from(timer.count()), count % (1 << bits));
            prop_assert_eq!((timer.status(), timer.enable()), (status.into(), enable.into()));
            prop_assert_eq!(line.0.get(), status && enable);
            prop_assert_eq!(noticed, events);
        }
    }
}

#[test]
fn a_clock_that_runs_backwards_stops_the_timer_and_no_more() {
    fn stands_still<R: ReadRule>(rule: R) {
        let clock = HandClock::default();
        clock.set(Nanos(1_000));
        let timer = PmTimer::new(Width::Bits24, clock.clone(), rule, NoSci);
        clock.set(Nanos(5_000));
        assert_eq!(timer.elapsed(), Nanos(4_000));
        for earlier in [3_000, 0] {
            clock.set(Nanos(earlier));
            assert_eq!(timer.elapsed(), Nanos(4_000));
        }
        clock.set(Nanos(5_001));
        assert_eq!(timer.elapsed(), Nanos(4_001));
    }
    stands_still(Clamped::default());
    stands_still(Published::default());
}

/// A timer whose line's callback can reach it, in order to interfere.
#[derive(Default)]
struct Events {
    level: AtomicBool,
    /// Whether the next call of the line clears the status first.
    intrude: AtomicBool,
    now: AtomicU64,
    timer: std::sync::OnceLock<BoxedTimer>,
}

type BoxedTimer =
    PmTimer<Box<dyn Fn() -> Nanos + Send + Sync>, Pure, Box<dyn Fn(bool) + Send + Sync>>;

impl Events {
    fn leaked() -> &'static Self {
        let events: &'static Self = Box::leak(Box::default());
        let clock = || Nanos(events.now.load(Ordering::SeqCst));
        let sci = |high: bool| {
            if events.intrude.swap(false, Ordering::SeqCst) {
                events.clear();
            }
            events.level.store(high, Ordering::SeqCst);
        };
        let timer = PmTimer::new(Width::Bits24, Box::new(clock) as _, Pure, Box::new(sci) as _);
        timer.set_enable(TMR);
        events.timer.set(timer).map_err(drop).unwrap();
        events
    }

    fn timer(&self) -> &BoxedTimer {
        self.timer.get().unwrap()
    }

    fn flip(&self) {
        self.now.fetch_add(start_of(1 << 23).unwrap().0, Ordering::SeqCst);
        self.timer().service();
    }

    fn clear(&self) {
        self.timer().clear_status(TMR);
    }

    fn line(&self) -> bool {
        self.level.load(Ordering::SeqCst)
    }

    fn wanted(&self) -> bool {
        self.timer().status() == TMR
    }
}

/// The clear happens in the very middle of the raise.
#[test]
fn the_line_follows_a_clear_within_a_raise() {
    let events = Events::leaked();
    events.intrude.store(true, Ordering::SeqCst);
    events.flip();
    assert!(!events.line() && !events.wanted(), "the clear came after the flip");
}

#[test]
fn no_interrupt_is_lost_among_flips_and_clears() {
    let events = Events::leaked();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..10_000).for_each(|_| events.flip()));
            scope.spawn(|| (0..10_000).for_each(|_| events.clear()));
        }
    });
    assert_eq!(events.line(), events.wanted(), "the line disagrees with the status");
    // Whatever happened before, the next flip must raise the line.
    events.clear();
    assert!(!events.line());
    events.flip();
    assert!(events.line(), "an interrupt was lost");
}

#[test]
fn each_flip_is_noticed_by_exactly_one_of_many() {
    let events = Events::leaked();
    let noticed = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10_000 {
                    events.now.fetch_add(start_of(1 << 22).unwrap().0, Ordering::SeqCst);
                    noticed.fetch_add(events.timer().service(), Ordering::SeqCst);
                }
            });
        }
    });
    let flips = ticks(Nanos(events.now.load(Ordering::SeqCst))) >> 23;
    assert_eq!(noticed.load(Ordering::SeqCst), flips);
}

#[test]
fn registers_are_read_and_written_without_a_bus() {
    let clock = HandClock::default();
    let timer = PmTimer::new(Width::Bits24, clock.clone(), Pure, NoSci);
    timer.write(2, &TMR.to_le_bytes());
    clock.set(start_of(1 << 23).unwrap());
    let mut events = [0; 4];
    timer.read(0, &mut events);
    assert_eq!(events, [TMR as u8, 0, TMR as u8, 0]);
    let mut count = [0; 4];
    timer.read(8, &mut count);
    assert_eq!(u32::from_le_bytes(count), 1 << 23);
    timer.write(0, &[TMR as u8]);
    assert_eq!((timer.status(), timer.enable()), (0, TMR));
    // No other offset answers, and nothing panics, whatever the guest does.
    for offset in (0..16).chain([u16::MAX]) {
        for size in [0, 1, 2, 3, 4, 5, 8] {
            let mut data = vec![0x55; size];
            timer.read(offset, &mut data);
            let end = usize::from(offset) + size;
            let known = end <= 4 || (8..=12).contains(&offset) && end <= 12;
            assert!(known || data.iter().all(|&byte| byte == 0xff), "{offset}, {size}");
            timer.write(offset, &data);
        }
    }
}
