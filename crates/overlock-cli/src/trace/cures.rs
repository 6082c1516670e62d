//! What to do about holders that sleep or have no processor, and about what is outside.

use super::worst::percent;
use crate::units;
use overlock_trace::analysis::State;
use overlock_trace::{Class, Finding, Findings, Kind, Step, share};

/// Says for whom threads wait at a place, what these do meanwhile, and for whom they wait.
pub(super) fn chain(one: &Finding) -> Option<String> {
    let (steps, waited) = (one.followed(), one.row.waited_ns);
    let (first, _) = steps.first().filter(|_| one.is_followed())?.first()?;
    let is_it = |by: &str, ns: u64| first.threads == 1 && by == first.thread && ns * 3 > waited * 2;
    let ender = one.ender().and_then(|(who, ns)| Some((who.rsplit_once(", ")?, ns)));
    let ender = ender.filter(|((_, by), ns)| is_it(by, *ns));
    let ender = ender.and_then(|((place, _), _)| place.split(" <- ").next());
    let mut said = "They wait".to_owned();
    for (number, did) in steps.iter().enumerate() {
        let is_last = number + 1 == steps.len();
        let Some((step, _)) = did.first() else { break };
        if step.thread.is_empty() && step.state == State::Unknown {
            return Some(said + ", and who ends that is not known.");
        }
        let who = match (number, ender, &*step.thread) {
            (0, Some(place), thread) => format!("{thread}, at {place}"),
            (_, _, "") => "a thread that is not known".to_owned(),
            (_, _, thread) if step.threads > 1 => {
                format!("one of {} threads, mostly {thread}", step.threads)
            }
            (_, _, thread) => thread.to_owned(),
        };
        let did = did.iter().map(|(step, ns)| match is_last {
            true => format!("{}, {}", does(step, is_last), percent(share(*ns, waited))),
            false => does(step, is_last),
        });
        said += &format!(" for {who}, which {}", did.collect::<Vec<_>>().join(", and "));
    }
    let known: u64 = steps.last()?.iter().map(|(_, ns)| ns).sum();
    let rest =
        if known * 5 < waited * 4 { "; the rest is not known, or in small parts" } else { "" };
    Some(format!("{said} of that time{rest}."))
}

/// Says what a thread does that others wait for.
fn does(step: &Step, is_last: bool) -> String {
    let Step { what, place, .. } = step;
    let at = if place.is_empty() { String::new() } else { format!(" at {place}") };
    match step.state {
        State::Running => format!("runs{at}"),
        State::Preempted if what.is_empty() => "has no processor".to_owned(),
        State::Preempted => format!("has no processor ({what})"),
        State::Throttled => "has no quota".to_owned(),
        State::Asleep(..) if what == "something else" => "sleeps, for what is not known".to_owned(),
        State::Asleep(..) if is_last => format!("sleeps{at} ({what})"),
        _ if step.is_circle => format!("waits{at} for these in turn"),
        State::Asleep(..) | State::Waiting(..) => format!("waits{at} ({what})"),
        State::Late => "comes late".to_owned(),
        State::Unknown => "does what is not known".to_owned(),
    }
}

/// Returns a line of `said.txt`, with these words in it.
pub(super) fn told(name: &str, words: &[(&str, &str)]) -> String {
    let lines = include_str!("said.txt").lines().filter_map(|line| line.split_once(" | "));
    let line = lines.filter(|(of, _)| *of == name).map(|(_, line)| line.to_owned()).next();
    let fill =
        |line: String, (word, what): &(&str, &str)| line.replace(&format!("{{{word}}}"), what);
    words.iter().fold(line.unwrap_or_default(), fill)
}

/// Says where those for whom threads wait at a place sleep, if they do so in one place.
pub(super) fn sleeps_at(one: Option<&Finding>) -> String {
    let did = one.and_then(|one| one.followed().into_iter().next()).unwrap_or_default();
    let is_sleep = |step: &Step| matches!(step.state, State::Asleep(..)) && !step.place.is_empty();
    match &did[..] {
        [(step, _)] if is_sleep(step) => format!(" at {}", step.place),
        _ => String::new(),
    }
}

