// SPDX-License-Identifier: MIT OR Apache-2.0
//! What every world's kernel can do, and how its CPUs get work.
//!
//! The first CPU hands out jobs: functions that all CPUs run, one job after another. In between the
//! others wait, by the very means that the locks wait by.

use core::mem;
use core::ptr;
use core::sync::atomic::{
    AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use overlock::{Cpu, Platform};

use crate::cpus;

/// One world: its platforms, and what workloads need besides locks.
pub trait Kernel: Sized + 'static {
    /// What `--on` calls it.
    const NAME: &'static str;
    /// Locks that wait.
    type Aware: Platform<Byte: Zero8, Half: Zero16, Word = AtomicU32>;
    /// Locks that only spin.
    type Native: Platform<Byte: Zero8, Half: Zero16, Word = AtomicU32>;

    /// What each CPU does when it is up, before anything else.
    fn arrive() {}
    /// Switches the waiting of [`Aware`](Self::Aware) on or off, while no lock is in use.
    fn set_waiting(on: bool);
    /// Lets this CPU's timer tick every so many microseconds, or not at all.
    fn tick_every_us(us: Option<u32>);
    /// Runs `work` while this CPU takes no interrupts.
    fn without_interrupts<R>(work: impl FnOnce() -> R) -> R;
    /// Sends CPU number `cpu` an interrupt that it can't shut out, if this world has such.
    fn interrupt_for_sure(cpu: usize) -> bool;
    /// Nanoseconds that CPU number `cpu` was ready, but without a processor; 0 if unknown.
    fn stolen_ns(cpu: usize) -> u64;
    /// [`Platform::wait`] of [`Aware`](Self::Aware), with something done after the look at the
    /// word. A `careless` one looks too early, on purpose: a kick in between is lost. Ends by the
    /// timer at the latest.
    fn probe_wait(word: &AtomicU32, expected: u32, between: impl FnOnce(), careless: bool);
    /// Whether a wait in an interrupt of another takes care of the outer one's kick; switches that
    /// off, on purpose, where there is something to take care of.
    fn set_forgetful(_on: bool) {}
    /// Ends this machine; 0 is fine.
    fn exit(code: u8) -> !;
}

/// An 8-bit cell that can be zero in a constant.
pub trait Zero8: overlock::atomic::ConstAtomic<u8> {}
impl<T: overlock::atomic::ConstAtomic<u8>> Zero8 for T {}
/// A 16-bit one.
pub trait Zero16: overlock::atomic::ConstAtomic<u16> {}
impl<T: overlock::atomic::ConstAtomic<u16>> Zero16 for T {}

static JOB: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
/// Counts jobs; what the others wait on.
static NUMBER: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);

/// Has all CPUs run `job`, this one among them, and returns when all have.
pub fn everywhere<K: Kernel>(job: fn(usize)) {
    let all = cpus::started();
    DONE.store(0, Relaxed);
    JOB.store(job as *mut (), Relaxed);
    // ORDERING: Release, with the Acquire in `work`: the job is seen.
    NUMBER.fetch_add(1, Release);
    for cpu in 1..all {
        kick::<K>(cpu);
    }
    job(0);
    // ORDERING: Acquire, with the Release in `work`: what the others did is seen.
    while (DONE.load(Acquire) as usize) < all - 1 {
        core::hint::spin_loop();
    }
}

fn kick<K: Kernel>(cpu: usize) {
    if let Some(cpu) = Cpu::new(cpu) {
        K::Aware::kick(&raw const NUMBER, cpu);
    }
}

/// What all CPUs but the first do for ever.
pub fn work<K: Kernel>() -> ! {
    K::arrive();
    let me = cpus::this().number();
    let mut done = 0;
    loop {
        // ORDERING: Acquire, with the Release in `everywhere`.
        while NUMBER.load(Acquire) == done {
            K::Aware::wait(&NUMBER, done, None);
        }
        done += 1;
        // SAFETY: `everywhere` stored a `fn(usize)`, and stores the next only when all are done.
        let job = unsafe { mem::transmute::<*mut (), fn(usize)>(JOB.load(Relaxed)) };
        job(me);
        // ORDERING: Release, with the Acquire in `everywhere`.
        DONE.fetch_add(1, Release);
    }
}
