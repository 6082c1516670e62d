// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reason codes: what came of a spin or a kick, why, and why not otherwise.
//!
//! Whoever looks for lost time has to see, for every yield, whom it went to, who else could have
//! had it, and what stood in the way. So each answer of the scheduler to a spin leaves one
//! [`Decision`], and a [`Tally`] counts them all. Neither allocates after the scheduler was made.

use alloc::vec;
use alloc::vec::Vec;

use crate::sched::SpinSource;
use crate::{Nanos, Vcpu};

/// Declares an enum of reasons, with a name for reports and a list of them all.
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$why:meta])* $reason:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$why])* $reason,)* }

        impl $name {
            /// Every reason, in the order of declaration.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$reason),*];

            /// The reason's name in reports, in lower-case kebab.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $text,)* }
            }
        }
    };
}

reasons! {
    /// Why a vCPU was chosen.
    Chosen {
        /// It was the next in turn, and nothing more is known of it.
        NextInTurn = "next-in-turn",
        /// It was the next in turn that did not leave its pCPU spinning: it may hold the lock.
        NotSpinning = "not-spinning",
        /// It left its pCPU spinning, but was skipped often enough: it may be next for the lock.
        SkippedBefore = "skipped-before",
        /// The guest names it as the lock's holder.
        LockHolder = "lock-holder",
        /// The guest names it as the first of the waiters that is off CPU.
        NextWaiter = "next-waiter",
        /// It has not run since the spinner sent it an IPI.
        OwesIpi = "owes-ipi",
        /// It has not run since the lock's holder, as the guest names it, sent it an IPI.
        OwesHolder = "owes-holder",
        /// It has not run since some vCPU sent it an IPI.
        IpiPending = "ipi-pending",
        /// It heads the lock's queue: the holder has just released the lock and kicked it.
        KickedHead = "kicked-head",
        /// It is the one the spinner truly waits for.
        TrueHolder = "true-holder",
        /// The one that gave up its pCPU asked for it by name.
        Named = "named",
    }
}

reasons! {
    /// Why a vCPU was not chosen.
    Skipped {
        /// It is the spinner (or the kicker) itself.
        Itself = "itself",
        /// There is no such vCPU.
        Unknown = "unknown",
        /// It is on a pCPU already.
        Running = "running",
        /// It sleeps until a kick: a pCPU is of no use to it.
        Halted = "halted",
        /// It will never run again.
        Stopped = "stopped",
        /// It belongs to another guest, which the spinner does not wait for.
        OtherGuest = "other-guest",
        /// It may not run on the pCPU that would be given to it.
        NotAllowedHere = "not-allowed-here",
        /// It has had so much CPU time that boosting it would starve another.
        AheadOfShare = "ahead-of-share",
        /// It left its own pCPU spinning, and would probably spin again.
        Spinning = "spinning",
        /// It owes no answer to an IPI.
        NoIpi = "no-ipi",
        /// Its turn had not come when the scan was cut short.
        BeyondScan = "beyond-scan",
    }
}

reasons! {
    /// Why there was no directed yield.
    Missed {
        /// The policy never yields.
        PolicyNever = "policy-never",
        /// The policy only yields without a direction.
        PolicyUndirected = "policy-undirected",
        /// Every other vCPU was skipped.
        NoCandidate = "no-candidate",
        /// There are pCPUs for all who could run: whoever the spinner waits for is not preempted.
        NotOvercommitted = "not-overcommitted",
        /// The one it waits for is running: it is the right thing to spin.
        HolderRunning = "holder-running",
        /// The one it waits for sleeps, and no pCPU can help it.
        HolderHalted = "holder-halted",
        /// It is not known whom it waits for.
        HolderUnknown = "holder-unknown",
        /// The chosen vCPU was unfit after all; the trace says why.
        TargetUnfit = "target-unfit",
        /// All that wait have had so much CPU time that a yield would starve the spinner.
        AheadOfShare = "ahead-of-share",
        /// Nobody waits for a pCPU, so that there is nobody to yield to.
        NobodyWaits = "nobody-waits",
    }
}

/// What happened to the pCPU of a spinner or kicker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It went to a chosen vCPU.
    Directed {
        /// Who has it now.
        to: Vcpu,
        /// Why that one.
        why: Chosen,
    },
    /// It went to whoever lagged most in CPU time.
    Plain {
        /// Who has it now.
        to: Vcpu,
        /// Why the yield was not directed.
        why: Missed,
    },
    /// Its owner keeps it, as far as this decision goes; its slice may be over all the same.
    Stayed {
        /// Why.
        why: Missed,
    },
}

/// What called for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A long spin.
    Spin(SpinSource),
    /// A kick, under a policy that boosts the kicked.
    Kick,
    /// A vCPU's own wish to let another run.
    Request,
}

/// Why each vCPU was skipped; written by the policy, and by [`View::fit`](super::View::fit) for it.
#[derive(Clone, Debug)]
pub struct Trace {
    skipped: Vec<Option<Skipped>>,
    /// Those that were ever skipped, so that a short trace is short work.
    touched: Vec<Vcpu>,
}

impl PartialEq for Trace {
    fn eq(&self, other: &Self) -> bool {
        self.skipped == other.skipped
    }
}

impl Eq for Trace {}

