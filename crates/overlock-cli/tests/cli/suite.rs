//! A table of programs that know what was so, and what a trace says of them by each source.
//!
//! Each prints for how long its threads waited, or what a lock's holder did meanwhile, by its own
//! clocks. A part of the whole is right to within 10 points, and a stall to within 5 %.

use crate::support::{Said, said_until, skip};
use crate::truth::{Both, STARVED, can_look, can_trace, compiled, in_function, program, run, turn};
use serde_json::Value;
use std::process::Command;

const ALL: &[&str] = &["tracepoints", "preload", "looks"];
const EXACT: &[&str] = &["tracepoints", "preload"];
const TRACED: &[&str] = &["tracepoints"];

/// A program of `waits.c`, the function in which it waits, the type of the record of that, and the
/// sources that know it.
type Wait = (&'static str, &'static str, &'static str, &'static [&'static str]);

const WAITS: &[Wait] = &[
    ("mutex", "at_mutex", "mutex", ALL),
    ("timed", "at_timed", "mutex", ALL),
    ("heir", "at_heir", "mutex", ALL),
    ("stdout", "at_stdout", "stdout's lock", ALL),
    ("wrapper", "at_wrapper", "mutex", ALL),
    ("reader", "at_reader", "rwlock", ALL),
    ("writer", "at_writer", "rwlock-write", ALL),
    ("condition", "at_condition", "condvar", ALL),
    ("semaphore", "at_semaphore", "semaphore", &["preload"]),
    // The C library has lost the names of its functions there.
    ("semaphore", "at_semaphore", "futex", &["tracepoints", "looks"]),
    ("barrier", "at_barrier", "barrier", ALL),
    ("join", "at_join", "join", ALL),
    ("futex", "at_futex", "futex", ALL),
    ("pipe", "at_read", "pipe", ALL),
    ("eventfd", "at_read", "eventfd", ALL),
    ("socket", "at_receive", "socket", ALL),
    ("poll", "at_poll", "poll", ALL),
    ("select", "at_select", "poll", ALL),
    ("epoll", "at_epoll", "poll", ALL),
    ("flock", "at_flock", "file lock", ALL),
    ("fcntl", "at_fcntl", "file lock", ALL),
    ("semop", "at_semop", "SysV semaphore", ALL),
    ("message", "at_message", "signal", ALL),
    ("signal", "at_signal", "signal", ALL),
    ("child", "at_child", "child process", ALL),
    ("sleep", "at_sleep", "timer", ALL),
];

/// A program of `waits.c` whose thread keeps its processor, the function, whether it waits there,
/// and the sources that know it.
const LOOPS: &[(&str, &str, bool, &[&str])] = &[
    ("pause", "at_pause", true, ALL),
    ("looks", "at_looks", true, ALL),
    ("branch", "at_branch", true, ALL),
    ("frame", "at_frame", true, ALL),
    ("backoff", "at_backoff", true, ALL),
    // It is mostly in the kernel, where looks take no samples.
    ("yield", "at_yield", true, EXACT),
    ("count", "at_count", false, ALL),
];

/// A program in which a holder does one thing on purpose while a thread waits for its mutex, what
/// it sleeps in, if it does, and the sources that know what it did.
const HELD: &[(&str, &str, &[&str])] = &[
    ("long", "", &["tracepoints", "preload", "looks", "preload-accounts"]),
    ("preempted", "", &["tracepoints", "preload", "looks", "preload-accounts"]),
    ("asleep", "sleep for a time", &["tracepoints", "preload", "looks", "coarse-looks", "ours"]),
    ("asleep", "", &["preload-accounts"]),
    ("reads", "read, a pipe", &["tracepoints", "looks"]),
    ("reads", "read", &["preload"]),
    ("mixture", "sleep for a time", &["tracepoints", "preload", "looks", "ours"]),
    ("mixture", "", &["preload-accounts"]),
    ("late", "", EXACT),
    ("chain", "takes_inner (chain.c", &["tracepoints", "preload", "looks", "ours"]),
    ("chain", "", &["preload-accounts"]),
    ("faults", "page fault of a file", &["tracepoints"]),
    // A fault that had to wait is told by its count.
    ("faults", "page fault", &["preload"]),
];

/// Programs of languages with a lock of their own, the type of its record, the sources, and the
/// function that waits, where it can be known.
const RUNTIMES: &[(&[&str], &str, &[&str], &str)] = &[
    (&["python3", "gil.py"], "Python's GIL", ALL, "computes (gil.py:"),
    (&["ruby", "gvl.rb"], "Ruby's GVL", ALL, ""),
    (&["java", "Monitor.java"], "Java monitor", ALL, ""),
];
/// The versions of Python whose memory is known.
const PYTHONS: [&str; 4] = ["Python 3.11.", "Python 3.12.", "Python 3.13.", "Python 3.14."];

/// How `hangs.c` can hang, and the cure.
const HANGS: &[(&str, &str)] = &[("timed", "take-in-order"), ("forked", "release-first")];

/// A program of `crowds.c`, sources, the cure that they tell, one that is wrong, and what the first
/// line names in this order.
type Crowd = (&'static str, Names, &'static str, &'static str, Names);
type Names = &'static [&'static str];

const CROWDS: &[Crowd] = &[
    ("tokens", TRACED, "", "unblock", &["at_token", "sleeps at nap", "jobs"]),
    ("tokens", &["preload", "looks"], "look-closer", "find-work", &[]),
    ("work", &["tracepoints"], "find-work", "unblock", &[]),
    ("stops", ALL, "unblock", "nothing-to-do", &[]),
    ("semaphore", ALL, "unblock", "nothing-to-do", &[]),
    // What is left is how busy the machine is.
    ("commits", EXACT, "", "wake-one", &[]),
    ("writer", EXACT, "", "wake-one", &[]),
    ("herd", &["preload"], "wake-one", "", &[]),
    ("herd", &["tracepoints"], "look-closer", "wake-one", &[]),
    ("pool", &["looks"], "", "stop-polling", &[]),
    ("pool", EXACT, "", "wake-one", &[]),
    ("epoll", &["tracepoints"], "wake-one", "", &[]),
    ("waitv", &["tracepoints"], "", "look-closer", &[]),
    ("waitv", &["preload", "looks"], "look-closer", "find-work", &[]),
    ("pinned", EXACT, "give-processors", "nothing-to-do", &[]),
    // They wait for one that waits itself, or has no processor.
    ("flushes", TRACED, "", "stop-polling", &["at_room", "flusher (", "cleaner (", "deletes"]),
    ("connects", TRACED, "", "stop-polling", &["at_connect", "sender (", "network (", "answers"]),
    ("connects", &["preload"], "", "stop-polling", &["at_connect", "sender ("]),
    ("cycle", EXACT, "give-processors", "", &["at_cycle", "nice one (", "nice 19, while"]),
    ("pipeline", TRACED, "", "nothing-to-do", &["at_work", "stage (", "at_count", "deriver ("]),
    ("line", TRACED, "unblock", "", &["a file lock", "which sleeps at nap", "parses"]),
];

/// A program of Go whose goroutines contend for a mutex, or do nothing.
const GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/trace/goroutines.go");

/// Programs that have no lock problem.
const NULLS: &[&[&str]] = &[
    &["true"],
    &["sleep", "0.3"],
    &["sort", "--parallel=2", "/etc/passwd"],
    &["sh", "-c", "for i in 1 2 3; do /bin/true; done"],
    &["node", "-e", "setTimeout(() => {}, 300)"],
];

/// Calls `each` with each source that can be used here.
fn by_each(sources: &[&str], mut each: impl FnMut(&str)) {
    let can = |source: &&&str| if **source == "tracepoints" { can_trace() } else { can_look() };
    sources.iter().filter(can).for_each(|source| each(source));
}

/// Returns the records of a type that are of a function, or of one that it calls.
fn waits_in(said: &Said, function: &str, kind: &str) -> Vec<Value> {
    let records = ["trace-lock", "trace-work", "trace-outside"].map(|kind| said.records(kind));
    let is_of = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        name == function || name.starts_with(&format!("{function} ("))
    };
    let is_it = |one: &Value| {
        let mut callers = one["callers"].as_array().into_iter().flatten();
        one["type"] == kind && (function.is_empty() || is_of(&one["where"]) || callers.any(is_of))
    };
    records.concat().into_iter().filter(is_it).collect()
}

fn sum(records: &[Value], of: impl Fn(&Value) -> &Value) -> f64 {
    records.iter().filter_map(|one| of(one).as_f64()).sum()
}

/// Returns whether a part of a whole lies between two others, to within 10 points. A thread that is
/// woken may still wait for a processor, which is a part of some waits only.
fn is_between(found: f64, truth: &Value, whole: f64) -> bool {
    let (waited, delayed) = (truth["waited"].as_f64().unwrap(), truth["delayed"].as_f64().unwrap());
    found > waited - delayed - 0.1 * whole && found < waited + 0.1 * whole
}

#[test]
fn each_kind_of_wait_is_told() {
    let (_folder, waits) = compiled("waits");
    for (name, place, kind, sources) in WAITS {
        by_each(sources, |source| {
            let agrees = |both: &Both| {
                let (records, truth) = (waits_in(&both.said, place, kind), &both.truth);
                let found = sum(&records, |one| &one["waited_ns"]);
                let longest = records.iter().filter_map(|one| one["wait_ns"]["max"].as_f64());
                let (longest, right) = (longest.fold(0.0, f64::max), truth["longest"].as_f64());
                let most = right.unwrap();
                // A look comes a millisecond early or late, and the way to a processor may count.
                let delay = truth["delayed"].as_f64().unwrap() + 1e6;
                let is_near = longest > 0.95 * most - delay && longest < 1.05 * most + 1e6;
                match is_between(found, truth, truth["waited"].as_f64().unwrap()) && is_near {
                    true => Ok(()),
                    false => Err(format!("{name} by {source}: {found}, {longest}: {both:?}")),
                }
            };
            let once = || Both::of_turn("waits", source, &waits, &[name]);
            Both::that(once, agrees);
        });
    }
}

#[test]
fn loops_that_wait_are_told_from_those_that_work() {
    let (_folder, waits) = compiled("waits");
    for (name, place, is_wait, sources) in LOOPS {
        by_each(sources, |source| {
            let agrees = |both: &Both| {
                let truth = |name: &str| both.truth[name].as_f64().unwrap();
                if truth("used") < 1e8 {
                    return Err(format!("{STARVED}: {:?}", both.truth));
                }
                let is_there = |one: &&Value| {
                    one["where"].as_str().unwrap().starts_with(&format!("{place} ("))
                };
                let loops = both.said.records("trace-loop");
                let found: f64 =
                    loops.iter().filter(is_there).filter_map(|one| one["cpu_share"].as_f64()).sum();
                let right = if *is_wait { truth("used") / truth("cpu") } else { 0.0 };
                let is_cured = both.summary()["cure"] == "stop-spinning";
                match (found - right).abs() < 0.1 && is_cured == *is_wait {
                    true => Ok(()),
                    false => Err(format!("{name} by {source}: {found} for {right}: {both:?}")),
                }
            };
            let once = || Both::of_turn(name, source, &waits, &[name]);
            Both::that(once, agrees);
        });
    }
}

#[test]
fn what_a_holder_did_is_told() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("pages");
    for (name, what, sources) in HELD {
        let subject = program(folder.path(), name);
        by_each(sources, |source| {
            let once = || Both::of_turn(name, source, &subject, &[file.to_str().unwrap()]);
            // Without tracepoints, a sleeper that waits for a processor seems to sleep on.
            let is_told = *name != "faults" || source == "tracepoints";
            let both = Both::that(once, |both| if is_told { both.agree() } else { Ok(()) });
            if let Some(lock) = both.find("waits (") {
                let ns = |value: &Value| value.as_f64().unwrap();
                let slept = ns(&lock["holder_ns"]["asleep"]) / ns(&lock["waited_ns"]);
                // Where one thing is most of it, the others are not named.
                let is_mixed = lock["chain"][0].as_array().is_some_and(|did| did.len() > 1);
                let has_slept = slept > if is_mixed { 0.2 } else { 0.7 };
                let named = lock["chain"].to_string().contains(what);
                assert!(named || !has_slept, "{name} by {source}: {lock}");
            }
        });
    }
}

