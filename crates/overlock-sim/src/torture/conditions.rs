//! The parameters of a run: how many CPUs there are, what they do, and what hits them.
//!
//! A world is drawn from the seed by swarm testing: each run switches some faults off altogether
//! and turns others up, because a fault that is always present hides what happens without it.
//! Source: A. Groce et al., "Swarm Testing", ISSTA 2012.

use overlock_results::Rng;

pub const CPUS: usize = 8;

/// The request made of a lock, or of a shared value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Lock,
    Try,
    Until,
    Join,
    Fresh,
    Last,
    Wait,
    Notify,
}

/// What a CPU wants a lock for. All but read-write locks are always taken to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Write,
    Read,
    /// To read once more, past waiting writers. It is released as `Read`.
    Again,
    /// To read, and perhaps to write later.
    Upgradable,
}

impl Verb {
    /// The request to a shared value that replaces this one to a lock.
    pub(crate) const fn shared(self) -> Self {
        match self {
            Self::Lock => Self::Join,
            Self::Try => Self::Last,
            Self::Until => Self::Fresh,
            shared => shared,
        }
    }
}

/// A span in nanoseconds: `least` plus a random magnitude up to `more`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Span {
    pub(crate) least: u64,
    pub(crate) more: u64,
}

impl Span {
    pub(crate) const fn exactly(ns: u64) -> Self {
        Self { least: ns, more: 0 }
    }

    pub(crate) const fn up_to(ns: u64) -> Self {
        Self { least: 0, more: ns }
    }

    pub(crate) fn draw(self, rng: &mut Rng) -> u64 {
        self.least + rng.magnitude(self.more)
    }
}

/// Everything that is decided before a run begins. A rate of n means once in n; 0 means never.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) cpus: usize,
    /// Processors. If there are fewer than CPUs, the CPUs share them in slices.
    pub(crate) pcpus: usize,
    pub(crate) slice: Span,
    /// How many contexts a CPU has: a task, and interrupts that interrupt each other. Each has its
    /// own locks.
    pub(crate) levels: usize,
    /// How many locks each level has.
    pub(crate) locks: usize,
    /// What an atomic access costs.
    pub(crate) step: Span,
    /// What a pause costs, in nanoseconds.
    pub(crate) relax_ns: u64,

    pub(crate) hold: Span,
    pub(crate) pause: Span,
    /// How far away a deadline is.
    pub(crate) timeout: Span,
    /// Weights of `Lock`, `Try` and `Until`.
    pub(crate) verbs: [u64; 3],
    /// Per critical section: a second lock is taken inside.
    pub(crate) nest_one_in: u32,
    /// Per release: it favours the queue head.
    pub(crate) fair_one_in: u32,
    /// Per critical section: the lock is freed after it.
    pub(crate) free_one_in: u32,

    /// Per step: the CPU is taken away.
    pub(crate) away_one_in: u32,
    pub(crate) away: Span,
    /// Per access to another CPU's slot: this CPU is taken away before it.
    pub(crate) reach_one_in: u32,
    /// Per step: the CPU is interrupted.
    pub(crate) interrupt_one_in: u32,
    /// Per halt: it ends spuriously.
    pub(crate) spurious_one_in: u32,
    /// How many halts of each CPU end spuriously: its first ones.
    pub(crate) first_spurious: u32,
    /// Per kick: it arrives late.
    pub(crate) late_one_in: u32,
    /// Per kick: it arrives twice.
    pub(crate) twice_one_in: u32,
    /// How long a late or second kick takes to arrive.
    pub(crate) late: Span,
    /// How long a kicked CPU needs to run again.
    pub(crate) wake: Span,
    /// The most by which the CPUs' clocks differ.
    pub(crate) skew: u64,
    /// Per CPU: it has no number.
    pub(crate) anonymous_one_in: u32,
    /// How many buckets the table of waiters has.
    pub(crate) buckets: usize,
    /// How many entries of each bucket are taken by waiters of other locks, which never leave.
    pub(crate) foreign: usize,
    /// Whether a kick wakes its CPU only from a wait on the word it names, as a futex does; if not,
    /// it wakes the CPU from any wait, as an interrupt does.
    pub(crate) kick_by_word: bool,

    /// How long a lock may stay free although some CPU should take it, in nanoseconds.
    pub(crate) stuck_ns: u64,
}

