//! What the host of a run keeps, and why a vCPU comes out of the guest.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::thread::Thread;

use crate::host::sched::Scheduler;
use crate::host::sched::yield_to::{Policy, Tally};
use overlock_bench::RunConfig;
use overlock_bench::timeline::{Notes, Window};
use overlock_results::Accounts;

use super::delay::Delay;
use crate::lab::error::{Error, Stuck};
use crate::lab::guest::abi::{Call, MAX_VCPUS, VcpuRecord};
use crate::lab::maps::Code;
use crate::lab::slice_timer::SliceTimer;

/// The reason why a vCPU is out of the guest.
#[derive(Debug)]
pub(crate) enum Exit {
    /// Its thread is ready and has never been in the guest.
    Ready,
    Call(Call, [u64; 2]),
    /// A signal brought it out, after it `ran`, or before; with the instruction's address if that
    /// was requested.
    Evicted {
        rip: Option<u64>,
        ran: bool,
    },
    /// Its program has returned, or has ended with an error.
    Ended(Result<(), Error>),
}

/// The next step of a vCPU's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Enter,
    /// Never enter the guest again: the vCPU has ended, or is ended by force.
    Leave,
}

/// One vCPU, as other threads see it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Post {
    /// Its thread, which waits parked until it is unparked; nothing until it is ready.
    pub(super) handle: OnceLock<Thread>,
    /// The vCPU has to leave the guest.
    pub(super) evict: AtomicBool,
    pub(super) sample: AtomicBool,
    /// The system's number of its thread; 0 until it is ready.
    pub(super) thread: AtomicI32,
    /// The processor that it has to run on, and the one whose CPU its thread is bound to, plus one.
    pub(super) pcpu: AtomicU32,
    pub(super) bound: AtomicU32,
    /// The timer that ends its slices; its thread makes it.
    pub(super) timer: OnceLock<SliceTimer>,
    /// When its slice ends if others wait for a processor, else 0; written with the state locked.
    pub(super) slice_end: AtomicU64,
    /// The time to which the timer was last set.
    pub(super) timer_set: AtomicU64,
    /// How often it read the PM timer, for which no scheduler is needed.
    pub(super) pm_reads: AtomicU64,
    /// The time since which it owns a processor, if it does.
    pub(super) granted: AtomicU64,
    pub(super) delay: Delay,
}

/// The vCPUs of a run, as all threads see them.
#[derive(Debug)]
pub(crate) struct Vcpus<'run> {
    pub(crate) records: &'run [VcpuRecord],
    pub(crate) code: &'run Code,
    pub(super) posts: Vec<Post>,
}

impl<'run> Vcpus<'run> {
    pub(super) fn new(records: &'run [VcpuRecord], code: &'run Code) -> Self {
        Self { records, code, posts: records.iter().map(|_| Post::default()).collect() }
    }
}

/// The host's record of a vCPU, beyond what its scheduler knows.
#[derive(Debug, Default)]
pub(super) struct Guest {
    pub(super) ready: bool,
    /// When it wants to wake up, if it is halted.
    pub(super) deadline: Option<u64>,
    /// The spin loop in which the last sample found it, and the progress of its program.
    pub(super) last_loop: Option<(u64, u64)>,
    /// It has been interrupted since it last had nothing to answer.
    pub(super) owes: bool,
    /// The beginning and the end of the slice because of whose end it has to leave the guest.
    pub(super) slice_over: Option<(u64, u64)>,
    /// How often in a row it was brought out before it ran.
    pub(super) in_vain: u32,
    /// What it was doing when it ended.
    pub(super) last: &'static str,
    pub(super) accounts: Accounts,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) scheduler: Scheduler<Box<dyn Policy + Send>>,
    pub(super) guests: Vec<Guest>,
    /// vCPUs whose threads have not started yet.
    pub(super) missing: u32,
    pub(super) failure: Option<Error>,
    /// When the first vCPU entered the guest.
    pub(super) started: Option<u64>,
    /// When the stop flag was set, and when it has to be.
    pub(super) stopped: Option<u64>,
    pub(super) end_at: Option<u64>,
    /// The counts at that moment: what comes after is not part of the run.
    pub(super) books_at_stop: Option<(Vec<Accounts>, Tally)>,
    pub(super) next_sample: Option<u64>,
    /// The notes for a timeline, if one is recorded.
    pub(super) notes: Option<Notes>,
    /// vCPUs that were ended by force, and where.
    pub(super) stuck: Vec<Stuck>,
    pub(super) alive: u32,
    /// All are being ended by force.
    pub(super) forced: bool,
}

impl State {
    pub(super) fn new(config: &RunConfig, scheduler: Scheduler<Box<dyn Policy + Send>>) -> Self {
        Self {
            scheduler,
            guests: (0..config.vcpus).map(|_| Guest::default()).collect(),
            missing: config.vcpus,
            failure: None,
            started: None,
            stopped: None,
            end_at: None,
            books_at_stop: None,
            next_sample: None,
            notes: Window::of(config).map(|window| Notes::new(window, config.vcpus)),
            stuck: Vec::new(),
            alive: config.vcpus,
            forced: false,
        }
    }
}

/// A set of vCPUs, without allocation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuSet([u64; MAX_VCPUS / 64]);

impl CpuSet {
    pub(super) fn insert(&mut self, vcpu: u32) {
        self.0[vcpu as usize / 64] |= 1 << (vcpu % 64);
    }

    pub(super) fn remove(&mut self, vcpu: u32) {
        self.0[vcpu as usize / 64] &= !(1 << (vcpu % 64));
    }

    pub(super) fn iter(self) -> impl Iterator<Item = usize> {
        (0..).step_by(64).zip(self.0).flat_map(|(first, mut bits)| {
            std::iter::from_fn(move || {
                let next = (bits != 0).then(|| first + bits.trailing_zeros() as usize);
                bits &= bits.wrapping_sub(1);
                next
            })
        })
    }
}

/// The work that is left once the state is unlocked.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Errands {
    pub(super) wake: CpuSet,
    pub(super) evict: CpuSet,
    /// vCPUs whose timers have to be set to the ends of their slices.
    pub(super) arm: CpuSet,
    /// The supervisor has to check the state.
    pub(super) alarm: bool,
}

/// The next step of a vCPU's thread after a turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Go(Next),
    /// Wait, until this time at the latest.
    Wait(Option<u64>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_yields_what_was_put_in_and_not_taken_out() {
        let mut set = CpuSet::default();
        for vcpu in [0, 1, 63, 64, 200, 1023] {
            set.insert(vcpu);
        }
        set.remove(64);
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 1, 63, 200, 1023]);
        assert_eq!(CpuSet::default().iter().count(), 0);
    }
}