#[test]
fn locks_of_runtimes_are_told() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/trace");
    for (command, kind, sources, function) in RUNTIMES {
        let ([language, file], version) =
            (command, Command::new(command[0]).arg("--version").output())
        else {
            unreachable!("a language and a file")
        };
        let Ok(version) = version else {
            skip(&format!("there is no {language}"));
            continue;
        };
        let version = String::from_utf8_lossy(&version.stdout);
        let is_known = PYTHONS.iter().any(|known| version.starts_with(known));
        let function = if is_known { function } else { "" };
        by_each(sources, |source| {
            let agrees = |both: &Both| {
                let waits = waits_in(&both.said, "", kind);
                let found = sum(&waits, |one| &one["waited_ns"]);
                let is_there = |one: &Value| one["where"].as_str().unwrap().starts_with(function);
                assert!(waits.iter().any(is_there), "{kind} by {source}: {both:?}");
                match is_between(found, &both.truth, both.truth["total"].as_f64().unwrap()) {
                    true => Ok(()),
                    false => Err(format!("{kind} by {source}: {found}: {both:?}")),
                }
            };
            let once = || Both::of_turn(language, source, language, &[&format!("{folder}/{file}")]);
            Both::that(once, agrees);
        });
    }
}

#[test]
fn what_threads_do_at_one_place_is_told_apart() {
    let (_folder, crowds) = compiled("crowds");
    for (name, sources, right, wrong, names) in CROWDS {
        by_each(sources, |source| {
            let once = |_: &str| {
                let _turn = turn("crowds");
                run(source, &crowds, &[name])
            };
            // On a busy machine, threads that wait for processors may matter most.
            let is_right = |said: &Said| {
                let summary = said.records("trace-summary").remove(0);
                assert_ne!(summary["cure"], *wrong, "{name} by {source}: {said:?}");
                let is_told = summary["advice"].to_string().contains("share one processor");
                let is_cure = right.is_empty() || summary["cure"] == *right;
                let diagnosis = summary["diagnosis"].as_str().unwrap();
                let next = |rest: &str, name: &&str| Some(rest.split_once(name)?.1.to_owned());
                let is_named =
                    names.iter().try_fold(diagnosis.to_owned(), |rest, name| next(&rest, name));
                is_cure && (is_told || *name != "pinned") && is_named.is_some()
            };
            let said = said_until(&["first", "second", "third", "fourth"], once, is_right);
            assert!(is_right(&said), "{name} by {source}: {said:?}");
        });
    }
}

