//! The reason codes: the outcome of a spin or a kick, why it came about, and why no other did.
//!
//! To find lost time, one has to see for every yield which vCPU it went to, which others could have
//! had it, and what prevented that. So each answer of the scheduler to a spin leaves one
//! [`Decision`], and a [`Tally`] counts them all. Neither allocates once the scheduler has been
//! made.

use alloc::vec;
use alloc::vec::Vec;

use crate::host::sched::SpinSource;
use crate::host::{Nanos, Vcpu};

/// Declares an enum of reasons, with names for reports and a list of all reasons.
macro_rules! reasons {
    ($(#[$doc:meta])* $name:ident { $($(#[$why:meta])* $reason:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($(#[$why])* $reason,)* }

        impl $name {
            /// Every reason, in the order of declaration.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$reason),*];

            /// The reason's name in reports, in lower-case kebab.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $text,)* }
            }
        }
    };
}

reasons! {
    /// Why a vCPU was chosen.
    Chosen {
        /// It was the next in turn; nothing more is known about it.
        NextInTurn = "next-in-turn",
        /// It was the next in turn that did not leave its pCPU spinning, so it may hold the lock.
        NotSpinning = "not-spinning",
        /// It left its pCPU spinning, but was skipped often enough: it may be next for the lock.
        SkippedBefore = "skipped-before",
        /// The guest names it as the lock's holder.
        LockHolder = "lock-holder",
        /// The guest names it as the first waiter that is off CPU.
        NextWaiter = "next-waiter",
        /// It has not run since the spinner sent it an IPI.
        OwesIpi = "owes-ipi",
        /// It has not run since the lock's holder, according to the guest, sent it an IPI.
        OwesHolder = "owes-holder",
        /// It has not run since some vCPU sent it an IPI.
        IpiPending = "ipi-pending",
        /// It is the vCPU for which the spinner really waits.
        TrueHolder = "true-holder",
        /// The vCPU that gave up its pCPU asked for it by name.
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
        /// It already has a pCPU.
        Running = "running",
        /// It sleeps until a kick, so a pCPU is of no use to it.
        Halted = "halted",
        /// It has been unplugged.
        Stopped = "stopped",
        /// It belongs to another guest; the spinner does not wait for that.
        OtherGuest = "other-guest",
        /// It has had so much CPU time that boosting it would starve another vCPU.
        AheadOfShare = "ahead-of-share",
        /// It left its own pCPU spinning, and would probably spin again.
        Spinning = "spinning",
        /// It owes no answer to an IPI.
        NoIpi = "no-ipi",
        /// Its turn had not come when the scan reached its limit.
        BeyondScan = "beyond-scan",
        /// It was preempted in user mode, so it holds no lock of its kernel.
        InUser = "in-user",
    }
}

reasons! {
    /// Why there was no directed yield.
    Missed {
        PolicyNever = "policy-never",
        /// The policy yields only without naming a vCPU.
        PolicyUndirected = "policy-undirected",
        /// Every other vCPU was skipped.
        NoCandidate = "no-candidate",
        /// There are enough pCPUs: the vCPU for which the spinner waits is not preempted.
        NotOvercommitted = "not-overcommitted",
        /// The vCPU for which it waits is running, so the spinner is right to spin.
        HolderRunning = "holder-running",
        /// The vCPU for which it waits sleeps, and no pCPU can help it.
        HolderHalted = "holder-halted",
        /// It is unknown which vCPU it waits for.
        HolderUnknown = "holder-unknown",
        /// The chosen vCPU turned out to be unfit; the trace says why.
        TargetUnfit = "target-unfit",
        /// All waiting vCPUs have had so much CPU time that a yield would starve the spinner.
        AheadOfShare = "ahead-of-share",
        /// No vCPU waits for a pCPU, so there is none to yield to.
        NobodyWaits = "nobody-waits",
    }
}

/// What happened to the pCPU of a spinner or kicker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It went to a chosen vCPU.
    Directed {
        /// The vCPU that has the pCPU now.
        to: Vcpu,
        why: Chosen,
    },
    /// It went to the vCPU that lagged most in CPU time.
    Plain {
        /// The vCPU that has the pCPU now.
        to: Vcpu,
        /// Why the yield was not directed.
        why: Missed,
    },
    /// As far as this decision goes, its owner keeps it; its slice may still be over.
    Stayed { why: Missed },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Spin(SpinSource),
    /// A vCPU's own request to let another one run.
    Request,
}

