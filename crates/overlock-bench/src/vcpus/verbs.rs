//! The verbs of a world: everything that a program on its vCPUs can do beyond computing.
//!
//! | verb | what happens |
//! |---|---|
//! | [`now_ns`](Verbs::now_ns) | reads the clock |
//! | [`work_ns`](Verbs::work_ns) | computes, for a span of the vCPU's own time |
//! | [`relax`](Verbs::relax) | pauses once in a loop that waits |
//! | [`halt_unless`](Verbs::halt_unless), [`sleep_ns`](Verbs::sleep_ns) | gives the processor up |
//! | [`kick`](Verbs::kick) | ends a halt |
//! | [`interrupt`](Verbs::interrupt), [`interrupt_all`](Verbs::interrupt_all) | interrupts others |
//! | [`long_spin`](Verbs::long_spin), [`yield_to`](Verbs::yield_to) | yields the processor |
//! | [`pm_timer`](Verbs::pm_timer) | reads a device |
//! | [`enter_critical`](Verbs::enter_critical) | asks not to be preempted |
//!
//! A world also defines what its memory is made of ([`Word`](Verbs::Word)), so that programs share
//! real atomics, or cells that cost time; and it defines the platforms of `overlock` on its vCPUs.
//! It does not define how all this is done. In a world of virtual time a verb is a step of the
//! machine, and `work_ns` ends when the machine says so.

use std::alloc::Layout;
use std::marker::PhantomData;
use std::ptr::NonNull;

use overlock::atomic::ConstAtomic;
use overlock::platform::Platform;

/// The place where vCPUs live. Every verb concerns the vCPU that calls it.
///
/// # Panics
/// The verbs may panic, or end the process, if the caller is not a vCPU of this world.
pub trait Verbs: Copy + Send + Sync + 'static {
    type Word: ConstAtomic<u32>;

    /// The platform of locks that know of being virtual.
    type Aware: Platform<Byte: ConstAtomic<u8>, Half: ConstAtomic<u16>, Word: ConstAtomic<u32>>;

    /// The platform of locks that only spin.
    type Native: Platform<Byte: ConstAtomic<u8>, Half: ConstAtomic<u16>, Word: ConstAtomic<u32>>;

    /// Memory for what programs share, until the run is over; `None` if it may lie anywhere. Locks
    /// hash their addresses, so a world that repeats runs exactly decides where it lies.
    ///
    /// The memory returned is aligned, large enough and not used by anything else.
    fn memory(layout: Layout) -> Option<NonNull<u8>> {
        let _ = layout;
        None
    }

    fn number() -> u32;

    fn count() -> u32;

    fn stopping() -> bool;

    /// Nanoseconds since the run began. A vCPU that has waited for a lock calls this in its
    /// critical section, so it should be cheap.
    fn now_ns() -> u64;

    /// Nanoseconds for which this vCPU was without a processor so far, halted or robbed.
    fn away_ns() -> u64;

    /// Computes for `ns` nanoseconds of this vCPU's own time: time without a processor does not
    /// count.
    fn work_ns(ns: u64);

    /// The same in user mode, where the world has one.
    fn work_in_user_ns(ns: u64) {
        Self::work_ns(ns);
    }

    fn relax();

    /// Halts while `word` holds `expected`, until kicked, interrupted, or until `now_ns()` reaches
    /// `deadline_ns`. It may also return spuriously.
    ///
    /// A kick that comes between the load of `word` and the halt is not lost: the halt returns at
    /// once.
    fn halt_unless(word: &Self::Word, expected: u32, deadline_ns: Option<u64>);

    /// Halts for `ns` nanoseconds despite interrupts, or until the program should return.
    fn sleep_ns(ns: u64);

    /// Kicks vCPU `target`: ends its halt, or its next one if it is not halted.
    fn kick(target: u32);

    /// Sends interrupt `number` (below 32) to vCPU `target`.
    fn interrupt(target: u32, number: u32);

    /// Sends interrupt `number` (below 32) to all other vCPUs of the guest, with one call to
    /// the host.
    fn interrupt_all(number: u32);

    /// Asks the host to let vCPU `target`, or any other, run instead of this one, whatever the
    /// yield policy.
    fn yield_to(target: Option<u32>);

    /// Reports to the host that this vCPU spins in vain. The yield policy decides what happens to
    /// its processor, and may ask the program for a [`hint`](Program::hint).
    fn long_spin();

    fn pm_timer() -> u32;

    /// Whether vCPU `number` has lost its processor. Only a hint: it may be stale.
    fn is_preempted(number: u32) -> bool;

    /// Asks the host not to take the processor away for a moment.
    fn enter_critical();

    /// Ends what [`enter_critical`](Self::enter_critical) began, and returns the time it borrowed.
    fn leave_critical();
}

