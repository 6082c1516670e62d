//! One group while its recording is played: where each thread is, what every policy says to a spin,
//! and when the thread that it named ran.
//!
//! The schedule stays the recorded one. A policy is asked at each spin as if all before had been as
//! it was, so its answers are those of the first moment, and not of a host that it has changed.

use super::line::{Event, Lock};
use super::score::{Choice, Score};
use overlock_vcpu::host::sched::yield_to::{
    Candidate, Notice, Policy, Ruling, Skipped, Trace, View, by_name,
};
use overlock_vcpu::host::sched::{Spin, SpinHint};
use overlock_vcpu::host::{Nanos, Vcpu};
use std::collections::HashMap;

/// Where a thread is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Standing {
    #[default]
    Unknown,
    Asleep,
    Waits,
    Runs,
}

#[derive(Clone, Debug, Default)]
struct Member {
    standing: Standing,
    /// It left its processor in a spin and has not run since.
    spinning: bool,
    /// Its last word was a spin, which has this number.
    spins: Option<usize>,
    /// The lock it waits for, and those it has.
    waits: Option<String>,
    /// Its guest was in user mode when it last left it.
    in_user: bool,
    /// It lost its processor then, ready to go on.
    preempted_in_user: bool,
}

/// What a recording tells of a group besides who runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signals {
    modes: bool,
    interrupts: bool,
    locks: bool,
}

/// Whether a kernel is at this address: all those for 64 bits have the upper half for themselves.
fn is_kernels(address: u64) -> bool {
    address >> 63 == 1
}

impl Signals {
    /// Learns what an event of the group tells.
    pub(crate) fn see(&mut self, event: &Event<'_>) {
        match event {
            // A kernel without such an address may be at any other.
            Event::Pause(Some(at)) | Event::Exit(Some(at)) => self.modes |= is_kernels(*at),
            Event::Ipi(_) => self.interrupts = true,
            Event::Said(_) => self.locks = true,
            _ => {}
        }
    }

    /// What this policy asks for and the recording does not have.
    pub(crate) fn missing(self, policy: &str) -> Option<&'static str> {
        match policy {
            "ipi-first" | "linux-ipi" if !self.interrupts => Some("IPI (kvm_apic_ipi)"),
            "linux" | "linux-ipi" if !self.modes => Some("kvm_exit at a kernel's address"),
            "pv-hint" if !self.locks => Some("mark of who holds a lock"),
            _ => None,
        }
    }
}

/// A policy, and its answers.
#[derive(Debug)]
struct Subject {
    policy: Box<dyn Policy + Send>,
    score: Score,
}

/// A group that is being played.
#[derive(Debug)]
pub(crate) struct Stage {
    members: Vec<Member>,
    subjects: Vec<Subject>,
    kernel: Score,
    kicks: Score,
    holders: HashMap<String, u32>,
    pcpus: u32,
    spins: usize,
    pub(crate) signals: Signals,
}

/// The names of the policies that are asked, in the order of the table.
pub(crate) const POLICIES: [&str; 9] = [
    "yield",
    "round-robin",
    "skip-spinners",
    "spin-count",
    "load-gate",
    "linux",
    "linux-ipi",
    "ipi-first",
    "pv-hint",
];

impl Stage {
    pub(crate) fn new(threads: usize, pcpus: u32, signals: Signals) -> Self {
        let subjects = POLICIES.iter().filter_map(|name| {
            Some(Subject { policy: by_name(name, threads as u32)?, score: Score::new(name) })
        });
        Self {
            members: vec![Member::default(); threads],
            subjects: subjects.collect(),
            kernel: Score::new("the kernel"),
            kicks: Score::new("kicks"),
            holders: HashMap::new(),
            pcpus,
            spins: 0,
            signals,
        }
    }

    /// The kernel's own choices, those of every policy, and the kicked vCPUs.
    pub(crate) fn scores(&self) -> (&Score, impl Iterator<Item = &Score>, &Score) {
        (&self.kernel, self.subjects.iter().map(|subject| &subject.score), &self.kicks)
    }

    fn tell(&mut self, at: Nanos, notice: Notice) {
        self.subjects.iter_mut().for_each(|subject| subject.policy.notice(at, notice));
    }

    /// Forgets where the threads are: events are missing here.
    pub(crate) fn lose(&mut self) {
        for member in &mut self.members {
            (member.standing, member.spins) = (Standing::Unknown, None);
        }
        let subjects = self.subjects.iter_mut().map(|subject| &mut subject.score);
        subjects.chain([&mut self.kernel, &mut self.kicks]).for_each(Score::lose);
    }

    /// A thread of the group does something, so it runs, wherever it was before the recording.
    pub(crate) fn acts(&mut self, place: u32) {
        let member = &mut self.members[place as usize];
        if member.standing == Standing::Unknown {
            member.standing = Standing::Runs;
        }
    }

    /// A thread of the group begins to run.
    pub(crate) fn runs(&mut self, at: Nanos, place: u32) {
        let member = &mut self.members[place as usize];
        (member.standing, member.spinning) = (Standing::Runs, false);
        let subjects = self.subjects.iter_mut().map(|subject| &mut subject.score);
        subjects.chain([&mut self.kicks]).for_each(|score| score.ran(place, at));
        self.tell(at, Notice::Runs(Vcpu(place)));
    }

