//! What was found, and what to do about it, in a sentence or two.

use super::cures::{
    chain, ends_in_time, inversion, processors, sleeps_at, told, try_compare, unblock,
};
use super::worst::{NOTICED, Worst, percent, worst, worst_of};
use crate::units;
use overlock_trace::analysis::{State, WaitStats};
use overlock_trace::{Class, Cure, Finding, Findings, Kind, share};

/// Returns what costs the most time, where, and for whom threads wait there, in words.
pub(super) fn diagnosis(found: &Findings) -> String {
    // What a crowd waits for is known, if not whether it was there.
    let crowd = found.crowd().filter(|_| found.verdict.cure == Cure::LookCloser);
    use Cure::{
        DontSleepInside, GiveProcessors, LeaveRuntime, LetWritersPass, ShortenSection, UnlockFirst,
        WakeSooner,
    };
    let class = match found.verdict.cure {
        Cure::FindWork if !is_hidden(found) => Some(Class::Work),
        Cure::Unblock => Some(Class::Outside),
        GiveProcessors if found.verdict.lock_share < NOTICED => None,
        ShortenSection | DontSleepInside | WakeSooner => Some(Class::Lock),
        GiveProcessors | UnlockFirst | LeaveRuntime | LetWritersPass => Some(Class::Lock),
        _ => None,
    };
    let worst = class.and_then(|class| worst_of(found, class).finding);
    let finding = worst.or_else(|| crowd.cloned());
    let chain = finding.and_then(|one| chain(&one)).map(|chain| match found.verdict.cure {
        LetWritersPass => format!(" {}", chain.replacen("They wait", "These wait", 1)),
        _ => format!(" {chain}"),
    });
    cost(found) + &chain.unwrap_or_default()
}

fn cost(found: &Findings) -> String {
    let (verdict, time) = (&found.verdict, &found.report.time);
    if time.total() == 0 {
        return told("nothing-seen", &[]);
    }
    let of = |state| percent(share(time.of(state), time.total()));
    let (waited, holder) = (percent(verdict.lock_share), &verdict.holder);
    let (ran, without) = (of(State::Running), of(State::Preempted));
    let say = |name, at: &Worst, part: String, more: &str| {
        let at = [("place", &*at.place), ("what", &at.what), ("share", &at.share)];
        let own = [("ran", &*ran), ("without", &without), ("part", &part), ("more", more)];
        told(name, &[&at[..], &own, &[("waited", &waited)]].concat())
    };
    let held = |state| percent(share(holder.of(state), holder.total()));
    let lock = worst_of(found, Class::Lock);
    let state = match verdict.cure {
        Cure::NothingToDo if found.is_short() => {
            let ran = units::time(found.report.elapsed_ns as f64);
            return told("short", &[("time", &ran)]);
        }
        Cure::NothingToDo => {
            let is_hidden = found.facts.hides.is_some();
            let what = if is_hidden { "Threads" } else { "Not a lock problem: threads" };
            return say("busy", &lock, String::new(), what);
        }
        Cure::FindWork => return waits(found, &say),
        Cure::StopSpinning if found.backs_off().is_some() => {
            let samples = found.loops.iter().map(|one| one.samples).sum();
            let loops = worst(found, found.backs_off().cloned());
            return say("backs-off", &loops, percent(found.cpu_share(samples)), "");
        }
        Cure::StopSpinning => return say("spins", &lock, percent(verdict.spin_share), ""),
        Cure::Unblock => {
            let outside = worst_of(found, Class::Outside);
            let name = if outside.is(Kind::Stop) { "stopped" } else { "blocked" };
            return say(name, &outside, percent(verdict.outside_share), "");
        }
        Cure::StopPolling => {
            let polls = worst(found, found.polls().cloned());
            let row = polls.finding.as_ref().map(|one| &one.row);
            let each = row.map_or(0, |row| row.waited_ns / row.waits.max(1));
            return say("polls", &polls, units::time(each as f64), "");
        }
        Cure::WakeOne => {
            return format!("{} there was nothing to do for the one that woke.", crowd(found));
        }
        Cure::GiveProcessors if verdict.lock_share < NOTICED => {
            return say("lacks", &lock, String::new(), "");
        }
        Cure::RaiseQuota => {
            return say("spent", &lock, held(State::Throttled), &of(State::Throttled));
        }
        Cure::LetWritersPass => {
            let behind = found.rows.iter().map(|one| one.behind_readers_ns).sum();
            return say("behind", &lock, percent(share(behind, holder.total())), "");
        }
        Cure::LookCloser => match gap(found).0 {
            Some(said) => return said,
            None => State::Unknown,
        },
        Cure::GiveProcessors => State::Preempted,
        _ => found.blamed(holder),
    };
    say("locks", &lock, held(state), &during(found, state))
}

