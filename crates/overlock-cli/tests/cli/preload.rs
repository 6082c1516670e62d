//! Does a library that a traced program preloads tell all? And do the page and the README show what
//! is said?

use crate::support::{Said, said, said_until, skip};
use crate::truth::{
    Both, can_look, can_trace, compiled, in_function, needs, row, told, traced, turn,
};
use std::path::Path;
use std::process::Command;

/// The readers sleep, but that is not why the writer waits for long.
#[test]
fn readers_that_take_turns_past_a_writer_are_named() {
    needs!(can_look());
    let said = traced("preload", "turns");
    said.ends(0, "");
    let summary = said.records("trace-summary").remove(0);
    assert_eq!(summary["cure"], "let-writers-pass", "{said:?}");
    let lock = said.records("trace-lock").remove(0);
    assert_eq!(lock["type"], "rwlock-write", "{lock}");
    let passed = lock["passed_ns"].as_f64().unwrap() / lock["waited_ns"].as_f64().unwrap();
    assert!(passed > 0.5, "{lock}");
}

/// The program is as without the library, and each of its sleeps is counted, however short.
#[test]
fn each_sleep_in_a_call_is_told() {
    needs!(can_look());
    let (_folder, program) = compiled("own");
    let alone = Command::new(&program).output().unwrap();
    assert_eq!(alone.stdout, b"0\n2\n", "{alone:?}");
    let records = tempfile::NamedTempFile::new().unwrap();
    let path = records.path().to_str().unwrap();
    let mut said = said(&["trace", "--source", "preload", "--out", path, "--", &program]);
    assert_eq!((said.code, &*said.stdout), (Some(7), "0\n2\n"), "{said:?}");
    said.stdout = std::fs::read_to_string(path).unwrap();
    for at in ["at_poll (", "at_read (", "nap ("] {
        let row = row(&said, "trace-work", at);
        // A thread may find what it would have waited for, if it comes late.
        let waits = row["waits"].as_u64().unwrap();
        assert!((50..=100).contains(&waits) && row["is_estimate"] == false, "{row}");
    }
    for (at, ender) in [("at_end (", "lasts ("), ("at_child (", "forked (")] {
        let row = row(&said, "trace-work", at);
        assert!(row["ender"].as_str().unwrap().starts_with(ender), "{row}");
        assert!(row["chain"][0][0]["where"].as_str().unwrap().starts_with("nap ("), "{row}");
    }
}

/// Writers may pass each other as readers do, but that has another cure.
#[test]
fn writers_alone_do_not_wait_for_readers() {
    needs!(can_look());
    let writers = |source: &str| {
        let said = traced(source, "writers");
        said.ends(0, "");
        assert_ne!(said.records("trace-summary")[0]["cure"], "let-writers-pass", "{said:?}");
        said.records("trace-lock")
    };
    let lock = writers("preload").remove(0);
    assert_eq!((&lock["type"], &lock["passed_ns"]), (&"rwlock-write".into(), &0.into()), "{lock}");
    assert!(lock["waits"].as_u64() > Some(0), "{lock}");
    // Looks know no holder of a read-write lock, which says nothing of readers.
    writers("looks");
    if can_trace() {
        writers("tracepoints");
    }
}

/// A thread may have been about to release a lock, and seen no waiters, when they came.
#[test]
fn a_holder_whose_release_is_not_seen_is_known() {
    needs!(can_look());
    let said = traced("preload", "unseen");
    said.ends(0, "");
    for place in ["waits_mutex (unseen.c", "waits_read (unseen.c", "waits_begun (unseen.c"] {
        let lock = row(&said, "trace-lock", place);
        let unknown = lock["holder_ns"]["unknown"].as_f64().unwrap();
        assert!(unknown < 0.2 * lock["waited_ns"].as_f64().unwrap(), "{lock}");
    }
}

