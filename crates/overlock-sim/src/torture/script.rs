//! The scripts for injecting one preemption at every step, or a preemption and an interrupt at
//! every pair of steps (`injections.rs`).
//!
//! ```text
//!  holder    |lock|-------- section -------|unlock| ...
//!  head           |lock ........................... |
//!  next                |lock ............................. |
//!  newcomer                  |lock| unlock lock unlock ...
//! ```
//!
//! Every CPU has a processor, and chance plays no part. The plan says which of them is taken away,
//! and at which step k of its first acquisition and release; it stays away for so long that all
//! others must act. A *step* is an atomic access. A spin loop passes the same call site again and
//! again with nothing changed, so only the first four visits count, and later ones whose number is
//! a power of two.
//!
//! The script `interrupted` is for two faults that are harmless alone. Its holder is taken away in
//! its release. Meanwhile the head, which that release has found in the table, gets the lock from
//! another CPU and waits for a second one. When the holder is back it is interrupted, and its
//! handler waits for the second lock behind the head:
//!
//! ```text
//!  holder    |lock A|- section -|unlo....... away ........ck| <- interrupt: |lock B ........... |
//!  head           |lock A ............. | unlock A, lock B ................... | unlock B
//!  next                            |lock, unlock A, lock B|------ section -----| unlock B
//! ```
//!
//! If there are several kinds of locks, each pair of them has a script. Every CPU's first halt ends
//! spuriously, so the holder's late kick finds the head waiting for the other lock, behind another
//! CPU. (If the holder is interrupted, its handler waits behind the head.)
//!
//! ```text
//!  holder    |lock A|- section -|unlo....... away ........ck|
//!  head           |lock A ............ | unlock A, lock B ..................... | unlock B
//!  next      |lock B|------------------------ section ----------------------| unlock B
//!  newcomer       |lock B ..................................................... | unlock B
//! ```

use crate::torture::conditions::{Conditions, Hold, Span};
use crate::torture::faults::{InjectedFault, Injection};
use crate::torture::kind::{Kind, Role};

/// The CPUs of a script.
pub(crate) const ROLES: [&str; 4] = ["holder", "head", "next", "newcomer"];
/// When each of them arrives, in nanoseconds.
const ARRIVES_NS: [u64; 4] = [0, 200, 400, 600];

#[derive(Debug)]
pub(crate) struct Script {
    pub(crate) name: &'static str,
    pub(crate) cpus: usize,
    /// How long the holder's first critical section is.
    hold_ns: u64,
    /// How long its others are.
    again_ns: u64,
    /// How many acquisitions each CPU makes.
    pub(crate) rounds: [u64; 4],
    /// How long each is prepared to wait the first time; 0 means for ever.
    timeout_ns: [u64; 4],
    /// How long the head counts as a user of the lock before it asks for it.
    head_late_ns: u64,
    /// Whether the newcomer arrives when the holder is in its release. By then head and next are in
    /// the queue, however long newcomers spin, and the head can be passed while it is away.
    late: bool,
    /// Whether the last user frees the lock.
    frees: bool,
    /// Whether the CPU that is taken away is interrupted later, and there is a second lock: for the
    /// handler, and for all critical sections after the first.
    pub(crate) interrupts: bool,
    /// Whether there is a second lock, and first halts end spuriously: see the last drawing.
    pub(crate) pair: bool,
    /// The kinds of the two locks, if there are several kinds.
    pub(crate) kinds: [usize; 2],
    /// How long each CPU pauses between its acquisitions.
    pause_ns: u64,
    /// Whether it is for monitors alone: the others wait when the holder arrives.
    waits: bool,
    /// From which CPU on they only lock the monitor.
    lock_from: usize,
    /// Whether the wait of the first waiter ends by a panic once it has released the lock.
    pub(crate) cancels: bool,
    /// What each CPU takes the lock for, if it is a read-write lock.
    holds: [Hold; 4],
    /// Whether they change that in the middle of their sections.
    changes: bool,
    /// Which CPUs take it only if it has room for them.
    tries: [bool; 4],
    /// Whether the CPU that is taken away stays away until those that keep coming should have
    /// finished.
    pub(crate) stops: bool,
}

const PLAIN: Script = Script {
    name: "spin",
    cpus: 4,
    hold_ns: 500,
    again_ns: 100,
    rounds: [3; 4],
    timeout_ns: [0; 4],
    head_late_ns: 0,
    late: false,
    frees: false,
    interrupts: false,
    pair: false,
    kinds: [0, 1],
    pause_ns: 300,
    waits: false,
    lock_from: 4,
    cancels: false,
    holds: [Hold::Write; 4],
    changes: false,
    tries: [false; 4],
    stops: false,
};

