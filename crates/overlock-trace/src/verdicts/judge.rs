//! What the shares mean, and what to do about it: the one place where that is decided.

use super::finding::Finding;
use super::findings::Findings;
use super::naming::path;
use super::verdict::{Cure, Verdict, share};
use crate::analysis::{State, Times, WaitStats};
use crate::names::{Class, Kind};
use std::collections::BTreeMap;

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

impl Findings {
    /// Says what was found about the threads' time, and what to do.
    pub(super) fn judge(&self) -> Verdict {
        let (report, mut holder, mut sums) = (&self.report, Times::default(), [0_u64; 3]);
        for row in &self.rows {
            sums[row.class as usize] += row.row.waited_ns;
            if row.class == Class::Lock {
                holder.add_all(&row.row.holder);
            }
        }
        let total = report.time.total();
        // A thread that sleeps outside while others wait for it is a matter of what these wait for.
        sums[Class::Outside as usize] -= self.waited_for_ns();
        let [lock_share, outside_share, work_share] = sums.map(|ns| share(ns, total));
        let samples: u64 = self.loops.iter().map(|one| one.samples).sum();
        let spin_share = if samples < ENOUGH_SAMPLES { 0.0 } else { self.cpu_share(samples) };
        let cure = Cure::NothingToDo;
        let verdict = Verdict { lock_share, outside_share, work_share, spin_share, holder, cure };
        Verdict { cure: self.cure(&verdict), ..verdict }
    }

    /// Returns for how long threads slept for what is outside while others waited for a lock that
    /// they had.
    fn waited_for_ns(&self) -> u64 {
        let locks = self.rows.iter().filter(|one| one.class == Class::Lock);
        let mut asleep: BTreeMap<(String, String), u64> = BTreeMap::new();
        for (steps, ns) in locks.flat_map(|one| &one.chains) {
            if let Some(last) = steps.last() {
                *asleep.entry((last.what.clone(), last.place.clone())).or_default() += ns;
            }
        }
        let outside = self.rows.iter().filter(|one| one.class == Class::Outside);
        let part = outside.map(|one| {
            let place = path(&one.place, &one.callers[..one.callers.len().min(1)]);
            let waited = asleep.get_mut(&(one.what.clone(), place));
            waited.map_or(0, |ns| {
                let part = one.row.waited_ns.min(*ns);
                *ns -= part;
                part
            })
        });
        part.sum()
    }

    /// Returns whether the program's own threads have had most of the processors' time.
    #[must_use]
    pub fn competes(&self) -> bool {
        let Findings { report, facts, .. } = self;
        let processors = facts.quota.unwrap_or(f64::MAX).min(facts.processors.max(1) as f64);
        let capacity = report.elapsed_ns as f64 * processors;
        report.time.of(State::Running) as f64 * 2.0 > capacity
    }

