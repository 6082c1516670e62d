//! What is said of a trace that was written by hand.

use std::collections::{BTreeMap, BTreeSet};

use overlock_trace::analysis::What::{
    Born, Exit, In, Out, Sample, Wait, WaitEnd, Wake, WakeEnd, Woken,
};
use overlock_trace::analysis::{Analysis, Limits, Reason, Site, State, TraceEvent, Wakes, What};
use overlock_trace::{Class, Cure, Facts, Finding, Findings, Kind, Loop, Step};

use super::cures::told;
use super::diagnosis::{advice, diagnosis};
use super::show::text;

fn kept(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tables");
    std::fs::read_to_string(format!("{folder}/{name}.txt")).unwrap()
}

const A: u32 = 1;
const B: u32 = 2;
const LOCK: u64 = 0x1000;

/// Analyses events, each at a microsecond, as a tracer does that knows the names of two places.
fn found(events: &[(u64, u32, What)]) -> Findings {
    let mut analysis = Analysis::new(Limits::default());
    for &(at_us, thread, what) in events {
        analysis.event(TraceEvent { at_ns: at_us * 1000, thread, what });
    }
    let report = analysis.report(0);
    let rows = report.rows.iter().map(|row| {
        let is_wait = row.key.reason.is_none();
        let what = if is_wait { "mutex" } else { "fsync, a disk" };
        Finding {
            kind: if is_wait { Kind::Mutex } else { Kind::Disk },
            class: if is_wait { Class::Lock } else { Class::Outside },
            what: what.into(),
            is_libcs: true,
            place: if is_wait { "take (queue.c:12)" } else { "log (log.c:3)" }.into(),
            callers: vec!["push".into(), "serve".into()],
            process: 1,
            processes: 1,
            locks: if is_wait { BTreeSet::from([LOCK]) } else { BTreeSet::new() },
            row: row.clone(),
            chains: chains(row.waited_ns, row.holder.of(State::asleep())),
            enders: BTreeMap::from([("log (log.c:5), writer (1)".into(), row.waited_ns)]),
            longest_thread: "server (2)".into(),
            behind_readers_ns: 0,
            is_orphan: false,
        }
    });
    let loops = report.spins.iter().map(|spin| Loop {
        place: "poll (ring.c:7)".into(),
        process: 1,
        samples: spin.samples,
        while_others_starved: spin.while_others_starved,
    });
    let (rows, loops) = (rows.collect(), loops.collect());
    let facts = Facts { can_preload: true, processors: 2, ..Facts::default() };
    Findings::judged(report, rows, loops, facts)
}

/// A thread that others waited for slept for a part of the time, and else ran.
fn chains(all: u64, slept: u64) -> BTreeMap<Vec<Step>, u64> {
    let step = |state, what: &str, place: &str| Step {
        thread: "writer (1)".into(),
        threads: 1,
        state,
        is_circle: false,
        what: what.into(),
        place: place.into(),
    };
    let asleep = step(State::asleep(), "fsync, a disk", "sync (log.c:4)");
    let runs = step(State::Running, "", "format (log.c:9)");
    [(vec![asleep], slept), (vec![runs], all - slept)].into_iter().collect()
}

const BORN: [(u64, u32, What); 2] =
    [(0, A, Born { process: 1, runs: true }), (0, B, Born { process: 1, runs: true })];

/// B waits for the lock of A until this time.
fn waits_until(at_us: u64) -> [(u64, u32, What); 7] {
    [
        (10, B, Wait { lock: LOCK, site: Site(1), is_lock: true }),
        (10, B, Out(State::asleep())),
        (at_us, A, Wake { lock: LOCK, how: Wakes::default() }),
        (at_us, B, Woken { by: A, site: Site(0) }),
        (at_us, A, WakeEnd),
        (at_us + 5, B, In),
        (at_us + 5, B, WaitEnd),
    ]
}

/// A holds the lock and runs, sleeps, loses its processor, and runs; B waits, and comes late.
#[test]
fn a_wait_is_told_by_what_its_holder_did() {
    let holds = [
        (30, A, Out(State::Asleep(Reason(1), Site(0)))),
        (70, A, Woken { by: 9, site: Site(0) }),
        (70, A, In),
        (75, A, Out(State::Preempted)),
        (78, A, In),
    ];
    let wait = waits_until(80);
    let ends = [
        (99, B, Wake { lock: LOCK, how: Wakes::default() }),
        (99, B, WakeEnd),
        (99, A, Exit),
        (99, B, Exit),
    ];
    let text = text(&found(&[&BORN[..], &wait[..2], &holds, &wait[2..], &ends].concat()), 10);
    assert_eq!(text, kept("trace-wait").trim_end(), "{text}");
}

