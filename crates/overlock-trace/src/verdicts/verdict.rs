//! What the shares mean, and what to do about it: the one place where that is decided.

use super::finding::{Facts, Finding, Loop};
use crate::analysis::{Report, Site, State, Times};
use crate::names::{Class, Kind};

/// What to do; records have its name in lower case, with hyphens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cure {
    /// Nothing: processors are busy with work.
    NothingToDo,
    /// Nothing about locks: threads wait for work, for time, or for each other's ends.
    FindWork,
    /// The holder ran: less to do under the lock, or more locks.
    ShortenSection,
    /// Threads have no processor: fewer threads, more processors, another lock.
    GiveProcessors,
    /// The group had no quota: a higher one, or fewer threads.
    RaiseQuota,
    /// The holder slept: not under the lock.
    #[serde(rename = "do-not-sleep-inside")]
    DontSleepInside,
    /// Readers take turns past writers that wait: writers first.
    LetWritersPass,
    /// The lock was free: waking its waiters takes too long.
    WakeSooner,
    /// All of a crowd are woken, and one of them has something to do: wake one.
    WakeOne,
    /// Holders wait for each other's locks: all of them in one order.
    TakeInOrder,
    /// The thread that had the lock is not there any more: release it first.
    ReleaseFirst,
    /// Threads are woken while the mutex is held that they need next: unlock first.
    UnlockFirst,
    /// The lock is a runtime's, which the program can only take less often.
    LeaveRuntime,
    /// Threads burn their processors in loops that wait.
    StopSpinning,
    /// Threads wait for something outside of the program.
    Unblock,
    /// Threads look, sleep for a moment, and look again.
    StopPolling,
    #[default]
    LookCloser,
}

#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    /// Time in waits for locks, over the time of all threads.
    pub lock_share: f64,
    /// Time in waits for things outside of the program, over the time of all threads.
    pub outside_share: f64,
    /// Time in waits for work, over the time of all threads.
    pub work_share: f64,
    /// Processor time in loops that wait, over all processor time, by samples.
    pub spin_share: f64,
    /// The holders' part in all waits for locks.
    pub holder: Times,
    pub cure: Cure,
}

/// Below this share of all threads' time, no cure can be noticed.
pub const NOTICEABLE: f64 = 0.02;
/// Each program waits for its own pages when it starts: less than this is no reason to change it.
const NOTICEABLE_OUTSIDE_NS: u64 = 50_000_000;
/// Loops that wait are common for a moment before each sleep; this is more than a moment.
const NOTICEABLE_SPINNING: f64 = 0.10;
/// Below this number of samples, their share says little.
const ENOUGH_SAMPLES: u64 = 20;
/// Threads that could run always wait for their turn, where others run; only this part counts.
const TURNS: f64 = 0.25;
/// Threads that want to run for so many times longer than they do are not busy with work.
const STARVED: f64 = 8.0;
/// Threads that sleep for a moment wait for something, if that is this part of their time.
const NOTICEABLE_POLLING: f64 = 0.10;
/// If this part is for locks, these are what counts.
const NOTICEABLE_BESIDE: f64 = 0.05;
/// What is not known of this part may be a lock.
const NOTICEABLE_OPEN: f64 = 0.10;
/// A moment, and how many of them are many.
const SHORT_SLEEP_NS: u64 = 50_000_000;
const MANY_SLEEPS: u64 = 100;
const CROWD: u64 = 100;

impl Verdict {
    #[must_use]
    pub fn new(report: &Report, rows: &[Finding], loops: &[Loop], facts: &Facts) -> Self {
        let (mut holder, mut sums) = (Times::default(), [0_u64; 3]);
        for row in rows {
            sums[row.class as usize] += row.row.waited_ns;
            if row.class == Class::Lock {
                holder.add_all(&row.row.holder);
            }
        }
        let total = report.time.total();
        let [lock_share, outside_share, work_share] = sums.map(|ns| share(ns, total));
        let samples: u64 = loops.iter().map(|one| one.samples).sum();
        let spin_share = match samples {
            0..ENOUGH_SAMPLES => 0.0,
            _ => {
                let ns = samples.saturating_mul(report.sample_ns);
                share(ns, report.time.of(State::Running)).min(1.0)
            }
        };
        let cure = Cure::NothingToDo;
        let verdict = Verdict { lock_share, outside_share, work_share, spin_share, holder, cure };
        Verdict { cure: verdict.cure(report, (rows, loops), facts), ..verdict }
    }

