//! What one run measured: the same from every world.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Accounts;
use crate::stats::{Spread, Sum, jain, median};
use crate::timeline::Timeline;

/// The name of a world, or of something that is counted.
pub type Name = Cow<'static, str>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitNs {
    pub p50: u64,
    pub p99: u64,
    pub p999: u64,
    pub max: u64,
}

impl WaitNs {
    /// Sums up the waits of a run, of which the longest is known exactly; `ns` makes nanoseconds of
    /// a length.
    pub fn of(waits: &Sum, longest: u64, ns: impl Fn(u64) -> u64) -> Self {
        let at = |part| ns(waits.quantile(part));
        Self { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: ns(longest) }
    }

    /// The medians of some runs' percentiles, and the longest of all.
    pub(crate) fn over(runs: &[Run]) -> Self {
        let all = || runs.iter().map(|run| run.wait_ns);
        let mid = |of: fn(Self) -> u64| {
            let each: Vec<f64> = all().map(|waits| of(waits) as f64).collect();
            median(&each).unwrap_or(0.0).round() as u64
        };
        Self {
            p50: mid(|of| of.p50),
            p99: mid(|of| of.p99),
            p999: mid(|of| of.p999),
            max: all().map(|of| of.max).max().unwrap_or(0),
        }
    }
}

/// What happened during the time for which all vCPUs together waited for one lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Losses {
    pub waited_ns: u64,
    /// Nanoseconds of that during which the holder was ready to run, but without a processor.
    pub holder_off_ns: u64,
    /// Nanoseconds of that during which the lock was free, but could go only to a vCPU that was
    /// without a processor; 0 for locks that go to any vCPU.
    pub next_off_ns: u64,
    /// Nanoseconds of that during which the holder waited for an answer to an interrupt, from a
    /// vCPU that was without a processor. The holder may have been without one too.
    pub debtor_off_ns: u64,
}

