// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scripts for injecting one preemption at every step.
//!
//! ```text
//!  holder    |lock|-------- section -------|unlock| ...
//!  head           |lock ........................... |
//!  next                |lock ............................. |
//!  newcomer                  |lock| unlock lock unlock ...
//! ```
//!
//! Everybody has a processor, and nothing is left to chance but what the plan says: one of them is
//! taken away at step k of its first acquisition and release, for so long that all others must act.
//! A *step* is an atomic access. A spin loop goes past the same call site again and again with
//! nothing changed; its visits count the first four times and then when their number is a power of
//! two.

use crate::plan::{Injection, Plan};
use crate::run::{Report, run};
use crate::subject::Subject;
use crate::world::{Span, World};

/// The CPUs of a script.
pub(crate) const ROLES: [&str; 4] = ["holder", "head", "next", "newcomer"];
/// When each of them comes, in nanoseconds.
const ARRIVES_NS: [u64; 4] = [0, 200, 400, 600];

/// See the [module documentation](self).
#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) cpus: usize,
    /// How long the holder's first section is.
    hold_ns: u64,
    /// Acquisitions by each CPU.
    rounds: [u64; 4],
    /// How long each is ready to wait the first time; 0 for ever.
    patience_ns: [u64; 4],
    /// How long the head counts as a user of the lock before it asks for it.
    head_late_ns: u64,
    /// The last user frees the lock.
    frees: bool,
}

const PLAIN: Script = Script {
    name: "spin",
    cpus: 4,
    hold_ns: 500,
    rounds: [3; 4],
    patience_ns: [0; 4],
    head_late_ns: 0,
    frees: false,
};

const FREED: Script = Script { name: "", cpus: 2, rounds: [1; 4], frees: true, ..PLAIN };

/// All scripts.
pub(crate) const SCRIPTS: [Script; 9] = [
    PLAIN,
    Script { name: "halt", hold_ns: 30_000, ..PLAIN },
    Script { name: "long", hold_ns: 300_000, ..PLAIN },
    Script { name: "head-gives-up", hold_ns: 30_000, patience_ns: [0, 20_000, 0, 0], ..PLAIN },
    Script { name: "next-gives-up", hold_ns: 30_000, patience_ns: [0, 0, 20_000, 0], ..PLAIN },
    Script {
        name: "all-give-up",
        hold_ns: 300_000,
        patience_ns: [0, 4_000, 2_000, 3_000],
        ..PLAIN
    },
    Script { name: "freed", head_late_ns: 12_000, ..FREED },
    Script { name: "freed-halted", hold_ns: 10_000, ..FREED },
    Script { name: "passed", rounds: [2, 1, 1, 5_000], ..PLAIN },
];

/// What one CPU of a script does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) arrives_ns: u64,
    pub(crate) rounds: u64,
    /// Length of the first section, and of the others.
    pub(crate) hold_ns: [u64; 2],
    pub(crate) pause_ns: u64,
    /// For the first time.
    pub(crate) patience_ns: u64,
    /// How long it takes from counting as a user of the lock to asking for it.
    pub(crate) on_its_way_ns: u64,
}

impl Script {
    pub(crate) fn part(&self, cpu: usize) -> Part {
        Part {
            arrives_ns: ARRIVES_NS[cpu],
            rounds: self.rounds[cpu],
            hold_ns: [if cpu == 0 { self.hold_ns } else { 100 }, 100],
            pause_ns: if self.rounds[cpu] > 100 { 0 } else { 300 },
            patience_ns: self.patience_ns[cpu],
            on_its_way_ns: if cpu == 1 { self.head_late_ns } else { 0 },
        }
    }

    pub(crate) fn world(&self, waits: bool) -> World {
        World {
            hold: Span::default(),
            free_one_in: u32::from(self.frees),
            stuck_ns: if waits { 1_000_000 } else { 20_000 },
            ..World::plain(self.cpus)
        }
    }
}

impl Injection {
    pub(crate) fn new(cpu: usize, step: u64, waits: bool) -> Self {
        Self { cpu, step, away_ns: if waits { 4_000_000 } else { 80_000 } }
    }
}

/// Takes each CPU of each script away at each of its steps: one run for each.
pub fn injections(subject: &'static Subject) -> impl Iterator<Item = (Plan, Report)> {
    let scripts = SCRIPTS.iter().enumerate();
    let roles = scripts.flat_map(|(script, of)| (0..of.cpus).map(move |role| (script, role)));
    roles.flat_map(move |(script, role)| {
        let mut more = true;
        (0..).map_while(move |step| {
            let plan = Plan::Inject { script, role, step };
            let report = more.then(|| run(subject, plan));
            more =
                report.as_ref().is_some_and(|report| report.injected && report.failure.is_none());
            report.map(|report| (plan, report))
        })
    })
}