#[test]
fn a_loop_is_told_by_whom_it_kept_waiting() {
    let samples = (1..=40).map(|ms| (ms * 1000, A, Sample { site: Site(2), spins: true }));
    let starts = [(500, B, Out(State::Preempted))];
    let events: Vec<_> =
        BORN.into_iter().chain(starts).chain(samples).chain([(41_000, A, Exit)]).collect();
    let text = text(&found(&events), 10);
    assert_eq!(text, kept("trace-loop").trim_end(), "{text}");
}

/// Nine threads share one processor, of which loops that wait have all: that comes first.
#[test]
fn loops_have_the_processors_that_others_lack() {
    let born = (1..10).map(|thread| (0, thread, Born { process: 1, runs: true }));
    let starve = (2..10).map(|thread| (500, thread, Out(State::Preempted)));
    let samples = (1..=40).map(|ms| (ms * 1000, A, Sample { site: Site(2), spins: ms > 3 }));
    let events: Vec<_> = born.chain(starve).chain(samples).chain([(41_000, A, Exit)]).collect();
    let Findings { report, rows, mut loops, facts, .. } = found(&events);
    let facts = Facts { processors: 1, ..facts };
    let cure =
        |loops| Findings::judged(report.clone(), rows.clone(), loops, facts.clone()).verdict.cure;
    assert_eq!(cure(loops.clone()), Cure::StopSpinning);
    loops[0].samples = 1;
    loops[0].while_others_starved = 1;
    assert_eq!(cure(loops), Cure::GiveProcessors);
}

/// The processes of a server do the same.
#[test]
fn processes_that_wait_at_one_place_are_one_row() {
    let ends = [(99, A, Exit), (99, B, Exit)];
    let mut found = found(&[&BORN[..], &waits_until(80), &ends].concat());
    let other = Finding { process: 2, ..found.rows[0].clone() };
    found.rows.push(other);
    let text = text(&found, 10);
    let rows: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("  take (queue.c:12) <- push <- serve "))
        .collect();
    assert!(rows[1].contains("mutex 0x1000, 2 processes") && rows[0].contains("2.00"), "{text}");
    assert_eq!(rows.iter().filter(|row| row.contains("mutex")).count(), 2, "{text}");
}

/// What is said and what is advised are of one reason: the first that explains the others.
#[test]
fn a_gap_is_explained_by_one_reason() {
    let mut found = found(&[&BORN[..], &[(50, A, Exit), (50, B, Exit)]].concat());
    found.verdict.cure = Cure::LookCloser;
    let mut gaps = |said: &str, advised: &str, add: fn(&mut Findings)| {
        add(&mut found);
        let (diagnosis, advice) = (diagnosis(&found), advice(&found));
        assert!(diagnosis.contains(said) && advice.contains(advised), "{diagnosis} {advice}");
    };
    gaps("What threads slept for is not known", "debug information", |_| ());
    gaps("What threads slept for is not known", "--source preload", |found| {
        found.facts.is_by_looks = true;
    });
    gaps("Nothing was seen of threads", "first seen", |found| {
        found.report.time.add(State::Unknown, 1 << 40);
    });
    gaps("may not see", "as root, or as", |found| found.facts.is_secret = true);
}

/// The largest part of the time is what is said first, and what a quota leaves is what is shared.
#[test]
fn what_is_advised_is_of_the_largest_part_and_of_what_there_is() {
    let python = |at_us: u64, idle_us: u64| {
        let idle = Out(State::Asleep(Reason(1), Site(0)));
        let ends = [(at_us + 5, B, idle), (idle_us, A, idle), (1000, A, Exit), (1000, B, Exit)];
        let Findings { report, mut rows, loops, facts, .. } =
            found(&[&BORN[..], &waits_until(at_us), &ends].concat());
        rows.iter_mut().filter(|one| one.class == Class::Lock).for_each(|one| one.kind = Kind::Gil);
        Findings::judged(report, rows, loops, facts)
    };
    assert_eq!(python(600, 610).verdict.cure, Cure::LeaveRuntime);
    assert_eq!(python(70, 80).verdict.cure, Cure::LeaveRuntime, "it waits for as long as it runs");
    let mut found = python(70, 210);
    assert_eq!(found.verdict.cure, Cure::NothingToDo);
    found.verdict.cure = Cure::GiveProcessors;
    for (quota, said) in
        [(None, "2 processors"), (Some(0.5), "0.500 CPUs"), (Some(4.0), "2 processors")]
    {
        found.facts.quota = quota;
        assert!(advice(&found).contains(said), "{}", advice(&found));
    }
}

