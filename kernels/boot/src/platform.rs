//! The platforms: what all worlds have in common, and each world's own part in a file of its own.
//!
//! What implements [`Halting`] halts a CPU and calls it back. `platform!` makes a platform of it,
//! and a native twin on which the same locks only spin, as in a kernel without paravirtual locks.
//! All worlds keep these clauses of the contract in the same way:
//!
//! | clause | answer |
//! |---|---|
//! | P0 | The cells and the fence of `core::sync::atomic`; releases are read-modify-writes. |
//! | P4 | No kick is sent to a CPU that is not up. |
//! | P6 | The processor's pause instruction. |
//! | P7 | A CPU's number is in its record, and never changes. |
//! | P8 | Static arrays. |
//! | P9 | The time stamp counter, which all CPUs of one machine share. |
//! | P10 | A branch that is patched (`platform/switch.rs`), by [`set_waiting`](crate::kernel::set_waiting). |
//! | P11 | No cheap releases. |

pub mod bare;
pub mod kvm;
pub(crate) mod switch;
pub mod xen;

use core::fmt;
use core::sync::atomic::{
    AtomicU8, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst,
};

use crate::cpus::{self, PerCpu, count};
use crate::machine::clock;

/// Buckets in the table of halted CPUs, of 16 entries each: 512 entries, four times what 32 CPUs
/// with four waits each can need. 2 KiB.
pub const BUCKETS: usize = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaltEnd {
    /// It did not begin: nothing could have ended it in time.
    Refused,
    /// It did not halt: the word had changed.
    Early,
    Kicked,
    Overdue,
    /// By something else, an interrupt mostly.
    Otherwise,
}

/// A defect that the platform is given on purpose. Each check must find those it exists for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Sabotage {
    None,
    /// A wait does not look at its word (P1).
    NeverLooks,
    /// A wait always takes its word for changed (P2).
    NeverHalts,
    /// A wait looks so early that a kick between the look and the halt is lost (P3): it comes in as
    /// an interrupt, or another halt takes it, as that of a handler that waits would.
    LooksEarly,
    /// An interrupt that is pending comes in between `sti` and `hlt`, as where `hlt` traps (P3,
    /// F12). A host that remembers kicks does not lose one by that.
    LosesGrace,
    /// A kick is not sent (P3).
    KicksNobody,
    /// A wait in an interrupt forgets the kick of the wait outside it (P3).
    ForgetsOuter,
    /// A wait does not know that it is in a non-maskable interrupt (F8).
    HaltsAnywhere,
    /// A wait begins though its deadline has passed.
    ForgetsTime,
    /// A kick is sent to a CPU that is not up (P4).
    KicksAnybody,
    /// Two CPUs have one number (P7).
    SharesNumbers,
    /// The clock goes backwards now and then (P9).
    TurnsBack,
    /// Waiting can't be switched off (P10).
    AlwaysWaits,
}

impl Sabotage {
    /// Those that the kernel's command line can ask for, by name.
    const NAMED: [(&str, Self); 2] =
        [("looks-early", Self::LooksEarly), ("kicks-nobody", Self::KicksNobody)];

    pub fn called(name: &str) -> Option<Self> {
        Self::NAMED.iter().find_map(|(known, how)| (*known == name).then_some(*how))
    }
}

static SABOTAGE: AtomicU8 = AtomicU8::new(Sabotage::None as u8);

impl fmt::Display for Sabotage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "is sound",
            Self::NeverLooks => "never looks at the word",
            Self::NeverHalts => "never halts",
            Self::LooksEarly => "looks so early that a kick is lost",
            Self::LosesGrace => "lets the kick in between sti and hlt",
            Self::KicksNobody => "loses kicks",
            Self::ForgetsOuter => "forgets the wait outside",
            Self::HaltsAnywhere => "halts in a non-maskable interrupt",
            Self::ForgetsTime => "begins after the deadline",
            Self::KicksAnybody => "kicks a CPU that is not up",
            Self::SharesNumbers => "has one number for all CPUs",
            Self::TurnsBack => "turns its clock back",
            Self::AlwaysWaits => "can't be switched off",
        })
    }
}

/// Breaks the platform, or mends it.
pub fn sabotage(how: Sabotage) {
    SABOTAGE.store(how as u8, SeqCst);
}

/// Whether the platform has this defect. Only waits and kicks ask, which are slow anyway.
pub(crate) fn broken(how: Sabotage) -> bool {
    SABOTAGE.load(Relaxed) == how as u8
}

/// Whether it has any.
pub(crate) fn is_broken() -> bool {
    !broken(Sabotage::None)
}

/// A wait that is to begin.
#[derive(Debug)]
pub struct Wait<'a, B> {
    word: &'a AtomicU32,
    expected: u32,
    pub(crate) deadline_ns: Option<u64>,
    /// Runs after the look.
    pub(crate) between: B,
}

impl<B: FnOnce()> Wait<'_, B> {
    /// Looks at the word, and returns whether to halt.
    pub(crate) fn is_worth_it(&self) -> bool {
        // ORDERING: Acquire, with what the kicker wrote before it changed the word (P3).
        let same = self.word.load(Acquire) == self.expected;
        same && !broken(Sabotage::NeverHalts) || broken(Sabotage::NeverLooks)
    }

    /// Whether it must not begin because its deadline has passed.
    fn is_late(&self) -> bool {
        has_passed(self.deadline_ns) && !broken(Sabotage::ForgetsTime)
    }
}

