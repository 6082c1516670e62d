// SPDX-License-Identifier: MIT OR Apache-2.0
//! The scripts for injecting one preemption at every step, or a preemption and an interrupt at
//! every two steps.
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
//!
//! The script `interrupted` is for two faults that are harmless alone. Its holder is taken away in
//! its release; meanwhile the head, whom that release has found in the table, gets the lock from
//! another and waits for a second one. When the holder is back it is interrupted, and its handler
//! waits for the second lock behind the head:
//!
//! ```text
//!  holder    |lock A|- section -|unlo....... away ........ck| <- interrupt: |lock B ........... |
//!  head           |lock A ............. | unlock A, lock B ................... | unlock B
//!  next                            |lock, unlock A, lock B|------ section -----| unlock B
//! ```
//!
//! Where locks are of several kinds, there is a script for each two of them. Everybody comes back
//! from the first halt for no reason, so the holder's late kick finds the head waiting for the
//! other lock, behind somebody. (And the handler, if the holder is interrupted, waits behind it.)
//!
//! ```text
//!  holder    |lock A|- section -|unlo....... away ........ck|
//!  head           |lock A ............ | unlock A, lock B ..................... | unlock B
//!  next      |lock B|------------------------ section ----------------------| unlock B
//!  newcomer       |lock B ..................................................... | unlock B
//! ```

use crate::plan::{InjectedFault, Injection, Plan};
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
    timeout_ns: [u64; 4],
    /// How long the head counts as a user of the lock before it asks for it.
    head_late_ns: u64,
    /// The last user frees the lock.
    frees: bool,
    /// Whoever is taken away is interrupted later, and there is a second lock: of the handler, and
    /// of everybody's sections after the first.
    pub(crate) interrupts: bool,
    /// There is a second lock, and first halts end for no reason: see the last picture.
    pair: bool,
    /// The kinds of the two locks, where they are of several.
    pub(crate) kinds: [usize; 2],
}

const PLAIN: Script = Script {
    name: "spin",
    cpus: 4,
    hold_ns: 500,
    rounds: [3; 4],
    timeout_ns: [0; 4],
    head_late_ns: 0,
    frees: false,
    interrupts: false,
    pair: false,
    kinds: [0, 1],
};

const FREED: Script = Script { name: "", cpus: 2, rounds: [1; 4], frees: true, ..PLAIN };

const fn pair(name: &'static str, kinds: [usize; 2]) -> Script {
    let rounds = [1, 2, 1, 1];
    Script { name, hold_ns: 30_000, rounds, interrupts: true, pair: true, kinds, ..PLAIN }
}

// As in `KINDS`.
const TAS: usize = 0;
const TICKET: usize = 1;
const QUEUED: usize = 2;
const HYBRID: usize = 3;
const REFRESH: usize = 4;

/// All scripts.
pub(crate) const SCRIPTS: [Script; 30] = [
    PLAIN,
    Script { name: "halt", hold_ns: 30_000, ..PLAIN },
    Script { name: "long", hold_ns: 300_000, ..PLAIN },
    Script { name: "head-gives-up", hold_ns: 30_000, timeout_ns: [0, 20_000, 0, 0], ..PLAIN },
    Script { name: "next-gives-up", hold_ns: 30_000, timeout_ns: [0, 0, 20_000, 0], ..PLAIN },
    Script { name: "all-give-up", hold_ns: 300_000, timeout_ns: [0, 4_000, 2_000, 3_000], ..PLAIN },
    Script { name: "freed", head_late_ns: 12_000, ..FREED },
    Script { name: "freed-halted", hold_ns: 10_000, ..FREED },
    Script { name: "passed", rounds: [2, 1, 1, 5_000], ..PLAIN },
    Script {
        name: "interrupted",
        cpus: 3,
        hold_ns: 30_000,
        rounds: [1, 2, 2, 0],
        interrupts: true,
        ..PLAIN
    },
    pair("test-and-set-ticket", [TAS, TICKET]),
    pair("test-and-set-queued", [TAS, QUEUED]),
    pair("test-and-set-hybrid", [TAS, HYBRID]),
    pair("test-and-set-refresh", [TAS, REFRESH]),
    pair("ticket-test-and-set", [TICKET, TAS]),
    pair("ticket-queued", [TICKET, QUEUED]),
    pair("ticket-hybrid", [TICKET, HYBRID]),
    pair("ticket-refresh", [TICKET, REFRESH]),
    pair("queued-test-and-set", [QUEUED, TAS]),
    pair("queued-ticket", [QUEUED, TICKET]),
    pair("queued-hybrid", [QUEUED, HYBRID]),
    pair("queued-refresh", [QUEUED, REFRESH]),
    pair("hybrid-test-and-set", [HYBRID, TAS]),
    pair("hybrid-ticket", [HYBRID, TICKET]),
    pair("hybrid-queued", [HYBRID, QUEUED]),
    pair("hybrid-refresh", [HYBRID, REFRESH]),
    pair("refresh-test-and-set", [REFRESH, TAS]),
    pair("refresh-ticket", [REFRESH, TICKET]),
    pair("refresh-queued", [REFRESH, QUEUED]),
    pair("refresh-hybrid", [REFRESH, HYBRID]),
];

