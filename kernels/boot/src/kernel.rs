//! What the kernel needs of each world, and how it gives work to its CPUs.
//!
//! The first CPU hands out jobs: functions that all CPUs run, one job after another. Between two
//! jobs the others wait as the locks do.

use core::mem;
use core::ptr;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use overlock::platform::Platform;

use crate::cpus::{self, count};
use crate::machine::{apic, io, serial};
use crate::platform::{Halting, Sabotage, broken, is_broken, switch};

/// One world: its platforms, its timer and its end.
pub trait Kernel: Sized + 'static {
    /// Its name after `--on`.
    const NAME: &'static str;
    /// Locks that wait.
    type Aware: Halting + Platform<Byte: Zero8, Half: Zero16, Word = AtomicU32>;
    /// Locks that only spin.
    type Native: Platform<Byte: Zero8, Half: Zero16, Word = AtomicU32>;

    /// What each CPU does when it is up, before anything else.
    fn arrive() {}
    /// Nanoseconds that CPU number `cpu` was ready, but without a processor; 0 if unknown.
    fn stolen_ns(_cpu: usize) -> u64 {
        0
    }
    /// Lets this CPU's timer tick at this interval in microseconds, or not at all.
    fn tick_every_us(us: Option<u32>) {
        apic::tick_every_us(us);
    }
    /// Ends the machine. Code 0 means success.
    fn exit(code: u8) -> ! {
        serial::exit(code)
    }
}

/// An 8-bit cell that can be zero in a constant.
pub trait Zero8: overlock::atomic::ConstAtomic<u8> {}
impl<T: overlock::atomic::ConstAtomic<u8>> Zero8 for T {}
/// A 16-bit one.
pub trait Zero16: overlock::atomic::ConstAtomic<u16> {}
impl<T: overlock::atomic::ConstAtomic<u16>> Zero16 for T {}

static JOB: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());
/// Counts jobs. The other CPUs wait for it to change.
static NUMBER: AtomicU32 = AtomicU32::new(0);
/// How many other CPUs have begun the job.
static BEGUN: AtomicU32 = AtomicU32::new(0);
static DONE: AtomicU32 = AtomicU32::new(0);

/// Runs `job` on all CPUs, this one included, and returns when all have done it.
pub fn everywhere<K: Kernel>(job: fn(usize)) {
    hand_out::<K>(job);
    job(0);
    await_others();
}

/// Lets the other CPUs run `job`. When this returns, all have begun, and their kicks are sent.
fn hand_out<K: Kernel>(job: fn(usize)) {
    BEGUN.store(0, Relaxed);
    DONE.store(0, Relaxed);
    JOB.store(job as *mut (), Relaxed);
    // ORDERING: Release, with the Acquire in `work`: the job is seen.
    NUMBER.fetch_add(1, Release);
    call_all::<K>();
    while BEGUN.load(Relaxed) < others() {
        // A platform that is broken on purpose may have lost the kick.
        if is_broken() {
            call_all::<K>();
        }
        core::hint::spin_loop();
    }
}

fn await_others() {
    // ORDERING: Acquire, with the Release in `work`: what the others did is seen.
    while DONE.load(Acquire) < others() {
        core::hint::spin_loop();
    }
}

fn others() -> u32 {
    cpus::started() as u32 - 1
}

/// Whether [`at_rest`] has sent its last kick.
static SENT: AtomicBool = AtomicBool::new(false);
/// How many other CPUs have taken theirs.
static RESTING: AtomicU32 = AtomicU32::new(0);
/// Whether they may go on.
static RESTED: AtomicBool = AtomicBool::new(false);

/// Runs `work` while no CPU waits and no kick is under way or remembered: what is counted from
/// there on has begun there.
pub fn at_rest<K: Kernel, R>(work: impl FnOnce() -> R) -> R {
    SENT.store(false, Relaxed);
    RESTING.store(0, Relaxed);
    RESTED.store(false, Relaxed);
    hand_out::<K>(|_| {
        // ORDERING: Acquire, with the Release below: the kicks are sent.
        while !SENT.load(Acquire) {
            core::hint::spin_loop();
        }
        K::Aware::take_kicks();
        // ORDERING: Release, with the Acquire below: what they count is seen.
        RESTING.fetch_add(1, Release);
        // Relaxed: nothing is read that `work` has written.
        while !RESTED.load(Relaxed) {
            core::hint::spin_loop();
        }
    });
    // ORDERING: Release, as above.
    SENT.store(true, Release);
    K::Aware::take_kicks();
    // ORDERING: Acquire, as above.
    while RESTING.load(Acquire) < others() {
        core::hint::spin_loop();
    }
    let result = work();
    RESTED.store(true, Relaxed);
    await_others();
    result
}

/// What [`set_waiting`] is to switch to.
static WAITING: AtomicBool = AtomicBool::new(false);
/// Whether the first CPU has written the code.
static WRITTEN: AtomicBool = AtomicBool::new(false);

/// Switches waiting on or off for all locks, none of which is in use. Called by the first CPU.
///
/// All CPUs take part. While the first writes code the others do nothing else, and then they forget
/// what they have fetched of it.
pub fn set_waiting<K: Kernel>(on: bool) {
    WAITING.store(on || broken(Sabotage::AlwaysWaits), Relaxed);
    WRITTEN.store(false, Relaxed);
    everywhere::<K>(|cpu| {
        io::without_interrupts(|| {
            if cpu == 0 {
                // SAFETY: the image is mapped for writing. The other CPUs are in the loop below, no
                // interrupt comes in here, and the handlers of non-maskable ones take no lock now.
                unsafe { switch::set(WAITING.load(Relaxed)) };
                // ORDERING: Release, with the Acquire below: the code is written.
                WRITTEN.store(true, Release);
            }
            // ORDERING: Acquire, as above.
            while !WRITTEN.load(Acquire) {
                core::hint::spin_loop();
            }
            switch::forget_code();
        });
    });
}

/// Kicks all other CPUs, even on a platform whose kicks are broken. Where waiting is off, they
/// spin.
fn call_all<K: Kernel>() {
    if !switch::is_on() {
        return;
    }
    for cpu in 1..cpus::started() {
        count(&cpus::this().tally.kicks);
        K::Aware::call_back(cpus::of(cpu));
    }
}

/// The loop of every CPU but the first.
pub fn work<K: Kernel>() -> ! {
    K::arrive();
    let me = cpus::this().number();
    let mut done = 0;
    loop {
        // ORDERING: Acquire, with the Release in `everywhere`.
        while NUMBER.load(Acquire) == done {
            // Where the host offers no kick, nothing would end a wait.
            match switch::is_on() {
                true => K::Aware::wait(&NUMBER, done, None),
                false => core::hint::spin_loop(),
            }
        }
        done += 1;
        BEGUN.fetch_add(1, Relaxed);
        // SAFETY: `everywhere` stored a `fn(usize)`, and stores the next only when all are done.
        let job = unsafe { mem::transmute::<*mut (), fn(usize)>(JOB.load(Relaxed)) };
        job(me);
        // ORDERING: Release, with the Acquire in `everywhere`.
        DONE.fetch_add(1, Release);
    }
}