/// Each kind of lock is told by its name, also by a process that is killed, and by its child.
#[test]
fn a_process_that_is_killed_has_told_all() {
    needs!(can_look());
    let said = traced("preload", "kinds");
    said.ends(137, "");
    let all = [said.records("trace-lock"), said.records("trace-work")].concat();
    for (kind, place) in [
        ("mutex", "for_mutex (kinds.c"),
        ("mutex", "for_c11 (kinds.c"),
        ("mutex", "child (kinds.c"),
        ("rwlock", "for_reader (kinds.c"),
        ("rwlock-write", "for_writer (kinds.c"),
        ("spin lock", "for_spin (kinds.c"),
        ("condvar", "for_condition (kinds.c"),
        ("mutex after a condition", "for_condition (kinds.c"),
        ("semaphore", "for_semaphore (kinds.c"),
        ("barrier", "for_barrier (kinds.c"),
    ] {
        let of_kind = all.iter().filter(|one| one["type"] == kind).cloned().collect();
        let found = in_function(of_kind, place);
        let found = found.unwrap_or_else(|| panic!("no {kind} at {place}: {said:?}"));
        assert!(found["waits"].as_u64() >= Some(1), "{found}");
        let total = found["waited_ns"].as_f64().unwrap();
        if ["mutex", "rwlock-write"].contains(&kind) {
            let slept = found["holder_ns"]["asleep"].as_f64().unwrap();
            assert!(slept > 0.5 * total, "the holder slept: {found}");
        }
    }
}

/// A child is told apart even if the C library made no call at its birth, and a jump out of a wait
/// leaves nothing behind.
#[test]
fn a_wait_may_be_left_by_a_fork_and_by_a_jump() {
    needs!(can_look());
    let said = traced("preload", "leaves");
    said.ends(0, "");
    assert!(!said.stderr.contains("the program"), "{said:?}");
    let process = |place: &str| row(&said, "trace-work", place)["pid"].clone();
    assert_ne!(process("in_child (leaves.c"), process("in_parent (leaves.c"));
}

/// A lock may wait by the C library's function for system calls, as those of Rust do: the library
/// tells who holds it, and looks tell the place, behind frames of which no register tells.
#[test]
fn a_lock_that_waits_by_the_system_call_is_told() {
    needs!(can_look());
    let folder = tempfile::tempdir().unwrap();
    let rust = folder.path().join("rust").to_str().unwrap().to_owned();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/std.rs");
    let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.args(["-O", "--crate-name", "locks", "-o", &rust, source]);
    assert!(rustc.status().unwrap().success());
    for source in ["preload", "looks"] {
        let once = |_: &str| told(&["trace", "--source", source, "--json", "--", &rust]);
        let lock = |said: &Said| in_function(said.records("trace-lock"), "locks::takes (");
        // On a busy machine looks are rare.
        let said = said_until(&["first", "second", "third"], once, |said| lock(said).is_some());
        let lock = lock(&said).unwrap_or_else(|| panic!("no lock by {source}: {said:?}"));
        let slept = lock["holder_ns"]["asleep"].as_f64().unwrap();
        let is_most = slept > 0.5 * lock["waited_ns"].as_f64().unwrap();
        assert_eq!(is_most, source == "preload", "{lock}");
    }
}

/// Of a lock that waits by an instruction of the program's own, the library knows nothing, and
/// looks do.
#[test]
fn waits_that_the_library_does_not_see_are_looked_at() {
    needs!(can_look());
    let lock = |said: &Said| in_function(said.records("trace-lock"), "lock (raw.c");
    let [unseen, looked] = ["preload", "looks"].map(|source| {
        // On a busy machine looks are rare.
        let once = |_: &str| traced(source, "raw");
        said_until(&["first", "second", "third"], once, |said| lock(said).is_some())
    });
    for said in [&unseen, &looked] {
        assert!(lock(said).is_some(), "its waiters expect a value that is not zero: {said:?}");
    }
    let summary = unseen.records("trace-summary").remove(0);
    assert_eq!(summary["cure"], "look-closer", "nothing tells of its holders: {unseen:?}");
    assert!(summary["advice"].as_str().unwrap().contains("run this as root"), "{summary}");
}