/// Why each vCPU was skipped. The policy writes it, and [`View::fit`](super::View::fit) does so on
/// the policy's behalf.
#[derive(Clone, Debug)]
pub struct Trace {
    skipped: Vec<Option<Skipped>>,
    /// The vCPUs ever skipped, so that a short trace is cheap to process.
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
    pub fn new(vcpus: u32) -> Self {
        let vcpus = vcpus as usize;
        Self { skipped: vec![None; vcpus], touched: Vec::with_capacity(vcpus) }
    }

    /// Records why `vcpu` is not chosen. A vCPU that does not exist leaves no trace.
    pub fn skip(&mut self, vcpu: Vcpu, why: Skipped) {
        let slot = self.skipped.get_mut(vcpu.index());
        if slot.is_some_and(|slot| slot.replace(why).is_none()) {
            self.touched.push(vcpu);
        }
    }

    /// Why `vcpu` was skipped; `None` if it was never considered, or was chosen.
    pub fn skipped(&self, vcpu: Vcpu) -> Option<Skipped> {
        self.skipped.get(vcpu.index()).copied().flatten()
    }

    /// All vCPUs that were skipped, and why, in the order in which they were first skipped.
    pub fn iter(&self) -> impl Iterator<Item = (Vcpu, Skipped)> + '_ {
        self.touched.iter().filter_map(|&vcpu| Some((vcpu, self.skipped(vcpu)?)))
    }

    pub(in crate::host::sched) fn clear(&mut self) {
        while let Some(vcpu) = self.touched.pop() {
            self.skipped[vcpu.index()] = None;
        }
    }

    /// Removes the skip of the chosen vCPU (which can be skipped for one reason before the guest
    /// turns out to have named it).
    pub(in crate::host::sched) fn unskip(&mut self, vcpu: Vcpu) {
        if self.skipped.get_mut(vcpu.index()).and_then(Option::take).is_some() {
            self.touched.retain(|&touched| touched != vcpu);
        }
    }
}

/// One answer to a spin or a kick, with its reasons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// When the decision was made.
    pub at: Nanos,
    /// The vCPU that spun, kicked or asked.
    pub vcpu: Vcpu,
    pub cause: Cause,
    /// The vCPU to which a pCPU would have helped it most, if the embedder knew: see
    /// [`Spin::awaited`](crate::host::sched::Spin::awaited).
    pub truth: Option<Vcpu>,
    /// What happened to the pCPU.
    pub outcome: Outcome,
    /// Why each other vCPU was passed over.
    pub trace: Trace,
}

impl Decision {
    pub(in crate::host::sched) fn new(vcpus: u32) -> Self {
        Self {
            at: Nanos::ZERO,
            vcpu: Vcpu(0),
            cause: Cause::Request,
            truth: None,
            outcome: Outcome::Stayed { why: Missed::PolicyNever },
            trace: Trace::new(vcpus),
        }
    }

    /// Whether the pCPU went to the vCPU for which the spinner really waited; `None` if that is
    /// unknown.
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
    /// How often the pCPU went to the vCPU for which the spinner really waited, where that was
    /// known.
    pub hits: u64,
}

impl Tally {
    /// Every reason that was given: its kind (`directed`, `plain`, `stayed`, `skipped`), its name,
    /// and how often it was given.
    pub fn reasons(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let directed = Chosen::ALL.map(|why| ("directed", why.name(), self.directed(why)));
        let plain = Missed::ALL.map(|why| ("plain", why.name(), self.plain(why)));
        let stayed = Missed::ALL.map(|why| ("stayed", why.name(), self.stayed(why)));
        let skipped = Skipped::ALL.map(|why| ("skipped", why.name(), self.skipped(why)));
        let all = directed.into_iter().chain(plain).chain(stayed).chain(skipped);
        all.filter(|&(_, _, count)| count > 0)
    }

    /// How many directed yields were made for this reason.
    pub fn directed(&self, why: Chosen) -> u64 {
        self.chosen[why as usize]
    }

    /// How many undirected yields were made, because a directed one was ruled out for this reason.
    pub fn plain(&self, why: Missed) -> u64 {
        self.plain[why as usize]
    }

    /// How many spins and kicks left the owner its pCPU for this reason.
    pub fn stayed(&self, why: Missed) -> u64 {
        self.stayed[why as usize]
    }

    /// How often a vCPU was passed over for this reason.
    pub fn skipped(&self, why: Skipped) -> u64 {
        self.skipped[why as usize]
    }

    /// How many decisions were counted.
    pub fn decisions(&self) -> u64 {
        self.chosen.iter().chain(&self.plain).chain(&self.stayed).sum()
    }

    pub fn count(&mut self, decision: &Decision) {
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