/// Returns whether those for whom threads wait at a place sleep for a time in the end.
pub(super) fn ends_in_time(one: &Finding) -> bool {
    let last = one.followed().pop().and_then(|did| did.into_iter().next());
    last.is_some_and(|(step, _)| {
        matches!(step.state, State::Asleep(..)) && step.what == "sleep for a time"
    })
}

/// Says how to cure that a thread has no processor that others wait for, if these would get one.
pub(super) fn inversion(one: &Finding) -> Option<String> {
    let last = one.outranked()?;
    let thread = if last.threads == 1 { &last.thread } else { "A thread" };
    Some(told("inversion", &[("thread", thread), ("rank", &last.what)]))
}

/// The calls that take the lock of a file's inode, and those that take the lock of the memory map.
const OF_INODES: &str =
    "write writev pwrite64 pwritev pwritev2 fsync fdatasync ftruncate fallocate";
const OF_MEMORY: &str = "fault mmap munmap mremap mprotect madvise brk fork vfork clone";

/// Says how to wait less for what is outside of the program.
pub(super) fn unblock(what: &str, finding: Option<&Finding>) -> String {
    // The words are those of a call, and of what it waits for.
    let (call, thing) = match what.split_once(", ") {
        Some((call, thing)) => (call, format!("{thing} ({call})")),
        None => (what, format!("the {what}")),
    };
    let takes = |calls: &str| calls.split(' ').any(|one| call.ends_with(one));
    let name = match finding.map(|one| one.kind) {
        Some(Kind::KernelLock) if takes(OF_INODES) => "inode",
        Some(Kind::KernelLock) if takes(OF_MEMORY) || what.contains("memory map") => "memory",
        Some(Kind::KernelLock) => "kernel",
        Some(Kind::Disk) if what.contains("lock") => "disk-or-lock",
        Some(Kind::Disk) => "disk",
        Some(Kind::Stop) => "stop",
        Some(Kind::Fault) => "fault",
        _ if !sleeps_at(finding).is_empty() => "held",
        _ => "outside",
    };
    told(name, &[("thing", &thing), ("call", call), ("asleep", &sleeps_at(finding))])
}

/// Says how holders get a processor: fewer threads help only if those of the program have had the
/// processors.
pub(super) fn processors(found: &Findings, place: &str) -> String {
    let (threads, processors) = (found.report.threads, found.facts.processors);
    let fewer = match found.facts.quota {
        Some(cpus) if cpus < processors as f64 => format!(
            "{threads} threads share a quota of {} CPUs: start no more than it pays for",
            units::three(cpus)
        ),
        _ if !found.competes() => {
            let ran = found.report.time.of(State::Running) as f64;
            let ran = units::three(ran / found.report.elapsed_ns.max(1) as f64);
            format!(
                "Other programs took most of the time: this one ran on {ran} of {processors} processors"
            )
        }
        _ if processors == 1 => format!("{threads} threads share one processor: let them use more"),
        _ => format!("{threads} threads share {processors} processors: use no more than that"),
    };
    let holders = share(found.verdict.holder.of(State::Preempted), found.verdict.holder.total());
    if found.verdict.lock_share > 0.05 && holders > 0.2 {
        let worst = found.of(Class::Lock).into_iter().next();
        if let Some(cure) = worst.as_ref().and_then(inversion) {
            return cure;
        }
        // Another lock gives no processor to a holder that other programs keep from running.
        let compare = if found.competes() { try_compare(found) } else { "." };
        return format!(
            "The holders of {place} lose their processor inside the section. {fewer}{compare}"
        );
    }
    format!("{fewer}, or find out what else runs.")
}

/// Another lock can be tried where it can be preloaded, and stands for the C library's own; else by
/// a change of the program's source.
pub(super) fn try_compare(found: &Findings) -> &'static str {
    let replaced = [Kind::Mutex, Kind::RwLock, Kind::Writer, Kind::Retake];
    let worst = found.of(Class::Lock).into_iter().next();
    match worst.filter(|one| replaced.contains(&one.kind)) {
        Some(one) if !one.is_libcs => {
            "; try another lock in its source (in Rust: overlock::ThreadMutex, overlock-parking-lot)."
        }
        Some(_) if found.facts.can_preload => "; try: overlock compare -- PROGRAM",
        _ => ".",
    }
}