    /// Decides what costs the most of what can be cured.
    fn cure(&self, report: &Report, (rows, loops): (&[Finding], &[Loop]), facts: &Facts) -> Cure {
        // What other programs take of the processors says nothing of this one.
        let capacity = report.elapsed_ns.saturating_mul(facts.processors.max(1) as u64);
        let competes = report.time.of(State::Running) * 2 > capacity;
        let all = report.time.total();
        let total = if competes { all } else { all - report.time.of(State::Preempted) };
        let of = |state| share(report.time.of(state), total);
        let ran = share(report.time.of(State::Running), all);
        let hides = facts.hides.is_some();
        let wants_to_run = ran + share(report.time.of(State::Preempted), all);
        let scaled = |part: f64| match part < NOTICEABLE {
            true => 0.0,
            false => part * all as f64 / total.max(1) as f64,
        };
        // A thread of Python gives up the interpreter at each call that may wait, so that each
        // program waits for it a little. It is short of it if it waits for longer than that.
        let interpreters = rows.iter().filter(|one| matches!(one.kind, Kind::Gil | Kind::Gvl));
        let waited = share(interpreters.map(|one| one.row.waited_ns).sum(), all);
        let is_little = waited < NOTICEABLE_BESIDE && waited * 2.0 < wants_to_run;
        let beside = if is_little { waited } else { 0.0 };
        let lock_share = scaled(self.lock_share - beside);
        let mut outside_share = scaled(self.outside_share);
        if self.outside_share * all as f64 <= NOTICEABLE_OUTSIDE_NS as f64 {
            outside_share = 0.0;
        }
        let (running, stopped) = (of(State::Running), of(State::Throttled));
        let held_stopped = share(self.holder.of(State::Throttled), self.holder.total());
        let spinning = self.spin_share * running;
        let is_spinning = self.spin_share >= NOTICEABLE_SPINNING;
        let polling = polls(rows).map_or(0.0, |row| share(row.row.waited_ns, total));
        // A loop that spins first, and then sleeps before it looks again, is one loop.
        let backs_off = backs_off(rows, loops).map_or(0.0, |row| share(row.row.waited_ns, total));
        let crowd = crowd(rows).map_or(0.0, |row| share(row.row.waited_ns, total));
        let choices = [
            (lock_share * (1.0 - held_stopped), Cure::ShortenSection),
            (stopped + lock_share * held_stopped, Cure::RaiseQuota),
            (if is_spinning { spinning } else { 0.0 } + backs_off, Cure::StopSpinning),
            (outside_share, Cure::Unblock),
            (if competes { of(State::Preempted) * TURNS } else { 0.0 }, Cure::GiveProcessors),
        ];
        let (most, cure) =
            choices.into_iter().max_by(|one, two| one.0.total_cmp(&two.0)).unwrap_or_default();
        let unknown = of(State::Unknown) + unknown_sleep(rows, total);
        let open = rows.iter().filter(|one| is_open(one, facts)).map(|one| one.row.waited_ns);
        let open = share(open.sum(), total);
        // Who sleeps while others wait for a lock may hold it, and looks for nothing.
        let polls = polling > NOTICEABLE_POLLING && lock_share < NOTICEABLE_BESIDE;
        match cure {
            // A crowd that is woken for one task waits for the mutex, or for processors, then.
            _ if crowd > NOTICEABLE && most < crowd + lock_share + of(State::Preempted) => {
                Cure::WakeOne
            }
            _ if most < NOTICEABLE && (unknown > 0.5 || facts.is_secret) => Cure::LookCloser,
            _ if most < NOTICEABLE && open > NOTICEABLE_OPEN => Cure::LookCloser,
            _ if polls && most < polling * 0.5 => Cure::StopPolling,
            _ if most < NOTICEABLE && wants_to_run >= self.work_share => match unknown {
                NOTICEABLE_OPEN.. => Cure::LookCloser,
                _ if wants_to_run > STARVED * ran && !hides => Cure::GiveProcessors,
                _ => Cure::NothingToDo,
            },
            _ if most < NOTICEABLE && unknown > self.work_share => Cure::LookCloser,
            _ if most < NOTICEABLE => Cure::FindWork,
            Cure::ShortenSection => self.cure_of_locks(rows),
            cure => cure,
        }
    }