impl Conditions {
    /// A world without chance or faults.
    pub(crate) fn plain(cpus: usize) -> Self {
        Self {
            cpus,
            pcpus: cpus,
            levels: 1,
            locks: 1,
            step: Span::exactly(10),
            relax_ns: 10,
            verbs: [1, 0, 0],
            wake: Span::exactly(2_000),
            buckets: 64,
            kick_by_word: true,
            stuck_ns: 1_000_000,
            ..Self::default()
        }
    }

    /// A random world. If CPUs never halt (`waits` is false), everything that makes other CPUs spin
    /// is kept short.
    pub(crate) fn draw(rng: &mut Rng, cpus: Option<usize>, waits: bool) -> Self {
        let cpus = cpus.unwrap_or_else(|| 2 + rng.index(CPUS - 1));
        let away_most: u64 = if waits { 5_000_000 } else { 50_000 };
        // Half of the worlds do without a given fault.
        let mut rate = |rates: &[u32]| if rng.one_in(2) { 0 } else { rng.pick(rates) };
        let mut world = Self {
            nest_one_in: rate(&[2, 8]),
            fair_one_in: rate(&[1, 3, 20]),
            free_one_in: rate(&[1, 4, 30]),
            away_one_in: rate(&[40, 200, 1_000, 5_000]),
            reach_one_in: rate(&[2, 8, 40]),
            interrupt_one_in: rate(&[20, 100, 1_000]),
            spurious_one_in: rate(&[1, 3, 20]),
            late_one_in: rate(&[1, 4, 20]),
            twice_one_in: rate(&[1, 4, 20]),
            anonymous_one_in: if rate(&[1]) == 0 { 0 } else { rate(&[2, 5]) },
            ..Self::plain(cpus)
        };
        world.pcpus = if rng.one_in(2) { cpus } else { (1 + rng.index(4)).min(cpus) };
        world.slice = Span { least: 5_000, more: rng.pick(&[10_000, 100_000, away_most]) };
        world.levels = if world.interrupt_one_in == 0 { 1 } else { 2 + rng.index(4) };
        world.locks = 1 + rng.index(4);
        world.step = Span { least: 1, more: rng.pick(&[0, 8, 40, 200, 3_000]) };
        world.relax_ns = rng.pick(&[5, 12, 45]);
        world.hold = Span::up_to(rng.pick(&[0, 100, 2_000, 30_000]));
        world.pause = Span::up_to(rng.pick(&[0, 100, 2_000, 30_000]));
        world.timeout = Span::up_to(rng.pick(&[100, 5_000, 100_000, 2_000_000]));
        world.verbs = rng.pick(&[[1, 0, 0], [4, 1, 0], [2, 1, 2], [1, 0, 1], [1, 0, 8]]);
        world.away = Span::up_to(rng.pick(&[3_000, 100_000, away_most]));
        world.late = Span::up_to(rng.pick(&[500, 10_000, 200_000]));
        world.wake = Span { least: rng.pick(&[0, 1_000]), more: rng.pick(&[10, 5_000, 100_000]) };
        world.skew = rng.pick(&[0, 0, 500, 3_000]);
        world.buckets = rng.pick(&[1, 4, 64]);
        world.foreign = rng.pick(&[0, 0, 0, 8, 13, 14, 15]);
        world.kick_by_word = rng.one_in(2);
        world.stuck_ns = 2_000_000;
        world
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_differ_and_stay_within_their_limits() {
        let mut quiet = [0; 2];
        for seed in 0..1_000 {
            let world = Conditions::draw(&mut Rng::new(seed), None, true);
            assert!((2..=CPUS).contains(&world.cpus));
            assert!((1..=world.cpus).contains(&world.pcpus));
            assert!((1..=5).contains(&world.levels) && (1..=4).contains(&world.locks));
            quiet[usize::from(world.away_one_in == 0)] += 1;
        }
        assert!(quiet.iter().all(|count| *count > 300), "{quiet:?}");
    }
}