pub(crate) fn has_passed(deadline_ns: Option<u64>) -> bool {
    deadline_ns.is_some_and(|deadline| deadline <= clock::now_ns())
}

/// How the CPUs of a world halt and are called back: what differs between worlds.
pub trait Halting: 'static {
    /// Whether a kick is an interrupt. Else the host remembers it, and the next halt takes it.
    const KICKS_INTERRUPT: bool;

    /// What halting and waking costs, in nanoseconds.
    const WAKE_NS: u64;

    /// Halts unless `wait.word` has changed, and runs `wait.between` after that look (P1 to P3).
    fn halt(wait: Wait<'_, impl FnOnce()>) -> HaltEnd;

    /// Calls back a CPU that is up (P3, P4).
    fn call_back(cpu: &PerCpu);

    /// How many kicks have reached this CPU, if none was sent while one was under way.
    fn reached() -> u64;

    /// Takes the kicks of this CPU that have ended no wait yet. None is under way.
    fn take_kicks();

    /// [`overlock::platform::Platform::nap`].
    fn nap() {
        core::hint::spin_loop();
    }
}

/// [`overlock::platform::Platform::wait`] with `between` run after the look at the word, where a
/// kick is most easily lost. Counts how the wait ended.
pub fn wait_with<W: Halting>(
    word: &AtomicU32,
    expected: u32,
    deadline_ns: Option<u64>,
    between: impl FnOnce(),
) -> HaltEnd {
    let tally = &cpus::this().tally;
    let ended = W::halt(Wait { word, expected, deadline_ns, between });
    match ended {
        HaltEnd::Refused => return ended,
        HaltEnd::Early => count(&tally.early),
        HaltEnd::Kicked => count(&tally.kicked),
        HaltEnd::Overdue => count(&tally.overdue),
        HaltEnd::Otherwise => count(&tally.stray),
    }
    if ended != HaltEnd::Early {
        count(&tally.halts);
        if word.load(Relaxed) == expected {
            count(&tally.futile);
        }
    }
    ended
}

/// [`overlock::platform::Platform::kick`].
fn kick<W: Halting>(cpu: usize) {
    let other = cpus::of(cpu);
    let up = other.up.load(Relaxed) || broken(Sabotage::KicksAnybody);
    if up {
        count(&cpus::this().tally.kicks);
        if !broken(Sabotage::KicksNobody) {
            W::call_back(other);
        }
    }
}

/// Makes a platform `$aware` of a [`Halting`], and its native twin.
macro_rules! platform {
    ($aware:ident, $native:ident) => {
        $crate::platform::platform!(@ $aware {
            const WAITS: bool = true;
            const WAITS_IS_PATCHED: bool = true;

            #[inline(always)]
            fn waits() -> bool {
                $crate::platform::switch::is_on()
            }
            fn costs() -> overlock::platform::Costs {
                use $crate::platform::Halting;
                overlock::platform::Costs::DEFAULT.with_wake_ns($aware::WAKE_NS)
            }
            fn nap(_ns: u64) {
                <$aware as $crate::platform::Halting>::nap();
            }
            fn wait(word: &Self::Word, expected: u32, deadline_ns: Option<u64>) {
                $crate::platform::wait_with::<$aware>(word, expected, deadline_ns, || {});
            }
            fn kick(_word: *const Self::Word, cpu: overlock::platform::Cpu) {
                $crate::platform::kick::<$aware>(cpu.index());
            }
        });

        #[doc = concat!("[`", stringify!($aware), "`], on which locks only ever spin.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $native;

        $crate::platform::platform!(@ $native {
            const WAITS: bool = false;

            fn wait(_word: &Self::Word, _expected: u32, _deadline_ns: Option<u64>) {}
            fn kick(_word: *const Self::Word, _cpu: overlock::platform::Cpu) {}
        });
    };
    (@ $name:ident { $($own:tt)* }) => {
        // SAFETY: P0 and P4 to P11 as in `platform.rs`; P1 to P3 as in the table of `$name`'s file,
        // or it never waits.
        unsafe impl overlock::platform::Platform for $name {
            type Byte = core::sync::atomic::AtomicU8;
            type Half = core::sync::atomic::AtomicU16;
            type Word = core::sync::atomic::AtomicU32;
            type Release = overlock::platform::ReadModifyWrite;

            #[inline]
            fn cpu() -> Option<overlock::platform::Cpu> {
                overlock::platform::Cpu::new($crate::cpus::this().number())
            }
            fn slot(cpu: overlock::platform::Cpu) -> &'static overlock::platform::Slot<Self::Word> {
                static SLOTS: [overlock::platform::Slot<core::sync::atomic::AtomicU32>; $crate::cpus::MAX] =
                    [const { overlock::platform::Slot::new() }; $crate::cpus::MAX];
                &SLOTS[cpu.index()]
            }
            fn waiters() -> &'static [overlock::platform::Bucket<Self::Word>] {
                static BUCKETS: [overlock::platform::Bucket<core::sync::atomic::AtomicU32>; $crate::platform::BUCKETS] =
                    [const { overlock::platform::Bucket::new() }; $crate::platform::BUCKETS];
                &BUCKETS
            }
            #[inline]
            fn now_ns() -> u64 {
                $crate::machine::clock::now_ns()
            }
            $($own)*
        }
    };
}

use platform;