    fn cure_of_locks(&self, rows: &[Finding]) -> Cure {
        let locks = Finding::together(rows.iter().filter(|row| row.class == Class::Lock));
        let Some(worst) = locks.first() else { return Cure::LookCloser };
        let retaken: u64 =
            locks.iter().filter(|one| one.kind == Kind::Retake).map(|one| one.row.waited_ns).sum();
        let all: u64 = locks.iter().map(|one| one.row.waited_ns).sum();
        let cure = match worst.kind {
            _ if retaken * 2 > all => Cure::UnlockFirst,
            _ if worst.circle_ns() * 2 > worst.row.waited_ns => Cure::TakeInOrder,
            _ if worst.is_orphan && worst.row.holder.largest() == State::Unknown => {
                Cure::ReleaseFirst
            }
            kind if kind.is_runtimes() => Cure::LeaveRuntime,
            kind => match cure_of(&self.holder) {
                Cure::LookCloser if kind == Kind::Monitor => Cure::LeaveRuntime,
                cure => cure,
            },
        };
        let behind: u64 = locks.iter().map(|one| one.behind_readers_ns).sum();
        match is_passed_by_readers(worst, cure) && behind * 2 > self.holder.total() {
            true => Cure::LetWritersPass,
            false => cure,
        }
    }
}

/// Returns whether writers waited at a place for most of the time because readers took turns, if
/// this would be the cure otherwise.
fn is_passed_by_readers(worst: &Finding, otherwise: Cure) -> bool {
    let may_be = match otherwise {
        Cure::LookCloser => true,
        _ => worst.row.passed_ns >= worst.row.holder.of(State::Unknown),
    };
    may_be && worst.behind_readers_ns * 2 > worst.row.waited_ns
}

/// Returns whether a place may be a lock's or one of work, because it is not seen who ends its
/// waits.
pub(super) fn is_open(one: &Finding, facts: &Facts) -> bool {
    let is_looked_at = facts.is_by_looks || one.row.looked.is_some();
    let is_hidden = is_looked_at && one.kind.names_class().is_none() && facts.hides.is_none();
    one.class == Class::Work && (is_hidden || one.kind == Kind::Park)
}

/// Returns the place where most of a crowd is woken to find nothing to do.
pub(super) fn crowd(rows: &[Finding]) -> Option<&Finding> {
    let is_crowd = |one: &&Finding| {
        let row = &one.row;
        one.kind == Kind::Condvar
            && row.in_crowd.min(row.for_nothing) > CROWD
            && row.in_crowd.min(row.for_nothing) * 2 > row.waits
    };
    rows.iter().filter(is_crowd).max_by_key(|one| one.row.waited_ns)
}

/// Returns the place where threads sleep for a moment, again and again, for most of the time.
pub(super) fn polls(rows: &[Finding]) -> Option<&Finding> {
    let others = [Kind::Join, Kind::Child, Kind::Idle, Kind::Unknown];
    let work = rows.iter().filter(|one| one.class == Class::Work && !others.contains(&one.kind));
    work.max_by_key(|one| one.row.waited_ns).filter(|one| {
        let row = &one.row;
        let is_short = row.waited_ns / row.waits.max(1) < SHORT_SLEEP_NS;
        is_short && row.waits >= MANY_SLEEPS && ends_by_time(one)
    })
}

/// Returns whether the time that a thread wants to sleep ends most of its sleeps.
fn ends_by_time(one: &Finding) -> bool {
    let by_thread = |((thread, _), (waits, _)): (&(u32, Site), &(u64, u64))| match thread {
        0 => 0,
        _ => *waits,
    };
    let told: u64 = one.row.enders.iter().map(by_thread).sum();
    match one.kind {
        Kind::Timer => true,
        Kind::Condvar | Kind::Semaphore => one.row.looked.is_none() && told * 2 < one.row.waits,
        _ => false,
    }
}

/// Returns the place where threads sleep for a moment in a function in which they also spin.
pub(super) fn backs_off<'a>(rows: &'a [Finding], loops: &[Loop]) -> Option<&'a Finding> {
    let function = |place: &str| place.split(" (").next().unwrap_or_default().to_owned();
    let spins = |at: String| loops.iter().any(|one| function(&one.place) == at);
    polls(rows).filter(|row| row.place != "?" && spins(function(&row.place)))
}

fn unknown_sleep(rows: &[Finding], total: u64) -> f64 {
    let unknown = rows.iter().filter(|one| one.kind == Kind::Unknown);
    share(unknown.map(|one| one.row.waited_ns).sum(), total)
}

/// Returns the cure for the largest part.
fn cure_of(holder: &Times) -> Cure {
    match holder.largest() {
        State::Running => Cure::ShortenSection,
        State::Preempted => Cure::GiveProcessors,
        State::Throttled => Cure::RaiseQuota,
        State::Asleep(..) | State::Waiting(..) => Cure::DontSleepInside,
        State::Late => Cure::WakeSooner,
        State::Unknown => Cure::LookCloser,
    }
}

/// Returns a part as a share; 0 of nothing.
#[must_use]
pub fn share(part: u64, of: u64) -> f64 {
    if of == 0 { 0.0 } else { part as f64 / of as f64 }
}