/// Threads wait for a lock of Python, for most of the time, at a place with or without its line.
#[test]
fn pythons_locks_without_their_names_are_not_taken_for_work() {
    let idle = Out(State::Asleep(Reason(1), Site(0)));
    let ends = [(900, A, Exit), (900, B, Exit)];
    let wait = waits_until(800);
    let events = [&BORN[..], &wait[..2], &[(20, A, idle), (790, A, In)], &wait[2..], &ends];
    let said = |place: &str| {
        let Findings { report, mut rows, loops, facts, .. } = found(&events.concat());
        rows.retain(|one| one.class == Class::Lock);
        let python = Finding { kind: Kind::PyLock, class: Class::Work, ..rows.remove(0) };
        let rows = vec![Finding { place: place.into(), ..python }];
        let found = Findings::judged(report, rows, loops, facts);
        (found.verdict.cure, diagnosis(&found), advice(&found))
    };
    let (cure, first, second) = said("PyObject_Vectorcall (python3.11)");
    assert_eq!(cure, Cure::LookCloser);
    assert!(first.contains("whether as locks, or for work, is not known"), "{first}");
    assert!(second.contains("debug information") && second.contains("py-spy"), "{second}");
    assert_eq!(said("queue_get (_queuemodule.c:7)").0, Cure::FindWork);
}

/// What is not known is the same part in the diagnosis and below it, and what sees more is told.
#[test]
fn what_is_not_known_is_unseen_and_what_sees_it_is_told() {
    let sleeps = [(10, B, Out(State::Asleep(Reason(1), Site(0)))), (90, B, In)];
    let ends = [(100, A, Exit), (100, B, Exit)];
    let mut found = found(&[&BORN[..], &sleeps, &ends].concat());
    found.rows[0].what = "pwrite64, a disk, or a lock of its file".into();
    found.verdict.cure = Cure::Unblock;
    assert!(advice(&found).contains("use a file for each thread"), "{}", advice(&found));
    let Findings { report, mut rows, loops, facts, .. } = found;
    (rows[0].kind, rows[0].class) = (Kind::Unknown, Class::Work);
    rows[0].row.looked = Some((1, 1));
    let mut found = Findings::judged(report, rows, loops, facts);
    found.verdict.cure = Cure::LookCloser;
    let text = text(&found, 10);
    assert!(text.contains("0 % otherwise; 40 % unseen"), "{text}");
    assert!(diagnosis(&found).contains("40 %") && advice(&found).contains("socket"), "{text}");
    // Looks know who holds the C library's mutexes, so that this is another's.
    found.rows[0].row.looked = None;
    (found.facts.is_by_looks, found.rows[0].kind) = (true, Kind::Mutex);
    found.rows[0].class = Class::Lock;
    assert!(!advice(&found).contains("--source preload"), "{}", advice(&found));
    found.rows[0].row.looked = Some((1, 1));
    assert!(!advice(&found).contains("--source looks"), "{}", advice(&found));
}

/// The advice names the thread and the place that had a lock, and says no more threads are too many
/// where other programs had the processors.
#[test]
fn holders_are_named_and_blamed_for_what_they_did() {
    let mut found = found(&[&BORN[..], &waits_until(80), &[(99, A, Exit), (99, B, Exit)]].concat());
    found.verdict.cure = Cure::GiveProcessors;
    found.facts.processors = 8;
    found.verdict.holder.add(State::Preempted, 1 << 40);
    assert!(advice(&found).contains("section. Other"), "{}", advice(&found));
    let who = "They wait for writer (1), at log (log.c:5), which runs at format (log.c:9)";
    assert!(diagnosis(&found).contains(who), "{}", diagnosis(&found));
    assert!(!advice(&found).contains("compare"), "{}", advice(&found));
    found.report.time.add(State::Running, 1 << 40);
    let own = advice(&found);
    assert!(own.contains("use no more than that; try: overlock compare"), "{own}");
    found.rows[0].is_libcs = false;
    assert!(advice(&found).contains("overlock::ThreadMutex"), "no other can be preloaded");
}

