//! What the library does besides POSIX: the choice of the lock, the counters, and which calls it
//! replaces.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{LOCKS, compile, library, program, text, under};
use serde_json::Value;

/// Names a file for one test that does not exist yet.
fn fresh_file(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[test]
fn unknown_lock_ends_the_process_before_it_starts() {
    let output = under("spinny", "echo").arg("started").output().expect("echo exists");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output),
        "overlock: OVERLOCK_LOCK=spinny is not a lock; choose hybrid, ticket, queued, test-and-set or none\n"
    );
}

#[test]
fn the_default_is_hybrid() {
    for choice in [None, Some("")] {
        let file = fresh_file("default.json");
        let mut command = Command::new("true");
        command.env("LD_PRELOAD", library()).env("OVERLOCK_COUNTERS", &file);
        command.env_remove("OVERLOCK_LOCK");
        if let Some(choice) = choice {
            command.env("OVERLOCK_LOCK", choice);
        }
        assert!(command.status().expect("true exists").success());
        assert_eq!(lines(&file)[0]["kind"], "process");
        assert_eq!(lines(&file)[0]["lock"], "hybrid");
    }
}

fn counters_of(lock: &str, program: &Path, case: &str) -> Value {
    let file = fresh_file(&format!("{case}-{lock}.json"));
    let output = under(lock, program)
        .arg(case)
        .env("OVERLOCK_COUNTERS", &file)
        .output()
        .expect("just compiled");
    assert!(output.status.success(), "{}", text(&output));
    let mut records = lines(&file);
    assert_eq!(records.len(), 1);
    records.remove(0)
}

fn count(record: &Value, group: &str, name: &str) -> u64 {
    record[group][name].as_u64().unwrap_or_else(|| panic!("no {group}.{name} in {record}"))
}

#[test]
fn counters_tell_what_happened() {
    let stress = program("stress.c");
    let timed = program("timed.c");
    for lock in LOCKS {
        let record = counters_of(lock, stress, "crowd_of_waiters");
        assert_eq!(record["lock"], lock);
        assert_eq!(record["program"].as_str(), stress.to_str());
        assert!(count(&record, "mutex", "locks_contended") >= 1, "{record}");
        assert!(count(&record, "events", "lock_slowpath") >= 1, "{record}");
        assert_eq!(count(&record, "mutex", "timed"), 0);
        assert_eq!(count(&record, "mutex", "handed_to_libc"), 0);
        // Each type of mutex is tried in each way, with three deadlines that can't be met.
        let record = counters_of(lock, timed, "times_out_and_not_early");
        assert_eq!(count(&record, "mutex", "timed"), 4 * 3 * 3, "{record}");
    }
}

#[test]
fn counters_know_what_is_libcs_and_what_conditions_do() {
    let program = program("special.c");
    let record = counters_of("hybrid", program, "plain_condition_with_special_mutexes");
    assert!(count(&record, "mutex", "handed_to_libc") > 0, "{record}");
    assert!(count(&record, "cond", "waits") > 0, "{record}");
    assert!(count(&record, "cond", "timed") > 0, "{record}");
    assert!(count(&record, "cond", "wakes") > 0, "{record}");
    assert_eq!(count(&record, "cond", "handed_to_libc"), 0);
    let record = counters_of("hybrid", program, "shared_condition_with_special_mutexes");
    assert!(count(&record, "cond", "handed_to_libc") > 0, "{record}");
    assert_eq!(count(&record, "cond", "waits"), 0);
}

/// Deadlines are on the program's clocks, which a library behind ours has changed.
#[test]
fn a_library_that_sets_the_clocks_back_shortens_no_wait() {
    let clock = compile("set_back_clock.c", "set-back-clock.so", &["-shared", "-fPIC"]);
    for lock in LOCKS {
        let both = format!("{}:{}", library().display(), clock.display());
        let output = under(lock, program("cond.c"))
            .arg("timed_waits_time_out_and_not_early")
            .env("LD_PRELOAD", both)
            .output()
            .expect("the program was just compiled");
        assert!(output.status.success(), "{lock}: {}", text(&output));
    }
}

/// Nothing tells then whether the jump leaves the wait.
#[test]
fn a_jump_during_a_wait_ends_the_process_if_jump_buffers_are_unknown() {
    let foreign = compile("foreign_jump.c", "foreign-jump.so", &["-shared", "-fPIC"]);
    let both = format!("{}:{}", foreign.display(), library().display());
    // (The waiters of test-and-set, and those of hybrid outside its queue, leave nothing behind.)
    for lock in ["queued", "ticket"] {
        let output = under(lock, program("jumps.c"))
            .arg("a_waiter_jumps_out")
            .env("LD_PRELOAD", &both)
            .env("POSIX_WATCHDOG_S", "20")
            .output()
            .expect("it was just compiled");
        assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{lock}: {}", text(&output));
        let message = "this libc's jump buffers are unlike any that Overlock knows";
        assert!(text(&output).contains(message), "{lock}: {}", text(&output));
    }
}

