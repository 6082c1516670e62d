//! Clauses that one CPU can check alone: waits, how they end, and kicks of its own.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, Ordering::*};

use overlock::platform::Platform as _;

use super::support::{Verdict, await_change, by_kick, ensure, me, often, with_ticks};
use crate::cpus;
use crate::kernel::Kernel;
use crate::machine::{apic, interrupts};
use crate::platform::{HaltEnd, Halting as _, Sabotage, broken, wait_with};

const TIMES: usize = 20;
/// How far away a deadline is.
const SOON_NS: u64 = 5_000_000;

fn wait<K: Kernel>(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) -> HaltEnd {
    wait_with::<K::Aware>(word, expected, deadline_ns, || {})
}

pub(super) fn p1<K: Kernel>() -> Verdict {
    let word = AtomicU32::new(0);
    let ended = with_ticks::<K, _>(|| wait::<K>(&word, 1, None));
    ensure(ended == HaltEnd::Early, "it waited for a word that had changed")
}

/// How often a wait may end for no reason before a tick ends it.
const STRAYS: usize = 100;

pub(super) fn p2<K: Kernel>() -> Verdict {
    let word = AtomicU32::new(0);
    let ticks = || cpus::this().tally.ticks.load(Relaxed);
    let halts = || wait::<K>(&word, 0, None) != HaltEnd::Early;
    with_ticks::<K, _>(|| {
        let before = ticks();
        let mut tries = 0..STRAYS;
        while ticks() == before {
            ensure(tries.next().is_some() && halts(), "it did not wait")?;
        }
        Ok(())
    })
}

pub(super) fn deadline<K: Kernel>() -> Verdict {
    let word = AtomicU32::new(0);
    with_ticks::<K, _>(|| {
        let mut ended = HaltEnd::Refused;
        while ended != HaltEnd::Overdue {
            let deadline = K::Aware::now_ns() + SOON_NS;
            ended = HaltEnd::Otherwise;
            while ended == HaltEnd::Otherwise {
                ended = wait::<K>(&word, 0, Some(deadline));
            }
            let on_time = K::Aware::now_ns() >= deadline;
            ensure(on_time || ended == HaltEnd::Kicked, "it ended before its deadline")?;
        }
        let late = wait::<K>(&word, 0, Some(1));
        ensure(late == HaltEnd::Refused, "it waited beyond its deadline")
    })
}

/// Waits, with a kick after the look from this CPU itself. Returns how the wait ended.
fn kicked_between<K: Kernel>() -> HaltEnd {
    loop {
        let (word, sent) = (AtomicU32::new(0), Cell::new(false));
        let ended = wait_with::<K::Aware>(&word, 0, None, || {
            let arrived = &cpus::this().tally.arrived;
            let before = arrived.load(Relaxed);
            word.store(1, SeqCst);
            K::Aware::kick(&raw const word, me());
            sent.set(true);
            if broken(Sabotage::LooksEarly) && K::Aware::KICKS_INTERRUPT {
                // Interrupts are on, so the kick comes in here.
                await_change(|| arrived.load(Relaxed) != before);
            }
        });
        if sent.get() {
            return ended;
        }
    }
}

pub(super) fn own<K: Kernel>() -> Verdict {
    with_ticks::<K, _>(|| often::<K>(TIMES, || by_kick(kicked_between::<K>())))
}

pub(super) fn before<K: Kernel>() -> Verdict {
    let word = AtomicU32::new(1);
    with_ticks::<K, _>(|| {
        K::Aware::kick(&raw const word, me());
        ensure(wait::<K>(&word, 0, None) == HaltEnd::Early, "it waited though the word had changed")
    })
}

/// A wait between the look and the halt of another, which has its kick by then.
pub(super) fn nested<K: Kernel>() -> Verdict {
    let once = || {
        let (outer, inner) = (AtomicU32::new(0), AtomicU32::new(1));
        by_kick(wait_with::<K::Aware>(&outer, 0, None, || {
            outer.store(1, SeqCst);
            K::Aware::kick(&raw const outer, me());
            wait::<K>(&inner, 0, None);
        }))
    };
    with_ticks::<K, _>(|| often::<K>(TIMES, once))
}

static IN_NMI: AtomicU32 = AtomicU32::new(0);
const HALTED: u32 = 1;
const REFUSED: u32 = 2;

pub(super) fn nmi<K: Kernel>() -> Verdict {
    IN_NMI.store(0, SeqCst);
    interrupts::on_nmi(Some(|| {
        let word = AtomicU32::new(0);
        // It ends the halt of a platform that is broken.
        K::Aware::kick(&raw const word, me());
        let refused = wait::<K>(&word, 0, None) == HaltEnd::Refused;
        IN_NMI.store(if refused { REFUSED } else { HALTED }, SeqCst);
    }));
    with_ticks::<K, _>(|| {
        apic::interrupt_for_sure(cpus::this().apic.load(Relaxed));
        while IN_NMI.load(SeqCst) == 0 {
            core::hint::spin_loop();
        }
    });
    interrupts::on_nmi(None);
    ensure(IN_NMI.load(SeqCst) == REFUSED, "it halted in the interrupt")
}