/// What a thread sleeps for outside while others wait for its lock is the lock's matter.
#[test]
fn a_sleep_outside_under_a_lock_counts_for_the_lock() {
    let asleep = (10, A, Out(State::Asleep(Reason(1), Site(0))));
    let wait = waits_until(80);
    let ends = [(100, A, Exit), (100, B, Exit)];
    let events = [&BORN[..], &[asleep], &wait[..2], &[(79, A, In)], &wait[2..], &ends].concat();
    let events: Vec<_> = events.into_iter().map(|(ms, id, what)| (ms * 1000, id, what)).collect();
    let mut found = found(&events);
    let outside = found.rows.iter_mut().find(|one| one.class == Class::Outside).unwrap();
    (outside.place, outside.callers) = ("sync (log.c:4)".into(), Vec::new());
    outside.row.waited_ns *= 2;
    let Findings { report, rows, loops, facts, .. } = found.clone();
    let judged = Findings::judged(report, rows, loops, facts).verdict;
    assert_eq!(judged.cure, Cure::DontSleepInside, "{judged:?}");
    found.verdict = judged;
    let said = advice(&found);
    assert!(said.contains("sleep inside the section at sync (log.c:4): move"), "{said}");
    let mut file = found.clone();
    file.rows.retain(|one| one.class == Class::Lock);
    (file.rows[0].class, file.rows[0].kind) = (Class::Outside, Kind::FileLock);
    (file.rows[0].what, file.verdict.cure) = ("flock, a file lock".into(), Cure::Unblock);
    let said = advice(&file);
    let holder = "The holder of a file lock (flock) sleeps at sync (log.c:4): release it";
    assert!(said.contains(holder), "{said}");
    found.rows.iter_mut().for_each(|one| one.chains.clear());
    let Findings { report, rows, loops, facts, .. } = found;
    assert_eq!(Findings::judged(report, rows, loops, facts).verdict.cure, Cure::Unblock);
}

/// Beside what holders do: that one of them never lets others in, and what a runtime allows.
#[test]
fn advice_is_for_who_takes_a_lock_and_for_the_runtime_that_has_it() {
    let mut found = found(&[&BORN[..], &waits_until(80), &[(99, A, Exit), (99, B, Exit)]].concat());
    found.verdict.cure = Cure::ShortenSection;
    let again = "writer (1) takes the lock again before the threads that it has woken get it, 3.00";
    assert!(!advice(&found).contains(again));
    found.rows[0].row.lost = 3;
    assert!(advice(&found).contains(again), "{}", advice(&found));
    found.rows[0].enders.insert("fetch (db.c:2), other (3)".into(), 1 << 40);
    assert!(!advice(&found).contains("writer (1) takes the lock"), "{}", advice(&found));
    found.rows[0].enders.insert("fetch (db.c:2), third (4)".into(), 1 << 40);
    assert!(!advice(&found).contains("takes the lock again"), "{}", advice(&found));
    found.rows[0].place = "JVM_Sleep (libjvm.so)".into();
    assert!(advice(&found).ends_with("jstack PID names the Java functions."));
    found.verdict.cure = Cure::LeaveRuntime;
    found.rows[0].kind = Kind::Gil;
    assert!(advice(&found).contains("no lock can be exchanged"), "{}", advice(&found));
    found.rows[0].row.holder.add(State::asleep(), 1 << 40);
    assert!(advice(&found).contains("Py_BEGIN_ALLOW_THREADS"), "{}", advice(&found));
    found.rows[0].class = Class::Work;
    found.verdict.cure = Cure::FindWork;
    found.rows[0].place = "runtime.notesleep (lock_futex.go:47)".into();
    assert!(diagnosis(&found).contains("They wait for writer (1)"), "{}", diagnosis(&found));
    found.facts.hides = Some("Go");
    assert!(diagnosis(&found).starts_with("Go's threads have nothing to run"));
    assert!(!diagnosis(&found).contains("They wait"), "{}", diagnosis(&found));
}

/// A lock of the kernel is cured by what the call locks: a file, or the memory of the process.
#[test]
fn a_lock_of_the_kernel_is_told_by_its_call() {
    let mut found = found(&[&BORN[..], &waits_until(80), &[(99, A, Exit), (99, B, Exit)]].concat());
    found.verdict.cure = Cure::Unblock;
    found.rows[0].class = Class::Outside;
    found.rows[0].kind = Kind::KernelLock;
    for (what, said) in [
        ("pwrite64, a kernel lock", "file's inode there (pwrite64): use several files"),
        (
            "page fault, a kernel lock",
            "processes that do not share it, and start programs by posix",
        ),
        ("munmap, the lock of the memory map", "memory map there (munmap)"),
        ("unlink, a kernel lock", "a kernel lock (unlink) there: do that less often"),
    ] {
        found.rows[0].what = what.into();
        assert!(advice(&found).contains(said), "{}", advice(&found));
    }
}

/// Each advice that is asked for is there, and each one that is there is asked for.
#[test]
fn advice_is_kept_by_its_name() {
    let code = [include_str!("cures.rs"), include_str!("diagnosis.rs")].concat();
    for (name, _) in include_str!("said.txt").lines().filter_map(|line| line.split_once(" | ")) {
        assert!(code.contains(&format!("\"{name}\"")), "{name}");
    }
    let asked = code.split("told(\"").skip(1).filter_map(|rest| rest.split('"').next());
    asked.for_each(|name| assert!(!told(name, &[]).is_empty(), "{name}"));
}