#[test]
fn a_libc_with_other_condition_variables_stops_only_programs_that_use_them() {
    let foreign = compile("foreign_cond.c", "foreign-cond.so", &["-shared", "-fPIC"]);
    let both = format!("{}:{}", foreign.display(), library().display());
    let run = |lock: &str, program: &Path, case: &str| {
        let mut command = under(lock, program);
        command.arg(case).env("LD_PRELOAD", &both).output().expect("it was just compiled")
    };
    for (source, case) in [("mutex.c", "lock_and_unlock"), ("spin.c", "threads_exclude_each_other")]
    {
        let output = run("hybrid", program(source), case);
        assert!(output.status.success(), "{source}: {}", text(&output));
        assert_eq!(text(&output), "");
    }
    let cond = program("cond.c");
    let output = run("none", cond, "signal_wakes");
    assert!(output.status.success(), "none: {}", text(&output));
    for case in ["signal_wakes", "timed_waits_time_out_and_not_early", "broadcast_wakes_all"] {
        let output = run("hybrid", cond, case);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        let message = "overlock: this libc's condition variables are unlike any that Overlock knows; \
                       run without Overlock\n";
        assert_eq!(text(&output), message);
    }
}

/// The locks' own budgets are of the kernel's time.
#[test]
fn a_library_that_stops_the_clocks_stops_no_lock() {
    let clock = compile("stopped_clock.c", "stopped-clock.so", &["-shared", "-fPIC"]);
    let stress = program("stress.c");
    for lock in LOCKS {
        for case in ["crowd_of_waiters", "counting"] {
            let both = format!("{}:{}", clock.display(), library().display());
            let output = under(lock, "timeout")
                .args(["--signal=KILL", "60"])
                .arg(stress)
                .arg(case)
                .env("LD_PRELOAD", both)
                .output()
                .expect("coreutils");
            assert!(output.status.success(), "{lock}, {case}: {}", text(&output));
        }
    }
}

/// Only calls that wait count, each under its kind.
#[test]
fn waits_for_what_is_no_mutex_are_counted() {
    for (source, case, rwlock, semaphore, barrier) in [
        ("rwlock.c", "readers_and_writers_wait", 6, 0, 0),
        ("rwlock.c", "a_free_lock_is_no_wait", 0, 0, 0),
        // The call that is refused with EDEADLK has found the lock taken.
        ("rwlock.c", "a_deadline_is_kept", 2, 0, 0),
        ("passed_on.c", "semaphores_wait", 0, 3, 0),
        ("passed_on.c", "a_wait_for_a_semaphore_is_cancelled", 0, 3, 0),
        ("barrier.c", "the_last_thread_ends_the_round", 0, 0, 2),
        ("barrier.c", "a_thread_alone_does_not_wait", 0, 0, 0),
    ] {
        for lock in ["hybrid", "none"] {
            let record = counters_of(lock, program(source), case);
            let [rwlocks, barriers] =
                ["rwlock", "barrier"].map(|what| count(&record, what, "waits"));
            let counts = (rwlocks, count(&record, "unreplaced", "semaphore_waits"), barriers);
            assert_eq!(counts, (rwlock, semaphore, barrier), "{case}: {record}");
        }
    }
}

/// C11's locks are ours as pthread's are, and no mutex of any kind is handed to libc.
#[test]
fn c11s_locks_count_as_pthreads() {
    let program = program("c11.c");
    for lock in LOCKS {
        let record = counters_of(lock, program, "waiters_get_the_mutex");
        assert_eq!(count(&record, "mutex", "locks_contended"), 4, "{record}");
        assert_eq!(count(&record, "mutex", "timed"), 4, "{record}");
        assert_eq!(count(&record, "mutex", "handed_to_libc"), 0, "{record}");
        let record = counters_of(lock, program, "conditions_wake");
        assert!(count(&record, "cond", "waits") >= 4, "{record}");
        assert!(count(&record, "cond", "timed") >= 4, "{record}");
        assert_eq!(count(&record, "cond", "handed_to_libc"), 0, "{record}");
    }
}

/// With `none` every mutex, condition variable and spin lock is libc's, and the counters show the
/// waits.
#[test]
fn none_replaces_nothing() {
    let stress = program("stress.c");
    let record = counters_of("none", stress, "crowd_of_waiters");
    assert_eq!(record["lock"], "none");
    assert!(count(&record, "mutex", "locks_contended") >= 1, "{record}");
    let events = record["events"].as_object().expect("an object");
    assert!(events.values().all(|count| count == 0), "{record}");
    let cond = program("cond.c");
    let record = counters_of("none", cond, "signal_wakes");
    assert!(count(&record, "cond", "handed_to_libc") > 0, "{record}");
    assert_eq!(count(&record, "cond", "waits"), 0, "{record}");
}