/// However often the holder and the newcomer take the lock, one that is stopped for ever delays
/// the others a bounded time in all (see [`Survives`]).
const STOPPED: Script = Script {
    name: "stopped",
    hold_ns: 50_000,
    rounds: [300, 1, 1, 300],
    late: true,
    stops: true,
    ..PLAIN
};

const FREED: Script = Script { name: "", cpus: 2, rounds: [1; 4], frees: true, ..PLAIN };

const fn pair(name: &'static str, kinds: [usize; 2]) -> Script {
    let rounds = [1, 2, 1, 1];
    Script { name, hold_ns: 50_000, rounds, interrupts: true, pair: true, kinds, ..PLAIN }
}

const fn sharing(name: &'static str, holds: [Hold; 4]) -> Script {
    Script { name, hold_ns: 50_000, holds, ..PLAIN }
}

const FIRST: [bool; 4] = [true, false, false, false];

const LAST: [bool; 4] = [false, false, false, true];

const R: Hold = Hold::Read;
const U: Hold = Hold::Upgradable;
const W: Hold = Hold::Write;

// As in `KINDS`.
const TAS: usize = 0;
const TICKET: usize = 1;
const QUEUED: usize = 2;
const HYBRID: usize = 3;
const REFRESH: usize = 4;

pub(crate) const SCRIPTS: [Script; 46] = [
    PLAIN,
    Script { name: "halt", hold_ns: 50_000, ..PLAIN },
    Script { name: "long", hold_ns: 300_000, ..PLAIN },
    Script { name: "head-gives-up", hold_ns: 50_000, timeout_ns: [0, 40_000, 0, 0], ..PLAIN },
    Script { name: "next-gives-up", hold_ns: 50_000, timeout_ns: [0, 0, 40_000, 0], ..PLAIN },
    Script { name: "all-give-up", hold_ns: 300_000, timeout_ns: [0, 4_000, 2_000, 3_000], ..PLAIN },
    Script { name: "freed", head_late_ns: 12_000, ..FREED },
    Script { name: "freed-halted", hold_ns: 10_000, ..FREED },
    Script { name: "passed", hold_ns: 50_000, rounds: [2, 1, 1, 5_000], late: true, ..PLAIN },
    Script {
        name: "interrupted",
        cpus: 3,
        hold_ns: 50_000,
        rounds: [1, 2, 2, 0],
        interrupts: true,
        ..PLAIN
    },
    Script {
        name: "notified-late",
        cpus: 3,
        rounds: [2, 1, 1, 0],
        timeout_ns: [0, 60_000, 0, 0],
        // The notified waiter is back before there is another token.
        pause_ns: 10_000_000,
        waits: true,
        ..PLAIN
    },
    // The notified waiter is gone before there is another token.
    Script {
        name: "notified-and-cancelled",
        cpus: 3,
        rounds: [2, 1, 1, 0],
        pause_ns: 10_000_000,
        waits: true,
        cancels: true,
        ..PLAIN
    },
    // The notified waiter joins a queue in which others are, and one of them gives up.
    Script {
        name: "notified-among-others",
        hold_ns: 50_000,
        timeout_ns: [0, 0, 0, 40_000],
        waits: true,
        lock_from: 2,
        ..PLAIN
    },
    sharing("readers", [R, W, R, R]),
    Script { hold_ns: 300_000, ..sharing("readers-long", [R, W, R, R]) },
    sharing("crowd", [W, R, R, W]),
    Script { changes: true, ..sharing("upgrade", [U, R, W, R]) },
    Script { changes: true, ..sharing("downgrade", [W, W, R, U]) },
    Script { tries: FIRST, changes: true, ..sharing("downgrade-some", [W, U, R, W]) },
    Script { tries: FIRST, changes: true, ..sharing("downgrade-upgradable", [U, W, U, R]) },
    Script { timeout_ns: [0, 40_000, 0, 0], ..sharing("writer-gives-up", [R, W, R, R]) },
    Script { timeout_ns: [0, 40_000, 0, 0], ..sharing("reader-gives-up", [W, R, W, U]) },
    Script { rounds: [2, 1, 1, 5_000], late: true, ..sharing("passed-by-readers", [W, W, R, R]) },
    // Each time it leaves, it kicks the head, and comes back when the head has been passed
    // often but is not yet awake.
    Script {
        again_ns: 15_000,
        rounds: [18, 1, 1, 20_000],
        pause_ns: 1_700,
        late: true,
        tries: LAST,
        ..sharing("passed-often", [W, W, W, R])
    },
    STOPPED,
    Script { name: "stopped-reader", holds: [W, R, W, R], ..STOPPED },
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
    /// The lock of the first critical section, and that of the others.
    pub(crate) locks: [usize; 2],
    /// The length of the first critical section, and that of the others.
    pub(crate) hold_ns: [u64; 2],
    pub(crate) pause_ns: u64,
    /// The time-out of the first acquisition.
    pub(crate) timeout_ns: u64,
    /// How long it takes from counting as a user of the lock until it asks for it.
    pub(crate) on_its_way_ns: u64,
    pub(crate) hold: Hold,
    pub(crate) changes: bool,
    pub(crate) tries: bool,
}

