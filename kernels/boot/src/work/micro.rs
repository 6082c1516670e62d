//! The workload that every world has: all CPUs want one lock, over and over.

use core::cell::UnsafeCell;
use core::mem;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*};

use overlock::ConstLock;

use super::checks::begin;
use super::locks::{UseLock, with_lock};
use super::page;
use super::samples::{self, Seen};
use super::waits::Waits;
use crate::console::SILENCE_NS;
use crate::cpus::MAX;
use crate::kernel::{Kernel, at_rest, everywhere};
use crate::machine::clock;
use crate::plan::CommandLine;
use crate::say;

/// The run that is under way; written before its job is handed out.
struct Run {
    cpus: AtomicUsize,
    cs_ns: AtomicU64,
    ncs_ns: AtomicU64,
    run_ns: AtomicU64,
    enough: AtomicU64,
    /// How many CPUs have had the lock.
    ready: AtomicU32,
    /// How often they had it before the run began.
    base: AtomicU64,
    begun_ns: AtomicU64,
    ended: AtomicBool,
    ended_ns: AtomicU64,
    /// When to say that the run is still under way.
    speak_ns: AtomicU64,
}

// SAFETY: it consists of atomic numbers, and zeros are such.
static RUN: Run = unsafe { core::mem::zeroed() };

#[repr(align(128))]
struct Did {
    /// Before the run began.
    before: AtomicU64,
    ops: AtomicU64,
    waits: Waits,
}

static DID: [Did; MAX] =
    [const { Did { before: AtomicU64::new(0), ops: AtomicU64::new(0), waits: Waits::new() } }; MAX];

/// What the locks protect: a count without any atomicity of its own.
struct Sum(UnsafeCell<u64>);

// SAFETY: only the holder of the lock of the run touches it, and the first CPU when all are done.
unsafe impl Sync for Sum {}

static SUM: Sum = Sum(UnsafeCell::new(0));

/// The place of the lock of the run. All locks fit, and start as zeros.
#[repr(align(128))]
struct Place(AtomicU32);

static PLACE: Place = Place(AtomicU32::new(0));

fn lock<L: ConstLock + 'static>() -> &'static L {
    const { assert!(size_of::<L>() <= 4 && align_of::<L>() <= 4) };
    // SAFETY: zeros are an unlocked lock of any kind, and one run uses one kind; between runs the
    // place is cleared.
    unsafe { &*(&raw const PLACE.0).cast() }
}

/// Lets `cpu` take the lock once. Returns when it was asked for and got, and which of all it was.
#[inline(always)]
fn take<L: ConstLock + 'static>(cpu: usize, cs_ns: u64) -> (u64, u64, u64) {
    let lock = lock::<L>();
    page::asks(cpu);
    let asked = clock::now_ns();
    lock.lock();
    let got = clock::now_ns();
    page::holds(cpu);
    // SAFETY: this CPU holds the lock.
    let sum = unsafe {
        let sum = SUM.0.get();
        *sum += 1;
        *sum
    };
    if got >= RUN.speak_ns.load(Relaxed) {
        // Only the holder writes.
        RUN.speak_ns.store(got + SILENCE_NS, Relaxed);
        say!("{{\"kind\":\"alive\",\"ops\":{sum}}}");
    }
    clock::spin_ns(cs_ns);
    page::frees(cpu);
    // SAFETY: as above.
    unsafe { lock.unlock() };
    page::has_freed(cpu);
    (asked, got, sum)
}