/// What a vCPU runs.
///
/// # What a program may do
/// It may compute, use atomics and what it shares by reference, and call the verbs of its world. It
/// must *not* make system calls, allocate, print, use thread-locals or unwind: in some worlds there
/// is no operating system to ask. Nor may it own anything whose destructor matters: a run that is
/// ended by force never runs destructors.
pub trait Program<W: Verbs>: Sync {
    /// The body of every vCPU. It returns soon after [`Verbs::stopping`] turns true.
    fn run(&self, vcpu: ThisVcpu<W>);

    /// Called for every interrupt, on top of whatever the vCPU was doing.
    ///
    /// Interrupts of one number that arrive before delivery are delivered as one.
    fn interrupt(&self, vcpu: ThisVcpu<W>, number: u32) {
        let _ = (vcpu, number);
    }

    /// What the guest publishes about the lock that vCPU `spinner` waits for.
    ///
    /// It stands for a page of memory that guest and host share: the host reads it when the vCPU
    /// spins for long. The policy `pv-hint` acts on it.
    fn hint(&self, spinner: u32) -> Hint {
        let _ = spinner;
        Hint::default()
    }

    /// The vCPU for which `spinner` really waits. No host can know it; the oracle does.
    fn truth(&self, spinner: u32) -> Hint {
        self.hint(spinner)
    }

    /// How many waits of `vcpu` have ended so far.
    ///
    /// Hardware with pause-loop exiting sees the end of a wait as a gap in the pauses. A host that
    /// samples does not; this count replaces the gap. So a vCPU that two samples find in the same
    /// loop, but in different waits, has not spun for long.
    fn progress(&self, vcpu: u32) -> u64 {
        let _ = vcpu;
        0
    }

    /// Called on the host, for one vCPU at a time, when `vcpu` gets a processor again after it was
    /// ready from `since_ns` to `until_ns`: the moment to find out which vCPUs have waited for it.
    fn was_away(&self, vcpu: u32, since_ns: u64, until_ns: u64) {
        let _ = (vcpu, since_ns, until_ns);
    }
}

/// How many waiters a [`Hint`] can name.
pub const HINT_WAITERS: usize = 4;

/// The vCPUs for which a spinning vCPU waits, as far as its program knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hint {
    /// The vCPU that holds the lock, or that owes an answer to the holder or to the spinner.
    pub holder: Option<u32>,
    /// The first of the waiters between that vCPU and the spinner, in order.
    pub waiters: [Option<u32>; HINT_WAITERS],
}

/// The calling vCPU: the verbs of its world as methods.
#[derive(Clone, Copy, Debug)]
pub struct ThisVcpu<W>(PhantomData<W>);

macro_rules! verbs {
    ($($verb:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        impl<W: Verbs> ThisVcpu<W> {
            $(
                #[doc = concat!("See [`Verbs::", stringify!($verb), "`].")]
                #[inline]
                pub fn $verb(self, $($argument: $type),*) $(-> $result)? {
                    W::$verb($($argument),*)
                }
            )*
        }
    };
}

verbs! {
    number() -> u32;
    count() -> u32;
    stopping() -> bool;
    now_ns() -> u64;
    away_ns() -> u64;
    work_ns(ns: u64);
    work_in_user_ns(ns: u64);
    relax();
    halt_unless(word: &W::Word, expected: u32, deadline_ns: Option<u64>);
    sleep_ns(ns: u64);
    kick(target: u32);
    interrupt(target: u32, number: u32);
    interrupt_all(number: u32);
    yield_to(target: Option<u32>);
    long_spin();
    pm_timer() -> u32;
    is_preempted(number: u32) -> bool;
    enter_critical();
    leave_critical();
}

impl<W: Verbs> ThisVcpu<W> {
    /// A handle for whichever vCPU uses it; for engines, which hand it to their programs.
    pub const fn current() -> Self {
        Self(PhantomData)
    }
}