#[test]
fn threads_that_wait_for_ever_are_told() {
    let (_folder, hangs) = compiled("hangs");
    for (how, cure) in HANGS {
        by_each(ALL, |source| {
            let _turn = turn("hangs");
            let said = run(source, &hangs, &[how]);
            assert_eq!(
                said.records("trace-summary")[0]["cure"],
                *cure,
                "{how} by {source}: {said:?}"
            );
        });
    }
}

/// Goroutines wait in user space, so what is seen are threads of the runtime that have nothing to
/// do: these wait for no lock, and the program may well have a problem with one.
#[test]
fn goroutines_are_neither_blocked_nor_fine() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("goroutines").to_str().unwrap().to_owned();
    let compilers: [&[&str]; 2] = [&["go", "build"], &["gccgo", "-g"]];
    let has_built = compilers.iter().any(|compiler| {
        let mut command = Command::new(compiler[0]);
        command.args(&compiler[1..]).args(["-o", &path, GO]);
        command.output().is_ok_and(|output| output.status.success())
    });
    if !has_built {
        return skip("there is no go, and no gccgo");
    }
    for what in ["contend", "idle"] {
        by_each(&["tracepoints", "looks"], |source| {
            let said = run(source, &path, &[what]);
            let summary = said.records("trace-summary").remove(0);
            let text = |of: &str| summary[of].as_str().unwrap().to_owned();
            let is_fine = text("diagnosis").contains("Not a lock problem");
            assert!(summary["lock_share"].as_f64() < Some(0.05), "{what} by {source}: {said:?}");
            assert!(!is_fine && text("advice").contains("Go"), "{what} by {source}: {said:?}");
        });
    }
}