/// Says for what threads wait that have something to do only when others are done.
fn waits(found: &Findings, say: &dyn Fn(&'static str, &Worst, String, &str) -> String) -> String {
    let (work, part) = (worst_of(found, Class::Work), percent(found.verdict.work_share));
    let finding = work.finding.as_ref();
    if is_hidden(found) {
        return say("hidden", &work, part, found.facts.hides.unwrap_or_default());
    }
    let thing = match finding.map(|one| one.kind) {
        _ if finding.and_then(chain).is_some() => "each other",
        Some(Kind::Timer) => "some time to pass",
        Some(Kind::Socket | Kind::Pipe | Kind::OwnPipe | Kind::Poll) => "what others send",
        _ => "something to do",
    };
    let said = say("waits", &work, part, thing);
    let row = finding.map(|one| &one.row);
    let timed_out = row.filter(|row| times_out(row)).map(|row| {
        let part = percent(share(row.timed_out_ns, row.waited_ns));
        let words = [("part", &*part), ("longest", &units::time(row.longest_ns as f64))];
        told("timed-out", &words)
    });
    let pool = finding.filter(|one| is_pool(found, one)).map(|one| &one.row);
    let all = pool
        .and_then(|row| row.always_here(found.report.elapsed_ns))
        .map(|count| told("always-there", &[("count", &count.to_string())]));
    let more = timed_out.or(all).map(|more| format!(" {more}"));
    said + &more.unwrap_or_default()
}

/// Returns whether most of some waits were ended by nobody, but by their time.
fn times_out(row: &WaitStats) -> bool {
    row.timed_out_ns * 2 > row.waited_ns
}

/// Returns whether most threads are those of a runtime and have nothing to run, while what its own
/// threads wait for is not seen.
fn is_hidden(found: &Findings) -> bool {
    found.facts.hides.is_some() && worst_of(found, Class::Work).place.starts_with("runtime.")
}

/// Says where a crowd is woken, and how often that does little.
fn crowd(found: &Findings) -> String {
    let crowd = worst(found, found.crowd().cloned());
    let row = crowd.finding.as_ref().map(|one| &one.row);
    let count = |of: fn(&WaitStats) -> u64| units::count(row.map_or(0, of) as f64);
    let by = crowd.finding.as_ref().and_then(Finding::ender).map_or("", |(by, _)| by);
    let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
    format!(
        "All threads that wait at {} ({}) are woken at once{by}, and {} of {} times",
        crowd.place,
        crowd.what,
        count(|row| row.kept.unwrap_or(row.for_nothing)),
        count(|row| row.waits)
    )
}

fn during(found: &Findings, state: State) -> String {
    match state {
        State::Late if found.knows_free() => {
            "while the lock was free and the next holder late".into()
        }
        State::Late => {
            "while the next holder was late: the lock was free, or held by others".into()
        }
        State::Unknown => "for a holder that is not known".into(),
        state => format!("while the holder {}", state.did()),
    }
}

pub(super) fn advice(found: &Findings) -> String {
    let said = advised(found);
    let of_java = |class| worst_of(found, class).place.contains("libjvm");
    let is_java = match found.verdict.cure {
        Cure::FindWork => of_java(Class::Work),
        Cure::ShortenSection | Cure::DontSleepInside => of_java(Class::Lock),
        _ => false,
    };
    let java = told("java", &[]);
    let hides = found.facts.hides.map(|runtime| told("hides", &[("runtime", runtime)]));
    let more = match hides {
        Some(hides) if !said.contains(&hides) => hides,
        _ if is_java && !said.contains("jstack") => java,
        _ => String::new(),
    };
    [said, more].join(" ").trim().to_owned()
}

fn advised(found: &Findings) -> String {
    let lock = worst_of(found, Class::Lock);
    let place = ("place", lock.place.as_str());
    match found.verdict.cure {
        Cure::NothingToDo if found.is_short() => told("trace-longer", &[]),
        Cure::NothingToDo if found.facts.hides.is_none() => told("nothing-to-do", &[]),
        Cure::NothingToDo | Cure::FindWork => idle(found),
        Cure::ShortenSection => {
            told("shorten", &[place, ("taken", &taken(found))]) + &taken_again(&lock)
        }
        Cure::GiveProcessors => processors(found, &lock.place),
        Cure::RaiseQuota => {
            let quota = found.facts.quota.map(|cpus| format!(" ({} CPUs)", units::three(cpus)));
            let threads = found.report.threads.to_string();
            told("quota", &[("quota", &quota.unwrap_or_default()), ("threads", &threads)])
        }
        Cure::DontSleepInside => {
            let is_count = lock.is(Kind::Semaphore);
            let more = if is_count { ", or let more threads in at once" } else { "" };
            let asleep = sleeps_at(lock.finding.as_ref());
            told("sleep", &[place, ("more", more), ("asleep", &asleep)]) + &taken_again(&lock)
        }
        Cure::LetWritersPass => told("writers", &[place]),
        Cure::WakeSooner => told("late", &[place, ("compare", try_compare(found))]),
        Cure::WakeOne if found.crowd().is_some_and(|one| one.kind == Kind::Poll) => {
            told("crowd-poll", &[])
        }
        Cure::WakeOne => told("crowd", &[]),
        Cure::UnlockFirst => told("unlock", &[place]),
        Cure::TakeInOrder => told("circle", &[place]),
        Cure::ReleaseFirst => told("orphan", &[place]),
        Cure::LeaveRuntime => runtime(&lock),
        Cure::StopSpinning => {
            let place = found.loops.first().map_or("?", |one| &one.place);
            let starved: u64 = found.loops.iter().map(|one| one.while_others_starved).sum();
            let all: u64 = found.loops.iter().map(|one| one.samples).sum();
            told("spin", &[("place", place), ("part", &percent(share(starved, all)))])
        }
        Cure::Unblock => {
            let outside = worst_of(found, Class::Outside);
            unblock(&outside.what, outside.finding.as_ref())
        }
        Cure::StopPolling => told("poll", &[]),
        Cure::LookCloser => gap(found).1,
    }
}

/// Says at how many places one lock is taken, if these are many.
fn taken(found: &Findings) -> String {
    let locks = found.of(Class::Lock);
    let worst = locks.first().filter(|one| one.locks.len() == 1);
    let address = worst.and_then(|one| one.locks.first());
    let callers = locks.iter().filter(|one| address.is_some_and(|lock| one.locks.contains(lock)));
    match callers.count() {
        0..=2 => String::new(),
        count => format!("one lock is taken at {count} places here, and "),
    }
}

/// Says that one thread takes a lock again and again past those that it has woken, if that is so.
fn taken_again(lock: &Worst) -> String {
    let Some(one) = &lock.finding else { return String::new() };
    let again = one.taken_again_by().map(|thread| {
        let times = units::count(one.row.lost as f64);
        told("again", &[("thread", thread), ("times", &times)])
    });
    again.map(|said| format!(" {said}")).unwrap_or_default()
}

fn runtime(lock: &Worst) -> String {
    let sleeps = |one: &Finding| matches!(one.row.holder.largest(), State::Asleep(..));
    let name = match lock.finding.as_ref().map(|one| one.kind) {
        Some(Kind::Gil) if lock.finding.as_ref().is_some_and(sleeps) => "gil-asleep",
        Some(Kind::Gil) => "gil",
        Some(Kind::Gvl) => "gvl",
        Some(Kind::Monitor) => "monitor",
        Some(kind) if kind.is_streams() => "stream",
        Some(Kind::Loader) => "loader",
        Some(Kind::Libc) => "libc",
        _ => "runtime",
    };
    told(name, &[("place", &lock.place), ("what", &lock.what)])
}

fn idle(found: &Findings) -> String {
    if let Some(runtime) = found.facts.hides {
        return told("hides", &[("runtime", runtime)]);
    }
    let work = worst_of(found, Class::Work);
    let Some(one) = &work.finding else { return told("idle", &[]) };
    match inversion(one) {
        Some(cure) => cure,
        None if work.is(Kind::Barrier) => told("barrier", &[]),
        None if times_out(&one.row) => told("time-out", &[]),
        None if is_delayed(one) => told("delayed", &[]),
        None if is_pool(found, one) => told("pool", &[]),
        None if ends_in_time(one) => told("ends-in-time", &[]),
        None if chain(one).is_some() => told("follow", &[]),
        None if work.is(Kind::Poll) && found.sees_no_wakers(one) => told("idle-poll", &[]),
        None => told("idle", &[]),
    }
}

/// Returns whether threads wait at a place for parts of messages that TCP has put off.
fn is_delayed(one: &Finding) -> bool {
    one.kind == Kind::Socket && one.is_delayed()
}

/// Returns whether the same few threads do at a place all the time what they may do for others.
fn is_pool(found: &Findings, one: &Finding) -> bool {
    let outside = [Kind::Socket, Kind::Pipe, Kind::OwnPipe, Kind::Poll, Kind::Call, Kind::Timer];
    outside.contains(&one.kind)
        && !is_delayed(one)
        && one.row.always_here(found.report.elapsed_ns).is_some()
}

/// Says why too little was seen, if that is not that holders are unknown, and how to see more: the
/// first reason that explains the others.
fn gap(found: &Findings) -> (Option<String>, String) {
    let Findings { facts, verdict, report, .. } = found;
    let waited = format!("{} was spent waiting for locks.", percent(verdict.lock_share));
    let is_little = verdict.lock_share < NOTICED;
    if facts.is_secret {
        let said = "Nothing is known of this program's waits: this user may not see in which calls its \
                    threads sleep.";
        return (Some(said.into()), told("see-secret", &[]));
    }
    let unseen = share(report.time.of(State::Unknown), report.time.total());
    if unseen > 0.5 {
        let part = percent(unseen);
        let all = "of their time: they slept, or ran, all the while.";
        return (
            Some(format!("Nothing was seen of threads for {part} {all}")),
            told("see-longer", &[]),
        );
    }
    if found.crowd().is_some() {
        let did = "the one that woke did next to nothing before it waited again";
        return (Some(format!("{} {did}. {waited}", crowd(found))), told("see-crowd", &[]));
    }
    if let Some(one) = found.open().filter(|one| is_little && one.kind == Kind::PyLock) {
        let of_kind = found.rows.iter().filter(|row| row.kind == one.kind);
        let all = share(of_kind.map(|row| row.row.waited_ns).sum(), report.time.total());
        let (all, waited) = (percent(all), percent(verdict.lock_share));
        let words = [("part", &*all), ("place", &one.path()), ("waited", &waited)];
        return (Some(told("python", &words)), told("see-python", &[]));
    }
    if let Some(one) = found.open().filter(|_| is_little) {
        let (unseen, advice) = match one.kind {
            Kind::Park => ("the code that parks", "see-parks"),
            _ => ("who ends that", "see-wakers"),
        };
        let Worst { share, place, what, .. } = worst(found, Some(one.clone()));
        let said = format!(
            "For {share} of all thread time, threads waited at {place} ({what}) for what may be a \
             lock, or work: {unseen} is not seen. {waited}"
        );
        return (Some(said), told(advice, &[]));
    }
    let unknown = Finding::together(found.rows.iter().filter(|one| one.kind == Kind::Unknown));
    let part = worst(found, unknown.into_iter().next()).share;
    let unknown = format!("What threads slept for is not known for {part} of all thread time;");
    let said = is_little.then(|| format!("{unknown} {waited}"));
    let (locks, is_looked) = (found.of(Class::Lock), |one: &Finding| one.row.looked.is_some());
    let missed = locks.first().is_some_and(is_looked);
    // Looks know who holds a mutex of the C library, and only its locks can be preloaded.
    let is_of_libc = locks.first().is_none_or(|one| one.kind != Kind::Mutex);
    let advice = match (missed, facts.is_by_looks) {
        (true, _) => "see-holders",
        (_, true) if facts.can_preload && is_of_libc => "see-more",
        (_, true) => "see-root",
        _ if found.rows.iter().any(is_looked) => "see-calls",
        _ => "see-names",
    };
    (said, told(advice, &[]))
}
