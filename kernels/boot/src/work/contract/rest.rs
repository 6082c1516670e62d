//! Clauses that need no wait: which CPUs are kicked, numbers, clocks, the switch.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*};

use overlock::counters::Event;
use overlock::platform::{Cpu, Platform as _};
use overlock::{RawLock as _, Ticket};

use super::support::{Verdict, ensure, me};
use crate::cpus;
use crate::kernel::{Kernel, everywhere, set_waiting};
use crate::machine::clock;
use crate::platform::{Sabotage, broken};
use crate::work::locks::{Counted, counted};

pub(super) fn p4<K: Kernel>() -> Verdict {
    let gone = {
        let word = AtomicU32::new(0);
        &raw const word
    };
    let kicks = &cpus::this().tally.kicks;
    let before = kicks.load(Relaxed);
    for cpu in 0..cpus::MAX {
        K::Aware::kick(gone, Cpu::new(cpu).expect("a small number"));
    }
    K::Native::kick(gone, me());
    let sent = kicks.load(Relaxed) - before;
    ensure(
        sent == cpus::started() as u64,
        "a CPU that is not up was kicked, or one that is was not",
    )
}

/// The timers of all CPUs tick at the same time, and each CPU gets its own ticks: one that takes
/// another's leaves that CPU waiting for ever.
pub(super) fn ticks<K: Kernel>() -> Verdict {
    everywhere::<K>(|_| {
        let ticks = &cpus::this().tally.ticks;
        let enough = ticks.load(Relaxed) + 50;
        K::tick_every_us(Some(1_000));
        while ticks.load(Relaxed) < enough {
            core::hint::spin_loop();
        }
        K::tick_every_us(None);
    });
    Ok(())
}

static NUMBERS: AtomicU64 = AtomicU64::new(0);
static CHANGED: AtomicBool = AtomicBool::new(false);

pub(super) fn p7<K: Kernel>() -> Verdict {
    NUMBERS.store(0, Relaxed);
    everywhere::<K>(|_| {
        let number = || match broken(Sabotage::SharesNumbers) {
            true => Cpu::new(0),
            false => K::Aware::cpu(),
        };
        let cpu = number().expect("a number");
        let slot = core::ptr::from_ref(K::Aware::slot(cpu));
        for _ in 0..1000 {
            let same = number() == Some(cpu)
                && core::ptr::eq(K::Aware::slot(cpu), slot)
                && (K::Native::cpu() == Some(cpu) || broken(Sabotage::SharesNumbers));
            CHANGED.fetch_or(!same, Relaxed);
        }
        NUMBERS.fetch_add(1 << cpu.index(), Relaxed);
    });
    let all = (1_u64 << cpus::started()) - 1;
    ensure(NUMBERS.load(Relaxed) == all, "two CPUs have one number")?;
    ensure(!CHANGED.load(Relaxed), "a number or a slot changed")
}

static LATEST: AtomicU64 = AtomicU64::new(0);
static BACKWARDS: AtomicBool = AtomicBool::new(false);
static APART_NS: AtomicU64 = AtomicU64::new(0);

pub(super) fn p9<K: Kernel>() -> Verdict {
    BACKWARDS.store(false, Relaxed);
    APART_NS.store(0, Relaxed);
    LATEST.store(0, Relaxed);
    everywhere::<K>(|_| {
        let mut before = K::Aware::now_ns();
        for round in 0..4_000 {
            let latest = LATEST.load(SeqCst);
            let turned = broken(Sabotage::TurnsBack) && round == 2_000;
            let now = K::Aware::now_ns() - if turned { 1_000_000_000 } else { 0 };
            BACKWARDS.fetch_or(now < before, Relaxed);
            APART_NS.fetch_max(latest.saturating_sub(now), Relaxed);
            LATEST.fetch_max(now, SeqCst);
            before = now;
        }
    });
    ensure(!BACKWARDS.load(Relaxed), "it went backwards on one CPU")?;
    ensure(APART_NS.load(Relaxed) < 10_000, "two CPUs differ by more than 10 us")
}

static OFF_LOCK: AtomicU32 = AtomicU32::new(0);
/// How many CPUs want the lock that the first one holds.
static WANTING: AtomicU32 = AtomicU32::new(0);
/// How long it holds the lock: long enough for a waiter to halt.
const HELD_NS: u64 = 20_000_000;

/// The locks' counts of waits and kicks.
fn halts() -> [u64; 4] {
    let seen = counted();
    [Event::PvWaitHead, Event::PvWaitNode, Event::PvWaitAgain, Event::PvKickUnlock]
        .map(|event| seen[event as usize])
}

pub(super) fn p10<K: Kernel>() -> Verdict {
    fn lock<K: Kernel>() -> &'static Ticket<K::Aware, Counted> {
        // SAFETY: zeros are an unlocked ticket lock of two halves, and nothing else uses the word.
        unsafe { &*(&raw const OFF_LOCK).cast() }
    }
    const { assert!(size_of::<Ticket<overlock::platform::Native>>() == 4) };
    WANTING.store(0, SeqCst);
    set_waiting::<K>(false);
    let before = halts();
    lock::<K>().lock();
    everywhere::<K>(|cpu| {
        if cpu == 0 {
            let others = cpus::started() as u32 - 1;
            let enough = |until| WANTING.load(SeqCst) == others && clock::now_ns() >= until;
            let until = clock::now_ns() + HELD_NS;
            while !enough(until) {
                core::hint::spin_loop();
            }
        } else {
            WANTING.fetch_add(1, SeqCst);
            lock::<K>().lock();
        }
        // SAFETY: just taken; by the first CPU before.
        unsafe { lock::<K>().unlock() };
    });
    set_waiting::<K>(true);
    ensure(halts() == before, "a lock waited all the same")
}