#[test]
fn every_process_writes_a_line_of_its_own() {
    let file = fresh_file("processes.json");
    // The shell forks twice, for a child that ends by exit, and for one that executes another
    // program.
    let status = under("hybrid", "bash")
        .args(["-c", "(exit 0); (exit 0) & wait; /bin/true"])
        .env("OVERLOCK_COUNTERS", &file)
        .status()
        .expect("bash exists");
    assert!(status.success());
    let records = lines(&file);
    let mut pids: Vec<_> = records.iter().map(|record| record["pid"].as_u64()).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), records.len());
    assert!(!records.is_empty());
}

#[test]
fn a_process_that_overwrites_its_environment_keeps_its_counters() {
    let program = program("tolerated.c");
    let record = counters_of("hybrid", program, "environment_is_overwritten");
    assert!(count(&record, "mutex", "locks_contended") >= 1, "{record}");
}

#[test]
fn a_name_that_is_too_long_names_no_other_file() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("long-name");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("a folder for tests");
    let mut file = folder.display().to_string();
    // The longest name that the kernel takes has 4,095 bytes: here it would end in `/coun`.
    file.push_str(&"/".repeat(4095 - "/coun".len() - file.len()));
    file.push_str("/counters");
    let output = under("hybrid", "true").env("OVERLOCK_COUNTERS", &file).output().expect("true");
    assert!(output.status.success());
    assert!(text(&output).contains("can't write the counters"), "{}", text(&output));
    assert_eq!(std::fs::read_dir(&folder).expect("just created").count(), 0);
}

#[test]
fn counters_that_cannot_be_written_are_reported_and_change_nothing() {
    let output = under("hybrid", "true")
        .env("OVERLOCK_COUNTERS", "/no/such/folder/file")
        .output()
        .expect("true exists");
    assert!(output.status.success());
    assert_eq!(
        text(&output),
        "overlock: can't write the counters to /no/such/folder/file (OVERLOCK_COUNTERS): check \
         that its folder exists and that this user may write there\n"
    );
}

#[test]
fn counters_go_to_regular_files_only() {
    let link = fresh_file("link.json");
    let behind = fresh_file("behind.json");
    std::os::unix::fs::symlink(&behind, &link).expect("a folder for tests");
    let pipe = fresh_file("pipe.json");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("coreutils").success());
    // The pipe has no reader: to open it would wait for ever.
    let other = "it is not a regular file";
    for (file, why) in [
        (link.as_path(), "it is a symbolic link"),
        (&pipe, other),
        (Path::new("/dev/full"), other),
        (Path::new("/"), other),
    ] {
        let output =
            under("hybrid", "true").env("OVERLOCK_COUNTERS", file).output().expect("true exists");
        assert!(output.status.success());
        let said = text(&output);
        assert!(said.ends_with(&format!(" (OVERLOCK_COUNTERS): {why}\n")), "{file:?}: {said}");
    }
    assert!(!behind.exists());
}

#[test]
fn unlocks_of_free_mutexes_are_counted_and_reported_with_their_place() {
    let program = program("tolerated.c");
    let case = "unlock_of_a_free_mutex";
    // Normal and adaptive mutexes, three times each.
    assert_eq!(count(&counters_of("hybrid", program, case), "mutex", "unlocked_free"), 2 * 3);
    let said = |check: &str| {
        let mut command = under("hybrid", program);
        text(&command.arg(case).env("OVERLOCK_CHECK", check).output().expect("just compiled"))
    };
    assert_eq!(said("0").lines().count(), 1, "{}", said("0"));
    let places = said("1");
    assert_eq!(places.lines().count(), 2 * 3, "{places}");
    let place = format!("by {}+0x", program.display());
    assert!(places.lines().all(|line| line.contains(&place)), "{places}");
}

/// Authors of sandboxes copy the list.
#[test]
fn the_system_calls_in_the_readme_suffice() {
    let readme = include_str!("../../README.md");
    let (_, list) = readme.split_once("**Sandboxes.**").expect("the list");
    let (list, _) = list.split_once("At its start").expect("the end of the list");
    let quoted = list.split('`').skip(1).step_by(2);
    let calls = quoted.filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    let calls = calls.collect::<Vec<_>>().join(" ");
    for lock in LOCKS {
        let file = fresh_file(&format!("allowed-{lock}.json"));
        let output = under(lock, program("allowed.c"))
            .arg("the_calls_that_are_documented_suffice")
            .env("OVERLOCK_COUNTERS", &file)
            .env("ALLOWED", &calls)
            .output()
            .expect("just compiled");
        assert!(output.status.success(), "{lock}, {calls}: {} {}", output.status, text(&output));
        let record = &lines(&file)[0];
        assert!(count(record, "mutex", "locks_contended") >= 1, "{record}");
        assert_eq!(count(record, "mutex", "unlocked_free"), 1, "{record}");
    }
}