    /// Decides what costs the most of what can be cured.
    fn cure(&self, verdict: &Verdict) -> Cure {
        let Findings { report, rows, facts, .. } = self;
        // What other programs take of the processors says nothing of this one.
        let competes = self.competes();
        let all = report.time.total();
        let total = if competes { all } else { all - report.time.of(State::Preempted) };
        let of = |state| share(report.time.of(state), total);
        let of_row = |row: Option<&Finding>| row.map_or(0.0, |row| share(row.row.waited_ns, total));
        let ran = share(report.time.of(State::Running), all);
        let hides = facts.hides.is_some();
        let wants_to_run = ran + share(report.time.of(State::Preempted), all);
        let (lock_share, outside_share) = self.noticed(verdict, wants_to_run, total);
        let (running, stopped) = (of(State::Running), of(State::Throttled));
        let held_stopped = share(verdict.holder.of(State::Throttled), verdict.holder.total());
        let is_spinning = verdict.spin_share >= NOTICEABLE_SPINNING;
        let lacking = if competes { of(State::Preempted) * TURNS } else { 0.0 };
        // The processors that threads lack are as far those of loops that wait.
        let taken = self.cpu_share(self.loops.iter().map(|one| one.while_others_starved).sum());
        let for_loops = if is_spinning { lacking * taken } else { 0.0 };
        let spinning = if is_spinning { verdict.spin_share * running + for_loops } else { 0.0 };
        let polling = of_row(self.polls());
        // A loop that spins first, and then sleeps before it looks again, is one loop.
        let backs_off = of_row(self.backs_off());
        let crowd = of_row(self.crowd());
        let choices = [
            (lock_share * (1.0 - held_stopped), Cure::ShortenSection),
            (stopped + lock_share * held_stopped, Cure::RaiseQuota),
            (spinning + backs_off, Cure::StopSpinning),
            (outside_share, Cure::Unblock),
            (lacking - for_loops, Cure::GiveProcessors),
        ];
        let (most, cure) =
            choices.into_iter().max_by(|one, two| one.0.total_cmp(&two.0)).unwrap_or_default();
        let (most, cure) = match cure {
            Cure::ShortenSection => match self.cure_of_locks(&verdict.holder) {
                // Little is for locks, and nothing is known of these: the rest matters.
                Cure::LookCloser if lock_share < NOTICEABLE_BESIDE => (0.0, Cure::LookCloser),
                cure => (most, cure),
            },
            cure => (most, cure),
        };
        let rows_of = |is: &dyn Fn(&&Finding) -> bool| {
            share(rows.iter().filter(is).map(|one| one.row.waited_ns).sum(), total)
        };
        let unknown = of(State::Unknown) + rows_of(&|one| one.kind == Kind::Unknown);
        let open = rows_of(&|one| self.is_open(one));
        // Nobody ends these waits before their time is over.
        let is_left = |one: &&Finding| {
            let may_be = matches!(one.kind, Kind::Condvar | Kind::Semaphore | Kind::Futex);
            may_be && one.class == Class::Work && one.row.timed_out_ns * 2 > one.row.waited_ns
        };
        let left = rows_of(&is_left);
        // What a thread does for whose end another one waits is what counts.
        let ends = rows_of(&|one| matches!(one.kind, Kind::Join | Kind::Child));
        let waits_for_work = verdict.work_share - ends * share(total, all);
        let are_others_busy = wants_to_run > polling * share(total, all);
        // Who sleeps while others wait for a lock may hold it, and looks for nothing.
        let polls = polling > NOTICEABLE_POLLING && lock_share < NOTICEABLE_BESIDE;
        match cure {
            // A crowd that is woken for one task waits for the mutex, or for processors, then.
            _ if crowd > NOTICEABLE && most < crowd + lock_share + of(State::Preempted) => {
                if self.is_crowd_sure() { Cure::WakeOne } else { Cure::LookCloser }
            }
            _ if most < NOTICEABLE && (unknown > 0.5 || facts.is_secret) => Cure::LookCloser,
            _ if most < NOTICEABLE && open > NOTICEABLE_OPEN => Cure::LookCloser,
            _ if polls && most < polling * 0.5 && !are_others_busy => Cure::StopPolling,
            _ if most < NOTICEABLE_BESIDE && left > most.max(NOTICEABLE_OPEN) => Cure::FindWork,
            _ if most < NOTICEABLE && wants_to_run >= waits_for_work => match unknown {
                NOTICEABLE_OPEN.. => Cure::LookCloser,
                _ if wants_to_run > STARVED * ran && !hides => Cure::GiveProcessors,
                _ => Cure::NothingToDo,
            },
            _ if most < NOTICEABLE && unknown > waits_for_work => Cure::LookCloser,
            _ if most < NOTICEABLE => Cure::FindWork,
            cure => cure,
        }
    }

    /// Returns the shares of some time that went into locks, and into what is outside, as far as
    /// they can be noticed.
    fn noticed(&self, verdict: &Verdict, wants_to_run: f64, total: u64) -> (f64, f64) {
        let all = self.report.time.total();
        let scaled = |part: f64| match part < NOTICEABLE {
            true => 0.0,
            false => part * all as f64 / total.max(1) as f64,
        };
        // A thread of Python gives up the interpreter at each call that may wait, so that each
        // program waits for it a little. It is short of it if it waits for longer than that.
        let interpreters = self.rows.iter().filter(|one| matches!(one.kind, Kind::Gil | Kind::Gvl));
        let waited = share(interpreters.map(|one| one.row.waited_ns).sum(), all);
        let is_little = waited < NOTICEABLE_BESIDE && waited * 2.0 < wants_to_run;
        let beside = if is_little { waited } else { 0.0 };
        let is_outside = verdict.outside_share * all as f64 > NOTICEABLE_OUTSIDE_NS as f64;
        let outside = if is_outside { scaled(verdict.outside_share) } else { 0.0 };
        (scaled(verdict.lock_share - beside), outside)
    }