/// Makes the struct of a row: fields that are `always` written, and those that are written only
/// where they are known, which is where they are not the default. The reference of the command says
/// what each means, and a test holds it complete.
macro_rules! fields {
    (
        $(#[$about:meta])*
        $name:ident
        $($when:literal { $($(#[$of:meta])* $field:ident: $type:ty,)* })*
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct $name {
            $($($(#[$of])* #[serde(skip_serializing_if = $when)] pub $field: $type,)*)*
        }
    };
}
pub(crate) use fields;

fields! {
    /// One run of one lock at one point, in any world. A world fills in what it knows.
    Run
    "always" {
        seconds: f64,
        ops_per_s: f64,
    }
    "known" {
        ops: Vec<u64>,
        ops_per_cpu: Spread,
        jain: f64,
        /// Waits for locks. One that was taken at the first attempt counts as a wait of 0.
        wait_ns: WaitNs,
        /// Waits by length: how many took at most the given number of nanoseconds, and longer than
        /// those of the entry before. A power of two has four entries; entries without waits are
        /// left out.
        wait_counts: Vec<(u64, u64)>,
    }
    "always" {
        /// The longest wait, including one that was still going on when the run ended; absent where
        /// no wait is seen.
        longest_stall_ns: Option<u64>,
    }
    "known" {
        write_stall_ns: Option<u64>,
    }
    "always" {
        cpu_s_per_s: f64,
    }
    "known" {
        /// The CPU time of busy processes beside the run, as a share of what they have alone.
        neighbours: Option<f64>,
        counters: BTreeMap<Name, u64>,
        lost: u64,
        /// Share of the machine's CPU time that its own hypervisor took away during the run.
        steal: f64,
        /// Share of the machine's CPU time that the hypervisor and other processes took.
        disturbance: f64,
        /// How many more disturbed runs were thrown away before this one.
        retaken: u32,
        /// What a kernel ran under, by names and versions.
        under: String,
        // Threads.
        long_stalls: u64,
        undrained: u32,
        /// Where the time of lock and threads went; absent if the run was not logged.
        spent: Option<Spent>,
        /// CPUs that ran the threads, and the part of it in the kernel.
        sched: Option<Sched>,
        // Virtual CPUs, whose host is ours.
        spin_s_per_s: f64,
        /// Seconds per second for which vCPUs were runnable without a processor, in total.
        steal_s_per_s: f64,
        /// Where the waits went, lock by lock. Waits that outlast the run are counted to their own
        /// end.
        locks: Vec<Losses>,
        /// Seconds per second for which vCPUs had a pCPU but their threads had none of the system's
        /// CPUs: what the system took. It is part of `cpu_s_per_s`.
        run_delay_s_per_s: f64,
        slices_per_s: f64,
        /// By how many nanoseconds each was outstayed on average.
        overrun_ns: f64,
        /// The ratio of the configured slice length to the actual one: 1 means that slices were as
        /// long as configured, and preemptions as frequent.
        slices_of_nominal: f64,
        /// How long a halt, a kick and a wake-up take according to what locks were told, in
        /// nanoseconds; 0 if they were told nothing.
        wake_ns: u64,
        publishes: bool,
        timer_read_ns: f64,
        timer_cpu_s_per_s: f64,
        /// Seconds per second for which reads of the PM timer waited for other readers; 0 where
        /// that is not known.
        timer_wait_s_per_s: f64,
        timer_backwards: u64,
        exits: BTreeMap<Name, u64>,
        /// Yields by outcome and reason, and skipped vCPUs by reason: `directed:lock-holder`, ...
        yields: BTreeMap<String, u64>,
        yield_hits: u64,
        vcpus: Vec<Accounts>,
    }
    "always" {
        #[serde(skip)]
        /// Which vCPU ran where and held what, if that was asked for; in files it is a row of its
        /// own.
        timeline: Option<Timeline>,
    }
    "known" {
        // Programs.
        value: Option<f64>,
        /// User and system time of the program and the children it waited for, in seconds.
        cpu_s: Option<f64>,
        max_rss_kib: Option<u64>,
    }
}

/// How a lock spent its time, as shares of the run, and what its threads did meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Held by a running thread.
    pub held: f64,
    /// Held by a thread without a CPU.
    pub stopped: f64,
    /// Free and wanted, before another thread has it.
    pub hand_over: f64,
    /// Free and wanted, before the same thread has it again.
    pub kept: f64,
    /// Free and wanted for long: no thread looked.
    pub unseen: f64,
    pub unwanted: f64,
    /// Critical sections that a thread has before another gets the lock.
    pub turn: f64,
    /// The longest time for which the lock was free though wanted, in nanoseconds.
    pub longest_unseen_ns: f64,
    /// Throughput of the logged run over that of the ordinary one.
    pub speed: f64,
}

/// How the kernel scheduled the threads of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sched {
    pub cpu: f64,
    pub system: f64,
    /// Threads that were ready and had no CPU; absent if the kernel doesn't tell.
    pub queued: Option<f64>,
    /// Switches per second of threads that went to sleep.
    pub voluntary_per_s: f64,
    /// Switches per second of threads that lost their CPU or yielded it.
    pub involuntary_per_s: f64,
}

/// Leaves no value out.
pub(crate) fn always<T>(_: &T) -> bool {
    false
}

/// Leaves a value out if it is not known.
pub(crate) fn known<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Run {
    /// Operations of the CPU that did the least over those of the average one.
    pub fn least_served(&self) -> f64 {
        self.ops_per_cpu.min as f64 / self.ops_per_cpu.avg.max(1.0)
    }

    /// Jain's index; nothing where neither it nor the operations of each CPU are known.
    pub fn fairness(&self) -> Option<f64> {
        match (self.ops.is_empty(), self.jain > 0.0) {
            (false, _) => Some(jain(&self.ops)),
            (true, true) => Some(self.jain),
            (true, false) => None,
        }
    }

    pub fn stall_ns(&self) -> f64 {
        self.longest_stall_ns.unwrap_or(0) as f64
    }

    pub fn figure(&self) -> f64 {
        self.value.unwrap_or(self.seconds)
    }

    pub fn counted(&self, event: &str) -> u64 {
        self.counters.get(event).copied().unwrap_or(0)
    }

    /// Exits of all vCPUs per second, for any reason. A preemption counts as an eviction.
    pub fn exits_per_s(&self) -> f64 {
        let exits = self.exits.iter().filter(|(kind, _)| **kind != "preemption");
        exits.map(|(_, count)| *count as f64).sum::<f64>() / self.seconds
    }

    pub fn exit_per_s(&self, kind: &str) -> f64 {
        self.exits.get(kind).copied().unwrap_or(0) as f64 / self.seconds
    }

    pub fn timer_share(&self) -> f64 {
        self.timer_cpu_s_per_s / self.cpu_s_per_s.max(f64::MIN_POSITIVE)
    }

    /// The share of the used CPU time for which reads of the PM timer waited for other readers.
    pub fn timer_wait_share(&self) -> f64 {
        self.timer_wait_s_per_s / self.cpu_s_per_s.max(f64::MIN_POSITIVE)
    }
}