/// The beginnings of the names of calls that are replaced, and their ends.
const REPLACED: [(&str, &str); 9] = [
    ("pthread_mutex_", "lock trylock timedlock clocklock unlock destroy"),
    ("pthread_cond_", "wait timedwait clockwait signal broadcast destroy"),
    ("pthread_spin_", "lock trylock unlock"),
    ("pthread_rwlock_", "rdlock tryrdlock timedrdlock clockrdlock unlock"),
    ("pthread_rwlock_", "wrlock trywrlock timedwrlock clockwrlock"),
    ("pthread_barrier_", "wait destroy"),
    ("sem_", "wait timedwait clockwait"),
    // C11 reserves these names for its own calls.
    ("mtx_", "lock trylock timedlock unlock destroy"),
    ("cnd_", "wait timedwait signal broadcast destroy"),
];

#[test]
fn the_library_defines_the_calls_and_little_else() {
    let output = Command::new("nm")
        .args(["--dynamic", "--defined-only", "--format=posix"])
        .arg(library())
        .output()
        .expect("nm comes with the C compiler");
    let names = text(&output);
    let names: Vec<_> = names.lines().filter_map(|line| line.split([' ', '@']).next()).collect();
    let of = |(begin, ends): (&str, &str)| {
        ends.split(' ').map(|end| format!("{begin}{end}")).collect::<Vec<_>>()
    };
    let jumps = ["longjmp", "_longjmp", "siglongjmp", "__longjmp_chk"].map(str::to_owned);
    let replaced: Vec<String> = REPLACED.into_iter().flat_map(of).chain(jumps).collect();
    for name in &replaced {
        assert!(names.contains(&name.as_str()), "{name} is not replaced");
    }
    let known = ["pthread_", "__pthread_mutex_", "__pthread_rwlock_", "overlock_", "GLIBC_"];
    for name in names {
        let is_known = known.iter().any(|part| name.starts_with(part));
        let is_replaced = replaced.iter().any(|of| of == name);
        assert!(is_known || is_replaced, "{name} would take the place of a symbol of the program");
    }
}

/// The dynamic linker relocates a program's libraries before those that are preloaded.
#[test]
fn a_resolver_may_lock_before_the_library_is_relocated() {
    for (name, flag, succeeds) in [("resolver", "-DPLAIN", true), ("waiter", "-DWAITS", false)] {
        let flags = ["-shared", "-fPIC", "-fno-plt", "-Wl,-z,now", flag];
        let resolver = compile("resolver.c", &format!("{name}.so"), &flags);
        let program =
            compile("resolved.c", name, &["-Wl,--no-as-needed", &resolver.to_string_lossy()]);
        assert!(Command::new(&program).status().expect("just compiled").success() || !succeeds);
        for lock in LOCKS.iter().chain(&["none"]) {
            let output = under(lock, &program).output().expect("just compiled");
            assert_eq!(output.status.success(), succeeds, "{lock}: {}", text(&output));
            if !succeeds {
                assert_eq!(output.status.code(), Some(2), "{lock}: {}", text(&output));
                assert!(text(&output).contains("run the program without Overlock"));
            }
        }
    }
}

/// C11's names are old ones of libraries for systems without them.
#[test]
fn a_library_with_c11s_names_keeps_its_own_locks() {
    let flags = ["-shared", "-fPIC", "-DLIBRARY"];
    let library = compile("own_threads.c", "own-threads.so", &flags);
    let program = compile(
        "own_threads.c",
        "own-threads",
        &["-Wl,--no-as-needed", &library.to_string_lossy()],
    );
    for lock in LOCKS.iter().chain(&["none"]) {
        let output = under(lock, &program).output().expect("just compiled");
        assert!(output.status.success(), "{lock}: {}", text(&output));
    }
}

/// What few threads need, and not what 8,191 would.
#[test]
fn the_library_takes_little_memory() {
    let program = program("locked_memory.c");
    let size = |command: &mut Command| -> u64 {
        text(&command.output().expect("just compiled")).trim().parse().expect("a number")
    };
    let (own, with) = (size(&mut Command::new(program)), size(&mut under("hybrid", program)));
    // The code of a debug build is larger.
    let most = if cfg!(debug_assertions) { 6000 } else { 800 };
    assert!(with < own + most, "{with} KiB, without the library {own} KiB");
}