    /// A thread of the group stops running, for `next`, which may be of the group, too.
    pub(crate) fn stops(&mut self, at: Nanos, place: u32, ready: bool, next: Option<u32>) {
        let member = &mut self.members[place as usize];
        member.standing = if ready { Standing::Waits } else { Standing::Asleep };
        let spun = member.spins.take().filter(|_| ready);
        member.spinning = spun.is_some();
        // KVM notes the mode only of a vCPU that loses its processor.
        member.preempted_in_user = ready && member.in_user;
        match spun {
            Some(number) => {
                let choice = next.map_or(Choice::Stranger, Choice::Member);
                self.kernel.close(number, choice);
                self.subjects.iter_mut().for_each(|of| of.score.compare(number, choice));
            }
            None => self.tell(at, Notice::Worked(Vcpu(place))),
        }
    }

    /// A vCPU leaves its guest at this address.
    pub(crate) fn leaves(&mut self, place: u32, address: u64) {
        self.members[place as usize].in_user = !is_kernels(address);
    }

    /// A thread of the group wakes up.
    pub(crate) fn wakes(&mut self, place: u32) {
        let member = &mut self.members[place as usize];
        if member.standing != Standing::Runs {
            member.standing = Standing::Waits;
        }
    }

    /// A thread of the group does something else than spin: a spin is over, and it has kept its
    /// processor.
    pub(crate) fn goes_on(&mut self, place: u32) {
        if let Some(number) = self.members[place as usize].spins.take() {
            self.kernel.close(number, Choice::Stayed);
            self.subjects.iter_mut().for_each(|of| of.score.compare(number, Choice::Stayed));
        }
    }

    /// A thread interrupts others of the group.
    pub(crate) fn interrupts(&mut self, at: Nanos, from: u32, to: &[u32]) {
        let members = self.members.len();
        for &to in to.iter().filter(|&&to| to != from && (to as usize) < members) {
            self.tell(at, Notice::Ipi { from: Vcpu(from), to: Vcpu(to) });
        }
    }

    /// A thread kicks the next waiter, which is therefore known: was it off its processor, and how
    /// long?
    pub(crate) fn kicks(&mut self, at: Nanos, to: u32) {
        let Some(member) = self.members.get(to as usize) else { return };
        let number = self.kicks.count();
        match member.standing {
            Standing::Runs => self.kicks.names_none("running"),
            Standing::Unknown => self.kicks.names_none("unknown"),
            Standing::Waits => self.kicks.name(number, to, at, "preempted"),
            Standing::Asleep => self.kicks.name(number, to, at, "asleep"),
        }
    }

    /// A thread says something of a lock.
    pub(crate) fn says(&mut self, place: u32, lock: Lock<'_>) {
        let member = &mut self.members[place as usize];
        match lock {
            Lock::Waits(lock) => member.waits = Some(lock.into()),
            Lock::Holds(lock) => {
                member.waits = None;
                self.holders.insert(lock.into(), place);
            }
            Lock::Frees(lock) => {
                self.holders.remove(lock);
            }
        }
    }

    /// Asks every policy what to do about a spin.
    pub(crate) fn spins(&mut self, at: Nanos, place: u32) {
        self.goes_on(place);
        let number = self.spins;
        self.spins += 1;
        self.members[place as usize].spins = Some(number);
        let unfit = |(other, member): (u32, &Member)| match member.standing {
            _ if other == place => Some(Skipped::Itself),
            Standing::Unknown => Some(Skipped::Unknown),
            Standing::Asleep => Some(Skipped::Halted),
            Standing::Runs => Some(Skipped::Running),
            Standing::Waits => None,
        };
        let candidates: Vec<Candidate> = (0..)
            .zip(&self.members)
            .map(|(other, of)| Candidate {
                unfit: unfit((other, of)),
                spinning: of.spinning,
                in_user: if other == place { of.in_user } else { of.preempted_in_user },
            })
            .collect();
        let view = View::new(at, self.pcpus, &candidates);
        let waits = self.members[place as usize].waits.as_ref();
        let holder = waits.and_then(|lock| self.holders.get(lock)).filter(|&&of| of != place);
        let truth = holder.map_or(SpinHint::NONE, |&holder| SpinHint::holder(Vcpu(holder)));
        // Who writes into the recording would tell the host as well.
        let spin = Spin { hint: truth, truth, ..Spin::reported(Vcpu(place)) };
        let awaited = spin.awaited(&view).map(|vcpu| vcpu.0);
        self.kernel.begin(awaited);
        for Subject { policy, score } in &mut self.subjects {
            let mut trace = Trace::new(candidates.len() as u32);
            score.begin(awaited);
            match policy.on_spin(&spin, &view, &mut trace) {
                Ruling::To(to, why) => score.name(number, to.0, at, why.name()),
                Ruling::Plain(why) | Ruling::Stay(why) => score.names_none(why.name()),
            }
        }
    }
}