/// A mutex that processes share has its holder in another one, and the chain goes on there.
#[test]
fn a_holder_may_be_in_another_process() {
    needs!(can_look());
    let sources = if can_trace() { vec!["preload", "tracepoints"] } else { vec!["preload"] };
    for source in sources {
        let said = traced(source, "shared");
        said.ends(0, "");
        let lock = row(&said, "trace-lock", "waits_for_child (shared.c");
        let (total, holder) = (lock["waited_ns"].as_f64().unwrap(), &lock["holder_ns"]);
        assert!(holder["unknown"].as_f64().unwrap() < 0.1 * total, "{source}: {lock}");
        assert!(holder["asleep"].as_f64().unwrap() > 0.5 * total, "{source}: {lock}");
        let step = |number: usize| &lock["chain"][number][0];
        let place = step(0)["where"].as_str().unwrap_or_default();
        assert!(place.starts_with("takes_inner (shared.c"), "{source}: {lock}");
        assert_eq!(step(1)["state"], "asleep", "{source}: {lock}");
    }
}

/// A library can't be given to every program.
#[test]
fn a_program_that_can_not_preload_is_refused() {
    let pid = std::process::id().to_string();
    said(&["trace", "--source", "preload", "--pid", &pid]).ends(2, "runs already");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("static");
    let source = folder.path().join("static.c");
    std::fs::write(&source, "int main(void) { return 0; }").unwrap();
    let compiled = Command::new("cc").arg("-static").arg(&source).arg("-o").arg(&path).status();
    if !compiled.unwrap().success() {
        return skip("there is no static C library here");
    }
    said(&["trace", "--source", "preload", "--", path.to_str().unwrap()])
        .ends(125, "statically linked");
}

/// What the README shows is what the command says: the verb's form, the diagnosis, the columns.
#[test]
fn the_readme_shows_what_is_said() {
    let readme = include_str!("../../../../README.md");
    let (_, rest) = readme.split_once("```console\n").expect("an example");
    let (example, _) = rest.split_once("```").unwrap();
    let command = example.lines().find_map(|line| line.strip_prefix("$ overlock ")).unwrap();
    let (form, _) = command.split_once("-- ").expect("a program");
    needs!(can_trace());
    let (_folder, wait) = compiled("wait");
    let _turn = turn("wait");
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let table = example.lines().skip_while(|line| !line.starts_with("Loops")).map(words);
    let table: Vec<String> = table.take(2).collect();
    let shows = |text: &str| {
        let lines: Vec<String> = text.lines().map(words).collect();
        let sentences = [
            "of the time on processors was spent in loops that wait;",
            "The worst loop is at",
            "of that time another thread of the program could run and had no processor.",
            "Use fewer threads, or waits that sleep.",
        ];
        table.iter().all(|line| lines.contains(line))
            && sentences.iter().all(|part| words(text).contains(part))
    };
    let kept = include_str!("../tables/trace-loop.txt");
    assert!(table.len() == 2 && shows(example) && shows(kept), "{example}");
    let args: Vec<&str> = form.split_whitespace().chain(["--", &wait]).collect();
    // On a busy machine something else can be the worst.
    let said =
        said_until(&["first", "second", "third"], |_| said(&args), |said| shows(&said.stderr));
    assert!(shows(&said.stderr), "{table:?} {said:?}");
}

/// The page of a trace draws its threads.
#[test]
fn a_report_draws_the_longest_wait() {
    needs!(can_look());
    let both = Both::by("preload", "asleep", &[]);
    let rows = both.said.records("timeline");
    assert_eq!(rows.len(), 1, "{:?}", both.said);
    assert_eq!(rows[0]["world"], "trace");
    let longest = rows[0]["holds"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|hold| Some(hold[3].as_u64()? - hold[2].as_u64()?));
    let wait = both.find("waits (").unwrap()["wait_ns"]["max"].as_u64().unwrap();
    let longest = longest.max().unwrap();
    assert!(longest.abs_diff(wait) <= wait / 2, "{longest} for {wait}");
    let folder = tempfile::tempdir().unwrap();
    let (file, page) = (folder.path().join("t.jsonl"), folder.path().join("t.html"));
    std::fs::write(&file, &both.said.stdout).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    said(&["report", &path(&file), "-o", &path(&page)]).ends(0, "");
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("around the longest wait, at waits (truth.h"), "no caption");
    assert!(page.contains("thread 1") && page.contains("holds it without a CPU"), "no lanes");
}