impl Trace {
    /// Makes an empty trace for a guest of `vcpus`.
    #[must_use]
    pub fn new(vcpus: u32) -> Self {
        let vcpus = vcpus as usize;
        Self { skipped: vec![None; vcpus], touched: Vec::with_capacity(vcpus) }
    }

    /// Notes why `vcpu` is not chosen. One that does not exist leaves no trace.
    pub fn skip(&mut self, vcpu: Vcpu, why: Skipped) {
        let slot = self.skipped.get_mut(vcpu.index());
        if slot.is_some_and(|slot| slot.replace(why).is_none()) {
            self.touched.push(vcpu);
        }
    }

    /// Why `vcpu` was skipped; nothing if it was never looked at, or was chosen.
    #[must_use]
    pub fn skipped(&self, vcpu: Vcpu) -> Option<Skipped> {
        self.skipped.get(vcpu.index()).copied().flatten()
    }

    /// All that were skipped, and why, in the order in which they first were.
    pub fn iter(&self) -> impl Iterator<Item = (Vcpu, Skipped)> + '_ {
        self.touched.iter().filter_map(|&vcpu| Some((vcpu, self.skipped(vcpu)?)))
    }

    pub(in crate::sched) fn clear(&mut self) {
        while let Some(vcpu) = self.touched.pop() {
            self.skipped[vcpu.index()] = None;
        }
    }

    /// Takes back that the chosen one was skipped (for one thing, before it was seen to be named).
    pub(in crate::sched) fn unskip(&mut self, vcpu: Vcpu) {
        if self.skipped.get_mut(vcpu.index()).and_then(Option::take).is_some() {
            self.touched.retain(|&touched| touched != vcpu);
        }
    }
}

/// One answer to a spin or a kick, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When it was made.
    pub at: Nanos,
    /// Who spun, kicked or asked.
    pub vcpu: Vcpu,
    /// Which of these.
    pub cause: Cause,
    /// Whom a pCPU would have helped it most, if the embedder knew: see
    /// [`Spin::awaited`](crate::sched::Spin::awaited).
    pub truth: Option<Vcpu>,
    /// What came of it.
    pub outcome: Outcome,
    /// Why each other vCPU was passed over.
    pub trace: Trace,
}

impl Decision {
    pub(in crate::sched) fn new(vcpus: u32) -> Self {
        Self {
            at: Nanos::ZERO,
            vcpu: Vcpu(0),
            cause: Cause::Kick,
            truth: None,
            outcome: Outcome::Stayed { why: Missed::PolicyNever },
            trace: Trace::new(vcpus),
        }
    }

    /// Whether the pCPU went to the vCPU the spinner truly waited for; nothing if that is unknown.
    #[must_use]
    pub fn hit(&self) -> Option<bool> {
        self.truth.map(|truth| match self.outcome {
            Outcome::Directed { to, .. } | Outcome::Plain { to, .. } => to == truth,
            Outcome::Stayed { .. } => false,
        })
    }
}

/// How often each reason was given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    chosen: [u64; Chosen::ALL.len()],
    plain: [u64; Missed::ALL.len()],
    stayed: [u64; Missed::ALL.len()],
    skipped: [u64; Skipped::ALL.len()],
    hits: u64,
}

impl Tally {
    /// Every reason that was given: its kind (`directed`, `plain`, `stayed`, `skipped`), its name,
    /// and how often.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let directed = Chosen::ALL.map(|why| ("directed", why.name(), self.directed(why)));
        let plain = Missed::ALL.map(|why| ("plain", why.name(), self.plain(why)));
        let stayed = Missed::ALL.map(|why| ("stayed", why.name(), self.stayed(why)));
        let skipped = Skipped::ALL.map(|why| ("skipped", why.name(), self.skipped(why)));
        let all = directed.into_iter().chain(plain).chain(stayed).chain(skipped);
        all.filter(|&(_, _, count)| count > 0)
    }

    /// Directed yields made for this reason.
    #[must_use]
    pub fn directed(&self, why: Chosen) -> u64 {
        self.chosen[why as usize]
    }

    /// Undirected yields made for want of a directed one, for this reason.
    #[must_use]
    pub fn plain(&self, why: Missed) -> u64 {
        self.plain[why as usize]
    }

    /// Spins and kicks after which the owner kept its pCPU, for this reason.
    #[must_use]
    pub fn stayed(&self, why: Missed) -> u64 {
        self.stayed[why as usize]
    }

    /// How often a vCPU was passed over for this reason.
    #[must_use]
    pub fn skipped(&self, why: Skipped) -> u64 {
        self.skipped[why as usize]
    }

    /// How often the pCPU went to the vCPU the spinner truly waited for, where that was known.
    #[must_use]
    pub const fn hits(&self) -> u64 {
        self.hits
    }

    /// How many decisions were counted.
    #[must_use]
    pub fn decisions(&self) -> u64 {
        self.chosen.iter().chain(&self.plain).chain(&self.stayed).sum()
    }

    pub(in crate::sched) fn count(&mut self, decision: &Decision) {
        match decision.outcome {
            Outcome::Directed { why, .. } => self.chosen[why as usize] += 1,
            Outcome::Plain { why, .. } => self.plain[why as usize] += 1,
            Outcome::Stayed { why } => self.stayed[why as usize] += 1,
        }
        for (_, why) in decision.trace.iter() {
            self.skipped[why as usize] += 1;
        }
        self.hits += u64::from(decision.hit() == Some(true));
    }
}