    fn cure_of_locks(&self, holder: &Times) -> Cure {
        let locks = self.of(Class::Lock);
        let Some(worst) = locks.first() else { return Cure::LookCloser };
        // Of a crowd, the threads themselves keep each other from the mutex. Looks do not tell.
        let is_crowd =
            |one: &Finding| one.kind == Kind::Condvar && one.row.in_crowd * 2 > one.row.waits;
        let is_of_crowd =
            |of: &Finding| self.rows.iter().any(|one| is_crowd(one) && one.path() == of.path());
        let is_told = |one: &&Finding| !self.facts.is_by_looks && !is_of_crowd(one);
        let retaken = locks.iter().filter(|one| one.kind == Kind::Retake).filter(is_told);
        let retaken: u64 = retaken.map(|one| one.row.waited_ns).sum();
        let all: u64 = locks.iter().map(|one| one.row.waited_ns).sum();
        let blamed = self.blamed(holder);
        let cure = match worst.kind {
            _ if retaken * 2 > all => Cure::UnlockFirst,
            _ if worst.circle_ns() * 2 > worst.row.waited_ns => Cure::TakeInOrder,
            _ if worst.is_orphan && worst.row.holder.largest() == State::Unknown => {
                Cure::ReleaseFirst
            }
            kind if kind.is_runtimes() => Cure::LeaveRuntime,
            kind => match cure_of(blamed) {
                Cure::LookCloser if kind == Kind::Monitor => Cure::LeaveRuntime,
                cure => cure,
            },
        };
        let behind: u64 = locks.iter().map(|one| one.behind_readers_ns).sum();
        let may_be =
            cure == Cure::LookCloser || worst.row.passed_ns >= worst.row.holder.of(State::Unknown);
        // Writers wait for most of the time, there and everywhere, because readers take turns.
        let is_behind = worst.behind_readers_ns * 2 > worst.row.waited_ns;
        match may_be && is_behind && behind * 2 > holder.total() {
            true => Cure::LetWritersPass,
            false => cure,
        }
    }

    /// Returns what the holders of locks did for most of the time. If other programs had the
    /// processors, and came first by no rank, that says nothing of this one, as far as it was seen
    /// to do anything else.
    #[must_use]
    pub fn blamed(&self, holder: &Times) -> State {
        let rest = holder.total() - holder.of(State::Preempted);
        let worst = self.of(Class::Lock).into_iter().next();
        let is_outranked = worst.is_some_and(|one| one.outranked().is_some());
        match !self.competes() && !is_outranked && rest * 3 > holder.total() {
            true => {
                let others = State::HOLDERS.into_iter().filter(|state| *state != State::Preempted);
                others.max_by_key(|state| holder.of(*state)).unwrap_or(State::Unknown)
            }
            false => holder.largest(),
        }
    }

    /// Returns whether it is not seen who ends the waits at a place: looks do not tell, and neither
    /// do threads of the calls that they sleep in.
    #[must_use]
    pub fn sees_no_wakers(&self, one: &Finding) -> bool {
        let is_untold = one.row.key.reason.is_some() && one.row.enders.is_empty();
        self.facts.is_by_looks || one.row.looked.is_some() || is_untold
    }

    /// Returns whether a place may be a lock's or one of work, because it is not seen who ends its
    /// waits.
    fn is_open(&self, one: &Finding) -> bool {
        let is_told = one.kind.names_class().is_some() || self.facts.hides.is_some();
        let is_hidden = !is_told && self.sees_no_wakers(one);
        // Without debug information, nothing tells Python's locks from its queues.
        let has_line = one.place.contains(':');
        let is_nameless = one.kind == Kind::PyLock && !has_line;
        one.class == Class::Work && (is_hidden || one.kind == Kind::Park || is_nameless)
    }

