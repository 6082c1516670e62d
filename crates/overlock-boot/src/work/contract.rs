// SPDX-License-Identifier: MIT OR Apache-2.0
//! The platform contract, clause by clause, and each with a wait that is broken on purpose where
//! a broken one can be told.
//!
//! That a kick is lost is seen by the timer: it ticks once, long after the kick, and a wait that
//! was ended by that tick was not ended by the kick.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use overlock::counters::Event;
use overlock::{Cpu, Platform, RawLock, Ticket};

use super::checks::tell;
use super::locks::{Counted, counted};
use crate::cpus;
use crate::kernel::{Kernel, everywhere};
use crate::machine::{clock, interrupts};

/// Nothing, or what is wrong.
type Verdict = Result<(), &'static str>;

/// A clause's name, and what asks for it.
type Clause = (&'static str, fn() -> Verdict);

/// How long a lost kick is waited for, in microseconds.
const LONG_US: u32 = 300_000;

/// Asks all clauses. Returns whether all are kept, and all that are broken on purpose are found.
pub(super) fn check<K: Kernel>() -> bool {
    let clauses: [Clause; 15] = [
        ("P1 wait returns at once if the word differs", p1::<K>),
        ("P2 an interrupt ends a wait", p2::<K>),
        ("a wait ends at its deadline and not before", deadline::<K>),
        ("P3 a kick between look and halt is not lost", p3::<K>),
        ("P3 a kick before the look is not lost", p3_before::<K>),
        (
            "P3 a kick between look and halt, with a wait that looks too early, is lost",
            p3_broken::<K>,
        ),
        ("P3 a nested wait leaves the outer one its kick", nested::<K>),
        ("P3 a nested wait that forgets the outer one is found", nested_broken::<K>),
        ("P3 two CPUs call each other back", ping_pong::<K>),
        ("P3 a kick ends a wait with interrupts off", interrupts_off::<K>),
        ("P4 kicks that nobody waits for are harmless", p4::<K>),
        ("P7 and P8 numbers and slots are unique and kept", p7::<K>),
        ("P9 the clock does not go backwards", p9::<K>),
        ("P10 waiting can be switched off", p10::<K>),
        ("F8 a wait in a non-maskable interrupt returns at once", nmi::<K>),
    ];
    let mut fine = true;
    for (what, clause) in clauses {
        let found = clause();
        fine &= tell(format_args!("contract: {what}"), found.is_ok(), found.err().unwrap_or(""));
    }
    fine
}

fn me() -> Cpu {
    Cpu::new(cpus::this().number()).expect("the number of a CPU that runs")
}

fn ensure(holds: bool, otherwise: &'static str) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise) }
}

/// Whether `wait` was ended by the timer, which ticks a long time from now.
fn ends_by_timer<K: Kernel>(wait: impl FnOnce()) -> bool {
    let ticks = &cpus::this().tally.ticks;
    K::tick_every_us(Some(LONG_US));
    let before = ticks.load(Relaxed);
    wait();
    let ended = ticks.load(Relaxed) != before;
    K::tick_every_us(None);
    ended
}

/// Whether a kick is lost for good. A busy host may hold a machine up until the tick comes all the
/// same, so it is asked three times; what these clauses look for happens every time.
fn is_lost(mut lost: impl FnMut() -> bool) -> bool {
    (0..3).all(|_| lost())
}

fn p1<K: Kernel>() -> Verdict {
    let word = AtomicU32::new(0);
    let waited = is_lost(|| ends_by_timer::<K>(|| K::Aware::wait(&word, 1, None)));
    ensure(!waited, "it waited")
}

fn p2<K: Kernel>() -> Verdict {
    let word = AtomicU32::new(0);
    ensure(ends_by_timer::<K>(|| K::Aware::wait(&word, 0, None)), "it did not wait")
}

fn deadline<K: Kernel>() -> Verdict {
    let word = AtomicU32::new(0);
    K::tick_every_us(Some(5_000));
    let deadline = K::Aware::now_ns() + 20_000_000;
    while K::Aware::now_ns() < deadline {
        K::Aware::wait(&word, 0, Some(deadline));
    }
    K::tick_every_us(None);
    // A deadline in the past does not wait at all.
    let waited = is_lost(|| ends_by_timer::<K>(|| K::Aware::wait(&word, 0, Some(1))));
    ensure(!waited, "it waited")
}

/// Changes the word and kicks, after the look.
fn kicked_in_between<K: Kernel>(careless: bool) -> bool {
    let word = AtomicU32::new(0);
    ends_by_timer::<K>(|| {
        let between = || {
            word.store(1, SeqCst);
            K::Aware::kick(&raw const word, me());
            // Long enough for an interrupt to come, if it can.
            clock::spin_ns(1_000_000);
        };
        K::probe_wait(&word, 0, between, careless);
    })
}

fn p3<K: Kernel>() -> Verdict {
    ensure(!(0..20).any(|_| is_lost(|| kicked_in_between::<K>(false))), "a kick was lost")
}

fn p3_before<K: Kernel>() -> Verdict {
    let word = AtomicU32::new(0);
    let kicked_first = || {
        word.store(1, SeqCst);
        K::Aware::kick(&raw const word, me());
        K::Aware::wait(&word, 0, None);
    };
    let lost = is_lost(|| ends_by_timer::<K>(kicked_first));
    ensure(!lost, "a kick was lost")
}

fn p3_broken<K: Kernel>() -> Verdict {
    // An earlier kick that is remembered ends a wait for nothing, once.
    let lost = (0..5).any(|_| kicked_in_between::<K>(true));
    ensure(lost, "the wait was broken, and nobody noticed")
}

/// A wait between the look and the halt of another, which has its kick by then.
fn nested_wait<K: Kernel>() -> bool {
    let (outer, inner) = (AtomicU32::new(0), AtomicU32::new(1));
    ends_by_timer::<K>(|| {
        let between = || {
            outer.store(1, SeqCst);
            K::Aware::kick(&raw const outer, me());
            K::Aware::wait(&inner, 0, None);
        };
        K::probe_wait(&outer, 0, between, false);
    })
}

fn nested<K: Kernel>() -> Verdict {
    ensure(!(0..20).any(|_| is_lost(nested_wait::<K>)), "the outer wait lost its kick")
}

fn nested_broken<K: Kernel>() -> Verdict {
    if K::NAME != "xen" {
        // A nested wait has nothing to take away here: the kick is an interrupt held back.
        return Ok(());
    }
    K::set_forgetful(true);
    let lost = (0..5).any(|_| nested_wait::<K>());
    K::set_forgetful(false);
    ensure(lost, "the nested wait was broken, and nobody noticed")
}

static BALL: AtomicU32 = AtomicU32::new(0);
const TURNS: u32 = 5_000;

/// Two CPUs each wait for the other's change of one word; nothing else ends a wait. A lost kick
/// stops both for ever, which whoever started this machine notices.
fn ping_pong<K: Kernel>() -> Verdict {
    BALL.store(0, Relaxed);
    if cpus::started() < 2 {
        return Ok(());
    }
    everywhere::<K>(|cpu| {
        if cpu > 1 {
            return;
        }
        let other = Cpu::new(1 - cpu).expect("0 or 1");
        for turn in 0..TURNS {
            let mine = turn * 2 + cpu as u32;
            while BALL.load(SeqCst) != mine {
                K::Aware::wait(&BALL, BALL.load(SeqCst).min(mine.wrapping_sub(1)), None);
            }
            BALL.store(mine + 1, SeqCst);
            K::Aware::kick(&raw const BALL, other);
        }
    });
    ensure(BALL.load(Relaxed) == 2 * TURNS, "not all turns were taken")
}

static OFF: AtomicU32 = AtomicU32::new(0);

/// The first CPU waits without interrupts; the second kicks it a moment later.
fn interrupts_off<K: Kernel>() -> Verdict {
    OFF.store(0, SeqCst);
    if cpus::started() < 2 {
        return Ok(());
    }
    everywhere::<K>(|cpu| match cpu {
        0 => K::without_interrupts(|| {
            while OFF.load(SeqCst) == 0 {
                K::Aware::wait(&OFF, 0, None);
            }
        }),
        1 => {
            clock::spin_ns(5_000_000);
            OFF.store(1, SeqCst);
            K::Aware::kick(&raw const OFF, Cpu::new(0).expect("zero"));
        }
        _ => {}
    });
    Ok(())
}

fn p4<K: Kernel>() -> Verdict {
    let gone = {
        let word = AtomicU32::new(0);
        &raw const word
    };
    for cpu in 0..cpus::MAX {
        K::Aware::kick(gone, Cpu::new(cpu).expect("a small number"));
    }
    K::Native::kick(gone, me());
    Ok(())
}

static NUMBERS: AtomicU64 = AtomicU64::new(0);
static CHANGED: AtomicBool = AtomicBool::new(false);

fn p7<K: Kernel>() -> Verdict {
    NUMBERS.store(0, Relaxed);
    everywhere::<K>(|_| {
        let cpu = K::Aware::cpu().expect("a number");
        let slot = core::ptr::from_ref(K::Aware::slot(cpu));
        for _ in 0..1000 {
            let same = K::Aware::cpu() == Some(cpu)
                && core::ptr::eq(K::Aware::slot(cpu), slot)
                && K::Native::cpu() == Some(cpu);
            CHANGED.fetch_or(!same, Relaxed);
        }
        NUMBERS.fetch_add(1 << cpu.index(), Relaxed);
    });
    let all = (1_u64 << cpus::started()) - 1;
    ensure(NUMBERS.load(Relaxed) == all, "two CPUs have one number")?;
    ensure(!CHANGED.load(Relaxed), "a number or a slot changed")
}

static LATEST: AtomicU64 = AtomicU64::new(0);
static BACKWARDS: AtomicUsize = AtomicUsize::new(0);
static APART_NS: AtomicU64 = AtomicU64::new(0);

fn p9<K: Kernel>() -> Verdict {
    everywhere::<K>(|_| {
        let mut before = K::Aware::now_ns();
        for _ in 0..20_000 {
            let latest = LATEST.load(SeqCst);
            let now = K::Aware::now_ns();
            if now < before {
                BACKWARDS.fetch_add(1, Relaxed);
            }
            APART_NS.fetch_max(latest.saturating_sub(now), Relaxed);
            LATEST.fetch_max(now, SeqCst);
            before = now;
        }
    });
    ensure(BACKWARDS.load(Relaxed) == 0, "it went backwards on one CPU")?;
    ensure(APART_NS.load(Relaxed) < 10_000, "two CPUs differ by more than 10 us")
}

static OFF_LOCK: AtomicU32 = AtomicU32::new(0);

fn p10<K: Kernel>() -> Verdict {
    fn lock<K: Kernel>() -> &'static Ticket<K::Aware, Counted> {
        // SAFETY: zeros are an unlocked ticket lock of two halves, and nothing else uses the word.
        unsafe { &*(&raw const OFF_LOCK).cast() }
    }
    const { assert!(size_of::<Ticket<overlock::platform::Native>>() == 4) };
    let halts = |seen: [u64; Event::ALL.len()]| {
        [Event::PvWaitHead, Event::PvWaitNode, Event::PvWaitAgain, Event::PvKickUnlock]
            .map(|event| seen[event as usize])
    };
    K::set_waiting(false);
    let before = halts(counted());
    everywhere::<K>(|_| {
        for _ in 0..20 {
            lock::<K>().lock();
            clock::spin_ns(20_000);
            // SAFETY: just taken.
            unsafe { lock::<K>().unlock() };
        }
    });
    K::set_waiting(true);
    ensure(halts(counted()) == before, "a lock waited all the same")
}

static IN_NMI: AtomicU32 = AtomicU32::new(0);

fn nmi<K: Kernel>() -> Verdict {
    IN_NMI.store(0, SeqCst);
    interrupts::on_nmi(Some(|| {
        let word = AtomicU32::new(0);
        K::Aware::wait(&word, 0, None);
        IN_NMI.store(1, SeqCst);
    }));
    let sent = K::interrupt_for_sure(me().index());
    while sent && IN_NMI.load(SeqCst) == 0 {
        core::hint::spin_loop();
    }
    interrupts::on_nmi(None);
    Ok(())
}