/// The part of one CPU. What it does counts as soon as every CPU has had the lock once: before
/// that, the CPUs that happen to run first have it to themselves.
fn job<L: ConstLock + 'static>(cpu: usize) {
    let active = RUN.cpus.load(Relaxed);
    if cpu >= active {
        return;
    }
    let did = &DID[cpu];
    let [cs, ncs] = [&RUN.cs_ns, &RUN.ncs_ns].map(|ns| ns.load(Relaxed));
    let mut ready = false;
    // ORDERING: Acquire, with the Release below: `base` is seen.
    while RUN.begun_ns.load(Acquire) == 0 {
        let (_, got, sum) = take::<L>(cpu, cs);
        did.before.store(did.before.load(Relaxed) + 1, Relaxed);
        // ORDERING: AcqRel, with that of the others: the last one's time is after all of theirs.
        if !mem::replace(&mut ready, true) && RUN.ready.fetch_add(1, AcqRel) + 1 == active as u32 {
            RUN.base.store(sum, Relaxed);
            // ORDERING: Release, with the Acquire above.
            RUN.begun_ns.store(got, Release);
        }
        clock::spin_ns(ncs);
    }
    let end = RUN.begun_ns.load(Relaxed) + RUN.run_ns.load(Relaxed);
    let enough = RUN.base.load(Relaxed).saturating_add(RUN.enough.load(Relaxed));
    while !RUN.ended.load(Relaxed) {
        let (asked, got, sum) = take::<L>(cpu, cs);
        did.waits.note(got - asked);
        did.ops.store(did.ops.load(Relaxed) + 1, Relaxed);
        if got >= end || sum >= enough {
            RUN.ended_ns.fetch_max(got, Relaxed);
            RUN.ended.store(true, Relaxed);
        }
        clock::spin_ns(ncs);
    }
}

struct Start<K>(core::marker::PhantomData<K>);

impl<K: Kernel> UseLock for Start<K> {
    type Output = ();

    fn with<L: ConstLock + 'static>(self) {
        everywhere::<K>(job::<L>);
    }
}

/// Runs one lock once, and reports the run. Returns whether no update was lost.
fn once<K: Kernel>(name: &str, cpus: usize, round: u64) -> bool {
    for did in &DID {
        did.before.store(0, Relaxed);
        did.ops.store(0, Relaxed);
        did.waits.clear();
    }
    PLACE.0.store(0, Relaxed);
    RUN.cpus.store(cpus, Relaxed);
    RUN.ready.store(0, Relaxed);
    RUN.begun_ns.store(0, Relaxed);
    RUN.ended_ns.store(0, Relaxed);
    RUN.speak_ns.store(clock::now_ns() + SILENCE_NS, Relaxed);
    RUN.ended.store(false, Relaxed);
    // SAFETY: no other CPU runs.
    unsafe { *SUM.0.get() = 0 };
    let before = at_rest::<K, _>(|| {
        begin(format_args!("{name} on {cpus} CPUs"));
        Seen::now::<K>()
    });
    with_lock::<K, _>(name, Start::<K>(core::marker::PhantomData));
    // SAFETY: all are done.
    let sum = unsafe { *SUM.0.get() };
    let taken = |did: &Did| did.before.load(Relaxed) + did.ops.load(Relaxed);
    let taken: u64 = DID.iter().map(taken).sum();
    let ns = RUN.ended_ns.load(Relaxed) - RUN.begun_ns.load(Relaxed);
    let (cs_ns, ncs_ns) = (RUN.cs_ns.load(Relaxed), RUN.ncs_ns.load(Relaxed));
    let point = samples::Point { world: K::NAME, lock: name, cpus, round, cs_ns, ncs_ns, ns };
    let waits = || DID[..cpus].iter().map(|did| &did.waits);
    let each = DID[..cpus].iter().map(|did| did.ops.load(Relaxed));
    samples::tell(&point, each, waits, taken.abs_diff(sum), &Seen::now::<K>().since(&before));
    taken == sum
}

/// All rounds of all locks at all numbers of CPUs.
pub(super) fn rounds<K: Kernel>(plan: CommandLine<'_>) -> bool {
    RUN.cs_ns.store(plan.number("cs", 0), Relaxed);
    RUN.ncs_ns.store(plan.number("ncs", 0), Relaxed);
    RUN.run_ns.store(plan.number("ms", 200) * 1_000_000, Relaxed);
    RUN.enough.store(
        match plan.number("ops", 0) {
            0 => u64::MAX,
            ops => ops,
        },
        Relaxed,
    );
    page::join(plan);
    let locks = || plan.list("locks", "hybrid");
    let many = locks().count();
    let seed = plan.number("seed", 1) as usize;
    let mut fine = true;
    for round in 0..plan.number("runs", 3) {
        for cpus in plan.list("cpus", plan.get("smp").unwrap_or("1")) {
            let cpus = cpus.parse().unwrap_or(1).clamp(1, crate::cpus::started());
            // Each round begins with a different lock, so that its place favours none.
            let first = (seed + round as usize) % many;
            for name in locks().cycle().skip(first).take(many) {
                fine &= once::<K>(name, cpus, round);
            }
        }
    }
    page::tell();
    fine
}