    /// Returns the place where most time was spent for what may be a lock, or work.
    #[must_use]
    pub fn open(&self) -> Option<&Finding> {
        let rows = self.rows.iter().filter(|one| self.is_open(one));
        rows.max_by_key(|one| one.row.waited_ns)
    }

    /// Returns the place where most of a crowd is woken at once and does next to nothing then, as
    /// far as is known. Where they end each other's waits, each has done something that others wait
    /// for.
    #[must_use]
    pub fn crowd(&self) -> Option<&Finding> {
        let is_crowd = |one: &&Finding| {
            let row = &one.row;
            let nothing = row.kept.unwrap_or(row.for_nothing).min(row.in_crowd);
            let is_asked_for = row.kept.is_none() && row.handed_on * 2 > row.waits;
            matches!(one.kind, Kind::Condvar | Kind::Poll)
                && !is_asked_for
                && row.timed_out_ns * 2 < row.waited_ns
                && nothing > CROWD
                && nothing * 2 > row.waits
        };
        self.rows.iter().filter(is_crowd).max_by_key(|one| one.row.waited_ns)
    }

    /// Returns whether it is known that there was nothing to do for the crowd: threads have kept
    /// their mutex, or one of them has found something each time.
    #[must_use]
    pub fn is_crowd_sure(&self) -> bool {
        let is_one =
            |row: &WaitStats| (row.waits - row.for_nothing) * 2 > row.bursts && row.bursts > 0;
        self.crowd().is_some_and(|one| one.row.kept.is_some() || is_one(&one.row))
    }

    /// Returns the place where threads sleep for a moment, again and again, for most of the time.
    #[must_use]
    pub fn polls(&self) -> Option<&Finding> {
        let others = [Kind::Join, Kind::Child, Kind::Idle, Kind::Unknown];
        let is_work = |one: &&Finding| one.class == Class::Work && !others.contains(&one.kind);
        let work = self.rows.iter().filter(is_work);
        let all = self.report.time.total();
        // A thread may sleep as its program wants it to, while others wait.
        let rank = |one: &&Finding| {
            let waits = one.kind != Kind::Timer;
            (waits && share(one.row.waited_ns, all) > NOTICEABLE_BESIDE, one.row.waited_ns)
        };
        work.max_by_key(rank).filter(|one| {
            let row = &one.row;
            let is_short = row.waited_ns / row.waits.max(1) < SHORT_SLEEP_NS;
            is_short && row.waits >= MANY_SLEEPS && self.ends_by_time(one)
        })
    }

    /// Returns whether the time that a thread wants to sleep ends most of its sleeps. Looks do not
    /// tell of threads that do.
    fn ends_by_time(&self, one: &Finding) -> bool {
        let told = one.row.enders.iter().filter(|((thread, _), _)| *thread != 0);
        let told: u64 = told.map(|(_, (waits, _))| waits).sum();
        match one.kind {
            Kind::Timer => true,
            Kind::Condvar | Kind::Semaphore => {
                !self.sees_no_wakers(one) && told * 2 < one.row.waits
            }
            _ => false,
        }
    }

    /// Returns the place where threads sleep for a moment in a function in which they also spin.
    #[must_use]
    pub fn backs_off(&self) -> Option<&Finding> {
        let function = |place: &str| place.split(" (").next().unwrap_or_default().to_owned();
        let spins = |at: String| self.loops.iter().any(|one| function(&one.place) == at);
        self.polls().filter(|row| row.place != "?" && spins(function(&row.place)))
    }
}

/// Returns the cure for what holders did for most of the time.
fn cure_of(did: State) -> Cure {
    match did {
        State::Running => Cure::ShortenSection,
        State::Preempted => Cure::GiveProcessors,
        State::Throttled => Cure::RaiseQuota,
        State::Asleep(..) | State::Waiting(..) => Cure::DontSleepInside,
        State::Late => Cure::WakeSooner,
        State::Unknown => Cure::LookCloser,
    }
}