/// What one CPU of a script does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) arrives_ns: u64,
    pub(crate) rounds: u64,
    /// The lock of the first section, and of the others.
    pub(crate) locks: [usize; 2],
    /// Length of the first section, and of the others.
    pub(crate) hold_ns: [u64; 2],
    pub(crate) pause_ns: u64,
    /// For the first time.
    pub(crate) timeout_ns: u64,
    /// How long it takes from counting as a user of the lock to asking for it.
    pub(crate) on_its_way_ns: u64,
}

impl Script {
    pub(crate) fn part(&self, cpu: usize, waits: bool) -> Part {
        if self.pair {
            return self.pair_part(cpu, waits);
        }
        // Comes when the holder is in its release, and holds the second lock until it is back.
        let late = self.interrupts && cpu == 2;
        Part {
            arrives_ns: if late { self.hold_ns + 1_500 } else { ARRIVES_NS[cpu] },
            rounds: self.rounds[cpu],
            locks: [0, usize::from(self.interrupts)],
            hold_ns: [
                if cpu == 0 { self.hold_ns } else { 100 },
                if late { away_ns(waits) * 5 / 4 } else { 100 },
            ],
            pause_ns: if self.rounds[cpu] > 100 || late { 0 } else { 300 },
            timeout_ns: self.timeout_ns[cpu],
            on_its_way_ns: if cpu == 1 { self.head_late_ns } else { 0 },
        }
    }

    fn pair_part(&self, cpu: usize, waits: bool) -> Part {
        let for_second = cpu >= 2;
        let hold_ns = match cpu {
            0 => self.hold_ns,
            // Until the holder is back.
            2 => away_ns(waits) * 5 / 4,
            _ => 100,
        };
        Part {
            arrives_ns: if for_second { ARRIVES_NS[cpu - 2] } else { ARRIVES_NS[cpu] },
            rounds: self.rounds[cpu],
            locks: [usize::from(for_second), 1],
            hold_ns: [hold_ns, 100],
            pause_ns: 300,
            timeout_ns: 0,
            on_its_way_ns: 0,
        }
    }

    /// The CPU that is interrupted: of a pair, the holder, which alone never uses the second lock
    /// outside the handler.
    fn interrupted(&self) -> usize {
        match (self.interrupts, self.pair) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => self.cpus,
        }
    }

    pub(crate) fn world(&self, waits: bool) -> World {
        World {
            first_spurious: u32::from(self.pair),
            hold: Span::default(),
            free_one_in: u32::from(self.frees),
            stuck_ns: if waits { 1_000_000 } else { 20_000 },
            levels: 1 + usize::from(self.interrupts),
            ..World::plain(self.cpus)
        }
    }
}

/// How long a CPU is taken away.
fn away_ns(waits: bool) -> u64 {
    if waits { 4_000_000 } else { 80_000 }
}

/// What hits CPU `cpu`: last, what comes first.
pub(crate) fn injected_faults(
    cpu: usize,
    step: u64,
    then: Option<u64>,
    waits: bool,
) -> Vec<Injection> {
    let interrupt = then.map(|step| Injection { cpu, step, what: InjectedFault::Interrupt });
    let away = Injection { cpu, step, what: InjectedFault::Away(away_ns(waits)) };
    interrupt.into_iter().chain([away]).collect()
}

/// Takes each CPU of each script away at each of its steps, one run for each, and adds the
/// [`interruptions`].
pub fn injections(subject: &'static Subject) -> impl Iterator<Item = (Plan, Report)> {
    let steps = roles(subject, |script| script.cpus).flat_map(move |(script, role)| {
        runs(subject, 0, move |step| Plan::Inject { script, role, step, then: None })
    });
    steps.chain(interruptions(subject))
}

/// Takes CPUs of the scripts with interrupts away at each of their steps, and interrupts them at
/// each later one: one run for each two steps.
pub fn interruptions(subject: &'static Subject) -> impl Iterator<Item = (Plan, Report)> {
    roles(subject, Script::interrupted).flat_map(move |(script, role)| {
        let rows = (0..).map_while(move |step| {
            let plan = move |then| Plan::Inject { script, role, step, then: Some(then) };
            let mut row = runs(subject, step + 1, plan).peekable();
            row.peek().is_some_and(|(_, report)| report.injected).then_some(row)
        });
        rows.flatten()
    })
}

/// All scripts for a subject, each with each number of its first roles.
fn roles(
    subject: &'static Subject,
    most: fn(&Script) -> usize,
) -> impl Iterator<Item = (usize, usize)> {
    let scripts = SCRIPTS.iter().enumerate().filter(|(_, of)| of.pair == subject.is_mixed());
    scripts.flat_map(move |(script, of)| (0..most(of)).map(move |role| (script, role)))
}

/// Runs for each step from `first` on, until one whose step is not reached, or that fails.
fn runs(
    subject: &'static Subject,
    first: u64,
    plan: impl Fn(u64) -> Plan,
) -> impl Iterator<Item = (Plan, Report)> {
    let mut more = true;
    (first..).map_while(move |step| {
        let plan = plan(step);
        let report = more.then(|| run(subject, plan));
        more = report.as_ref().is_some_and(|report| report.injected && report.failure.is_none());
        report.map(|report| (plan, report))
    })
}
