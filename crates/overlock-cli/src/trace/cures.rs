//! What to do about holders that sleep or have no processor, and about what is outside.

use crate::units;
use overlock_trace::analysis::State;
use overlock_trace::{Class, Finding, Findings, Kind, share};

/// Says what the holders of a lock slept in, and who released it.
pub(super) fn inside(lock: &Finding) -> String {
    let what = lock.slept_in.first().map(|(what, _)| what.clone());
    let said: Vec<String> = what.into_iter().chain(released(lock)).collect();
    if said.is_empty() { String::new() } else { format!(" ({})", said.join("; ")) }
}

/// Says which thread ended most of the time of a lock's waits, and where: it had the lock.
pub(super) fn released(lock: &Finding) -> Option<String> {
    let by = lock.enders.first().filter(|(by, _)| by != "the kernel");
    by.map(|(by, _)| format!("released by {by}"))
}

/// Says how to wait less for what is outside of the program.
pub(super) fn unblock(what: &str, finding: Option<&Finding>) -> String {
    // The words are those of a call, and of what it waits for.
    let thing = match what.split_once(", ") {
        Some((call, thing)) => format!("{thing} ({call})"),
        None => format!("the {what}"),
    };
    let Some(one) = finding else { return format!("Wait less for {thing}.") };
    let by = one.enders.first().filter(|(who, _)| who != "the kernel");
    let by = |does: &str| by.map(|(who, _)| format!("; {who} {does}")).unwrap_or_default();
    match one.kind {
        Kind::KernelLock => kernel_lock(what, &thing, &by("ends most of these waits")),
        Kind::Disk => {
            let split = match what.contains("lock") {
                true => "; if it is the lock, use a file for each thread",
                false => "",
            };
            format!(
                "Wait less often for {thing}: write more at a time, or let a thread wait for it \
                 that no other one waits for{split}."
            )
        }
        Kind::Pipe | Kind::OwnPipe | Kind::Eventfd => format!(
            "The threads that wait for {thing} there end each other's waits, as with a lock: hold on \
             to what they hand on for shorter times, or hand on more of it."
        ),
        Kind::Stop => format!(
            "They wait there in a signal's handler, or in their runtime{}: stop them less often (a \
             collector of garbage: for fewer collections), or for shorter times.",
            by("lets them go on")
        ),
        Kind::Fault => format!(
            "Memory has to be read from a disk first ({thing}): read it before it is needed, or \
             keep more of it in memory."
        ),
        _ => format!(
            "Hold {thing} for shorter times, take it less often, or do without it{}.",
            by("ends most of these waits")
        ),
    }
}

/// The calls that take the lock of a file's inode, and those that take the lock of the memory map.
const OF_INODES: &str =
    "write writev pwrite64 pwritev pwritev2 fsync fdatasync ftruncate fallocate";
const OF_MEMORY: &str = "mmap munmap mremap mprotect madvise brk fork vfork clone";

/// Says how to wait less for a lock of the kernel, by the call that takes it.
fn kernel_lock(what: &str, thing: &str, by: &str) -> String {
    let call = what.split_once(", ").map_or(what, |(call, _)| call);
    let is_of = |calls: &str| calls.split(' ').any(|one| one == call);
    if is_of(OF_INODES) {
        return format!(
            "The kernel takes the lock of the file's inode there ({call}): use several files, or \
             extend the file (ftruncate) before it is written{by}."
        );
    }
    if is_of(OF_MEMORY) || call == "page fault" || what.contains("memory map") {
        return format!(
            "The kernel takes the lock of the memory map there ({call}): map and unmap less often, \
             for more at a time, or in processes that do not share it, and start programs by \
             posix_spawn instead of fork, which has the lock while it copies{by}."
        );
    }
    format!("The kernel takes {thing} there: do that less often, or for more at a time{by}.")
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
        let by = worst.as_ref().and_then(released);
        let by = by.map(|by| format!(" ({by})")).unwrap_or_default();
        // Another lock gives no processor to a holder that other programs keep from running.
        let compare = if found.competes() { try_compare(found) } else { "." };
        return format!(
            "The holders of {place} lose their processor inside the section{by}. {fewer}{compare}"
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