/// The locks of musl are its own, and a static program says only in which of its functions it
/// waits: a mutex is known by the values of its word.
#[test]
fn a_static_program_with_musl_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/trace/waits.c");
    let path = folder.path().join("waits").to_str().unwrap().to_owned();
    let mut compiler = Command::new("musl-gcc");
    compiler.args(["-O1", "-g", "-static", "-idirafter", "/usr/include", "-o", &path, source]);
    compiler.args(["-idirafter", "/usr/include/x86_64-linux-gnu"]);
    if !compiler.output().is_ok_and(|output| output.status.success()) {
        return skip("there is no musl-gcc");
    }
    by_each(&["tracepoints", "looks"], |source| {
        let agrees = |both: &Both| {
            let locks = in_function(both.said.records("trace-lock"), "__timedwait");
            let found = locks.map_or(0.0, |one| one["waited_ns"].as_f64().unwrap());
            match is_between(found, &both.truth, both.truth["waited"].as_f64().unwrap()) {
                true => Ok(()),
                false => Err(format!("{source}: {found}: {both:?}")),
            }
        };
        Both::that(|| Both::of(run(source, &path, &["mutex"])), agrees);
    });
}

#[test]
fn a_program_without_a_lock_problem_is_told_so() {
    let (_folder, none) = compiled("none");
    let cures = ["nothing-to-do", "find-work", "give-processors"];
    for command in NULLS.iter().copied().chain([&[&*none][..]]) {
        if command[0] == "node" && Command::new("node").arg("-v").output().is_err() {
            skip("there is no node");
            continue;
        }
        by_each(ALL, |source| {
            let said = run(source, command[0], &command[1..]);
            let cure = said.records("trace-summary").remove(0)["cure"].as_str().unwrap().to_owned();
            // Looks tell of sleeps in calls, and may find none in a program of some milliseconds.
            let is_short = source != "tracepoints" && cure == "look-closer";
            assert!(cures.contains(&&*cure) || is_short, "{command:?} by {source}: {said:?}");
        });
    }
}