impl Script {
    pub(crate) fn part(&self, cpu: usize, waits: bool) -> Part {
        if self.pair {
            return self.pair_part(cpu, waits);
        }
        // It holds the second lock until the holder is back.
        let second = self.interrupts && cpu == 2;
        let late = second || self.late && cpu == 3;
        let passes = self.keeps_coming(cpu);
        Part {
            arrives_ns: match late {
                true => self.hold_ns + 1_500,
                false if self.waits && cpu == 0 => 20_000,
                false => ARRIVES_NS[cpu],
            },
            rounds: self.rounds[cpu],
            locks: [0, usize::from(self.interrupts)],
            hold_ns: match cpu {
                0 => [self.hold_ns, self.again_ns],
                _ if second => [100, away_ns(waits) * 5 / 4],
                _ if self.tries[cpu] => [0, 0],
                _ => [100, 100],
            },
            pause_ns: if late || passes { 0 } else { self.pause_ns },
            timeout_ns: self.timeout_ns[cpu],
            on_its_way_ns: if cpu == 1 { self.head_late_ns } else { 0 },
            hold: self.holds[cpu],
            changes: self.changes,
            tries: self.tries[cpu],
        }
    }

    fn pair_part(&self, cpu: usize, waits: bool) -> Part {
        let for_second = cpu >= 2;
        let hold_ns = match cpu {
            0 => self.hold_ns,
            // It lasts until the holder is back.
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
            hold: Hold::Write,
            changes: false,
            tries: false,
        }
    }

    /// Whether it takes the lock again and again.
    pub(crate) fn keeps_coming(&self, cpu: usize) -> bool {
        self.rounds[cpu] > 100
    }

    /// Whether a CPU only locks a monitor, and waits for no condition.
    pub(crate) fn locks(&self, cpu: usize) -> bool {
        self.waits && cpu >= self.lock_from
    }

    /// Whether it is meant for subjects like this: of several kinds of locks, or with this role. Of
    /// monitors beside locks, only the monitors have scripts.
    pub(crate) fn fits(&self, is_mixed: bool, kind: &Kind, waits: bool) -> bool {
        let (reads, role) = (self.holds != PLAIN.holds, kind.role);
        (!self.stops || waits && kind.promise.survives.stops())
            && self.pair == (is_mixed && role != Role::Monitor)
            && match role {
                Role::ReadWrite => !self.waits,
                Role::Monitor => !reads && !self.interrupts,
                Role::Lock | Role::Value => !reads && !self.waits,
            }
    }

    /// How many CPUs are interrupted in turn. Of a pair it is only the holder, the one
    /// CPU that uses the second lock only in its handler.
    pub(crate) fn hit_twice(&self) -> usize {
        match (self.interrupts, self.pair) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => self.cpus,
        }
    }

    pub(crate) fn world(&self, waits: bool) -> Conditions {
        Conditions {
            first_spurious: u32::from(self.pair),
            hold: Span::default(),
            free_one_in: u32::from(self.frees),
            stuck_ns: if waits { 1_000_000 } else { 20_000 },
            levels: 1 + usize::from(self.interrupts),
            ..Conditions::plain(self.cpus)
        }
    }
}

/// How long a CPU is stopped: for long enough that the others could take the lock a thousand times.
const STOPPED_NS: u64 = 60_000_000;

/// How long a CPU stays away.
fn away_ns(waits: bool) -> u64 {
    if waits { 4_000_000 } else { 80_000 }
}

impl Script {
    /// The faults of CPU `cpu`; the last element comes first.
    pub(crate) fn injected_faults(
        &self,
        cpu: usize,
        step: u64,
        then: Option<u64>,
        waits: bool,
    ) -> Vec<Injection> {
        let second = then.map(|step| Injection { cpu, step, what: InjectedFault::Interrupt });
        let ns = if self.stops { STOPPED_NS } else { away_ns(waits) };
        let away = Injection { cpu, step, what: InjectedFault::Away(ns) };
        second.into_iter().chain([away]).collect()
    }
}
