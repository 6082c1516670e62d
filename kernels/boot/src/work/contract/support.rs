//! What the checks of the clauses share.

use core::sync::atomic::Ordering::Relaxed;

use overlock::platform::Cpu;

use crate::cpus;
use crate::kernel::Kernel;
use crate::platform::HaltEnd;

/// Nothing, or what is wrong.
pub(super) type Verdict = Result<(), &'static str>;

/// The period of the timer during a check.
pub(super) const TICK_US: u32 = 20_000;

pub(super) fn me() -> Cpu {
    Cpu::new(cpus::this().number()).expect("the number of a CPU that runs")
}

pub(super) fn ensure(holds: bool, otherwise: &'static str) -> Verdict {
    if holds { Ok(()) } else { Err(otherwise) }
}

/// Runs `work` while the timer of this CPU ticks.
pub(super) fn with_ticks<K: Kernel, R>(work: impl FnOnce() -> R) -> R {
    K::tick_every_us(Some(TICK_US));
    let result = work();
    K::tick_every_us(None);
    result
}

/// A wait that has its kick before it halts must be ended by that kick.
pub(super) fn by_kick(ended: HaltEnd) -> Verdict {
    match ended {
        HaltEnd::Kicked => Ok(()),
        HaltEnd::Refused => Err("it did not wait"),
        HaltEnd::Early => Err("it saw a change that was still to come"),
        HaltEnd::Overdue | HaltEnd::Otherwise => {
            Err("the kick was lost: something else ended the wait")
        }
    }
}

/// How many kicks in a row that go unseen are lost ones. KVM's goes with an interrupt that comes at
/// the same moment (`platform/kvm.rs`); five times in a row, none does.
pub(super) fn tries<K: Kernel>() -> u32 {
    if K::NAME == "kvm" { 5 } else { 1 }
}

/// Makes a check `times`. Fails if it fails as often in a row as [`tries`] says.
pub(super) fn often<K: Kernel>(times: usize, check: impl Fn() -> Verdict) -> Verdict {
    let mut failed = 0;
    for _ in 0..times {
        match check() {
            Ok(()) => failed = 0,
            Err(why) => {
                failed += 1;
                ensure(failed < tries::<K>(), why)?;
            }
        }
    }
    Ok(())
}

/// Waits until `changed`, by an interrupt that is on its way. Gives up after two ticks of the
/// timer.
pub(super) fn await_change(changed: impl Fn() -> bool) {
    let ticks = &cpus::this().tally.ticks;
    let enough = ticks.load(Relaxed) + 2;
    while !changed() && ticks.load(Relaxed) < enough {
        core::hint::spin_loop();
    }
}
