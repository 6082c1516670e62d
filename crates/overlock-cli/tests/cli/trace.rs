// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does `overlock trace` name what programs do on purpose?
//!
//! Each program of `tests/programs/trace` does one thing to a lock's holder, keeps its own record
//! of what that cost by the kernel's accounts, and prints it. The trace must agree with that
//! record, however busy the machine is: no test compares times of the clock on the wall.

use crate::support::{OVERLOCK, Said, interrupt, overlock, said, said_until};
use serde_json::Value;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One traced program at a time: their threads ask for processors of their own, and one of them has
/// real-time priority.
pub(crate) fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Compiles a program.
pub(crate) fn program(folder: &Path, name: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/trace");
    let path = folder.join(name);
    let compiled = Command::new("cc")
        .args(["-O1", "-g", "-pthread", "-o"])
        .arg(&path)
        .arg(source.join(format!("{name}.c")))
        .status();
    assert!(compiled.unwrap().success(), "{name}.c");
    path.to_str().unwrap().to_owned()
}

/// Returns whether the kernel's tracepoints can be used here, and reports it if they can't.
pub(crate) fn can_trace() -> bool {
    let said = said(&["trace", "--source", "tracepoints", "--", "true"]);
    if said.code != Some(0) {
        let skipped = format!("skipped: {}", said.stderr);
        std::io::stderr().write_all(skipped.as_bytes()).unwrap();
    }
    said.code == Some(0)
}

/// Returns whether threads can be looked at here, and reports it if they can't.
pub(crate) fn can_look() -> bool {
    let said = said(&["trace", "--source", "looks", "--", "true"]);
    if said.code != Some(0) {
        let skipped = format!("skipped: {}", said.stderr);
        std::io::stderr().write_all(skipped.as_bytes()).unwrap();
    }
    said.code == Some(0)
}

/// What a program says of itself, and what the trace says.
pub(crate) struct Both {
    truth: Value,
    pub(crate) said: Said,
}

/// What a trace says if its looks came so rarely that there is nothing to compare.
const RARE: &str = "a look at the threads only";

impl Both {
    pub(crate) fn new(name: &str, args: &[&str]) -> Self {
        Both::by("auto", name, args)
    }

    pub(crate) fn by(source: &str, name: &str, args: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let program = program(folder.path(), name);
        let _alone = alone();
        // On a very busy machine events can be lost, and are counted: nothing to compare then.
        let run = |_: &str| {
            said(&[&["trace", "--source", source, "--json", "--", &program], args].concat())
        };
        let is_whole =
            |said: &Said| said.records("trace-summary").iter().all(|one| one["lost"] == 0);
        let said = said_until(&["first", "second", "third"], run, is_whole);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(is_whole(&said), "{said:?}");
        let line = said.stderr.lines().find(|line| line.contains("\"truth\"")).expect(&said.stderr);
        Both { truth: serde_json::from_str(line).unwrap(), said }
    }

    pub(crate) fn summary(&self) -> Value {
        self.said.records("trace-summary").remove(0)
    }

    /// Returns the record of the waits in a function, if there is one.
    fn find(&self, function: &str) -> Option<Value> {
        self.said.records("trace-lock").into_iter().find(|record| {
            record["where"].as_str().is_some_and(|place| place.starts_with(function))
        })
    }

    /// Returns the record of the waits in a function.
    #[track_caller]
    pub(crate) fn lock(&self, function: &str) -> Value {
        self.find(function).unwrap_or_else(|| panic!("no lock in {function}: {:?}", self.said))
    }

    /// Returns a trace that `agrees` with its program. On a busy machine looks can be rare, and
    /// what is estimated from them rough: then the program runs again. What is wrong each time is
    /// wrong.
    #[track_caller]
    fn that(run: impl Fn() -> Both, agrees: impl Fn(&Both) -> Result<(), String>) -> Both {
        let mut differences = Vec::new();
        for left in (0..5).rev() {
            let both = run();
            match agrees(&both) {
                Ok(()) => return both,
                Err(difference) => differences.push(difference),
            }
            if left == 0 && differences.iter().all(|one| one.contains(RARE)) {
                let skipped = format!("skipped: {}\n", differences[0]);
                std::io::stderr().write_all(skipped.as_bytes()).unwrap();
                return both;
            }
        }
        panic!("{differences:#?}");
    }

    #[track_caller]
    pub(crate) fn agreed(source: &str, name: &str, args: &[&str]) -> Both {
        Both::that(|| Both::by(source, name, args), Both::agree)
    }

    /// Asserts that the waits in `waits` are split as the program says, to within 10 points. What
    /// it did before its section, while the waiter waited already, is in no share of it.
    #[track_caller]
    fn agree(&self) -> Result<(), String> {
        if let Some(doubt) = self.said.stderr.lines().find(|line| line.contains(RARE)) {
            return Err(doubt.to_owned());
        }
        let truth = |name: &str| self.truth[name].as_f64().unwrap();
        let Some(lock) = self.find("waits (") else {
            return Err(format!("no lock in waits: {:?}", self.said));
        };
        assert_eq!(lock["type"], "mutex");
        // A look can miss a short wait, and see one twice that another thread interrupts.
        if ["tracepoints", "preload"].iter().any(|source| self.summary()["source"] == *source) {
            // On a busy machine the waiter can come after its lock is free again.
            if lock["waits"] != self.truth["rounds"] {
                return Err(format!("waits: {lock} {:?}", self.truth));
            }
        }
        let seen = |name: &str| lock["holder_ns"][name].as_f64().unwrap();
        let waited = truth("waited");
        let throttled = truth("throttled").min(truth("waited"));
        let parts = [
            ("running", truth("ran")),
            ("preempted", (truth("delayed") - throttled).max(0.0)),
            ("throttled", throttled),
            ("blocked", truth("asleep")),
            ("free", truth("late")),
        ];
        let before = 1.0 - parts.iter().map(|(_, ns)| ns).sum::<f64>() / waited;
        for (name, ns) in parts {
            let (right, found) = (ns / waited, seen(name) / waited);
            let most = 0.1 + before.max(0.0);
            if (right - found).abs() >= most {
                return Err(format!("{name}: {found} for {right}: {lock} {:?}", self.truth));
            }
        }
        let unknown = seen("unknown") / waited;
        let length = lock["waited_ns"].as_f64().unwrap() / waited;
        if unknown >= 0.05 || !(0.9..1.1).contains(&length) {
            return Err(format!("{unknown} unknown of {length}: {lock} {:?}", self.truth));
        }
        Ok(())
    }
}

#[test]
fn what_a_holder_did_is_named() {
    if !can_trace() {
        return;
    }
    for name in ["long", "preempted", "asleep", "reads", "mixture", "late"] {
        Both::agreed("auto", name, &[]);
    }
}

/// The same without root.
#[test]
fn looks_name_what_a_holder_did() {
    if !can_look() {
        return;
    }
    for name in ["long", "preempted", "asleep", "reads", "mixture", "chain"] {
        Both::agreed("looks", name, &[]);
    }
    let both = Both::by("looks", "chain", &[]);
    let said = both.lock("waits (")["blocked_in"][0]["in"].as_str().unwrap().to_owned();
    assert!(said.starts_with("mutex at takes_inner (chain.c"), "{said}");
    let both = Both::by("looks", "none", &[]);
    assert_eq!(both.summary()["cure"], "leave-locks", "{:?}", both.said);
}

/// As in a container that forbids the kernel's records, or with Debian's own kernels without root.
#[test]
fn without_records_of_switches_looks_are_coarser() {
    let folder = tempfile::tempdir().unwrap();
    let (without, asleep) = (program(folder.path(), "without"), program(folder.path(), "asleep"));
    let run = || {
        let _alone = alone();
        let mut command = Command::new(&without);
        command.args([OVERLOCK, "trace", "--source", "looks", "--json", "--", &asleep]);
        let said: Said = command.output().unwrap().into();
        said.ends(0, "no records of context switches");
        let line = said.stderr.lines().find(|line| line.contains("\"truth\"")).unwrap();
        Both { truth: serde_json::from_str(line).unwrap(), said }
    };
    let both = Both::that(run, Both::agree);
    assert_eq!(both.summary()["source"], "coarse-looks");
}

#[test]
fn what_a_holder_slept_in_is_named() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = folder.path().join("pages");
    let longest = |both: &Both| {
        let lock = both.lock("waits (");
        lock["blocked_in"][0]["in"].as_str().unwrap_or_default().to_owned()
    };
    for (name, what) in [
        ("asleep", "sleep for a time"),
        ("reads", "read, a pipe"),
        ("faults", "page fault of a file"),
        ("chain", "mutex at takes_inner (chain.c"),
    ] {
        let both = Both::agreed("auto", name, &[file.to_str().unwrap()]);
        assert!(longest(&both).starts_with(what), "{}", both.lock("waits ("));
    }
}

#[test]
fn a_chain_is_named_to_its_end() {
    if !can_trace() {
        return;
    }
    let both = Both::new("chain", &[]);
    let said = both.lock("waits (")["blocked_in"][0]["in"].as_str().unwrap().to_owned();
    assert!(said.ends_with("whose holder slept: sleep for a time"), "{said}");
    assert!(both.lock("takes_inner (")["holder_ns"]["blocked"].as_u64() > Some(0));
}

/// A group with a quota, for as long as this lives.
struct Group(std::path::PathBuf);

impl Group {
    /// Makes one in which threads may run for 30 ms of each 100, if that is possible here.
    fn new() -> Option<Self> {
        let name = format!("overlock-test-{}", std::process::id());
        let old = Group(Path::new("/sys/fs/cgroup/cpu").join(&name));
        if std::fs::create_dir(&old.0).is_ok() {
            return std::fs::write(old.0.join("cpu.cfs_quota_us"), "30000").is_ok().then_some(old);
        }
        let new = Group(Path::new("/sys/fs/cgroup").join(&name));
        std::fs::create_dir(&new.0).ok()?;
        std::fs::write(new.0.join("cpu.max"), "30000 100000").is_ok().then_some(new)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// The kernel's own account of a quota is a sum over processors of times that it measures
/// elsewhere, so the split between "no quota" and "no processor" is known only between bounds.
#[test]
fn a_quota_is_told_from_a_neighbour() {
    let Some(group) = Group::new().filter(|_| can_trace()) else {
        std::io::stderr().write_all(b"skipped: no group with a quota can be made here\n").unwrap();
        return;
    };
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let version: Vec<u32> = release.split(['.', '-']).take(2).flat_map(str::parse).collect();
    if version < vec![6, 18] {
        std::io::stderr()
            .write_all(b"skipped: before Linux 6.18 a quota looks like a neighbour\n")
            .unwrap();
        return;
    }
    let path = |file: &str| group.0.join(file).to_str().unwrap().to_owned();
    let both = Both::new("quota", &[&path("cgroup.procs"), &path("cpu.stat")]);
    let lock = both.lock("waits (");
    let share = |record: &Value, name: &str| {
        record[name].as_f64().unwrap() / both.truth["waited"].as_f64().unwrap()
    };
    let (throttled, delayed) = (share(&both.truth, "throttled"), share(&both.truth, "delayed"));
    let seen = share(&lock["holder_ns"], "throttled");
    assert!(seen > throttled - 0.1 && seen < delayed + 0.1, "{lock} {:?}", both.truth);
    let without = seen + share(&lock["holder_ns"], "preempted");
    assert!((without - delayed).abs() < 0.1, "{lock} {:?}", both.truth);
}

#[test]
fn loops_that_wait_are_found() {
    if !can_trace() {
        return;
    }
    let both = Both::that(
        || Both::new("spin", &[]),
        |both| {
            let found = both.said.records("trace-loop").remove(0);
            assert!(found["where"].as_str().unwrap().starts_with("spin_lock (spin.c"), "{found}");
            let spun = both.truth["spun"].as_f64().unwrap() / both.truth["cpu"].as_f64().unwrap();
            let share = found["cpu_share"].as_f64().unwrap();
            // A thread that hardly gets a processor is hardly sampled.
            let cure = both.summary()["cure"] == "stop-spinning";
            match (spun - share).abs() < 0.1 && cure {
                true => Ok(()),
                false => Err(format!("{share} for {spun}: {:?}", both.said)),
            }
        },
    );
    assert_eq!(both.summary()["source"], "tracepoints");
}

#[test]
fn a_program_without_contention_has_no_lock_problem() {
    if !can_trace() {
        return;
    }
    let both = Both::new("none", &[]);
    assert!(both.said.records("trace-lock").is_empty(), "{:?}", both.said);
    let summary = both.summary();
    assert_eq!(summary["cure"], "leave-locks", "{summary}");
    assert!(summary["diagnosis"].as_str().unwrap().starts_with("Not a lock problem"), "{summary}");
}

/// Other tools can open what was seen: each stack of a wait with its time, and each thread's track.
#[test]
fn files_for_other_tools_agree_with_the_records() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let asleep = program(folder.path(), "asleep");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (folded, timeline) = (path("folded"), path("timeline"));
    let files = ["--folded", &folded, "--timeline", &timeline];
    let said = {
        let _alone = alone();
        said(&[&["trace", "--json"][..], &files, &["--", &asleep]].concat())
    };
    let lock = said.records("trace-lock").remove(0);
    let folded = std::fs::read_to_string(folded).unwrap();
    let slept =
        folded.lines().find(|line| line.contains(";waits;") && line.contains("[holder blocked]"));
    let (stack, us) = slept.expect(&folded).rsplit_once(' ').unwrap();
    assert_eq!(us.parse::<u64>().unwrap(), lock["holder_ns"]["blocked"].as_u64().unwrap() / 1000);
    assert!(stack.contains(";waiter;waits;") && stack.contains("[mutex]"), "{stack}");

    let text = std::fs::read_to_string(timeline).unwrap();
    let events: Value = serde_json::from_str(&text).unwrap();
    let events = events["traceEvents"].as_array().unwrap();
    let waits: Vec<&Value> = events
        .iter()
        .filter(|event| event["name"].as_str().unwrap().starts_with("waits: mutex at waits ("))
        .collect();
    assert_eq!(waits.len() as u64, lock["waits"].as_u64().unwrap());
    let length: f64 = waits.iter().map(|event| event["dur"].as_f64().unwrap()).sum();
    let all = lock["waited_ns"].as_f64().unwrap() / 1000.0;
    assert!((length - all).abs() < 1.0, "{length} for {all}");
    for event in events.iter().filter(|event| event["ph"] == "X") {
        assert!(event["ts"].as_f64() >= Some(0.0) && event["dur"].as_f64() >= Some(0.0), "{event}");
    }
}

/// A program that runs already is watched until Ctrl-C, which keeps what was seen.
#[test]
fn a_running_program_is_watched_until_ctrl_c() {
    if !can_trace() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let _alone = alone();
    let mut asleep = Command::new(program(folder.path(), "forever")).spawn().unwrap();
    let (pid, rows) = (asleep.id().to_string(), folder.path().join("rows"));
    let watch = |milliseconds: &str| {
        let mut command = overlock(&["trace", "--json", "--pid", &pid, "--out"]);
        command.arg(&rows).stdout(Stdio::piped()).stderr(Stdio::piped());
        let tracing = command.spawn().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds.parse().unwrap()));
        interrupt(tracing.id());
        Said::from(tracing.wait_with_output().unwrap())
    };
    let has_lock = |said: &Said| !said.records("trace-lock").is_empty();
    let said = said_until(&["500", "3000", "10000"], watch, has_lock);
    asleep.kill().unwrap();
    asleep.wait().unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(has_lock(&said), "{said:?}");
    assert_eq!(said.stdout, std::fs::read_to_string(&rows).unwrap());
}

/// Short processes come and go faster than their names can be read.
#[test]
fn many_short_processes_are_all_counted() {
    if !can_trace() {
        return;
    }
    let run = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done";
    let said = said(&["trace", "--json", "--", "sh", "-c", run]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.records("trace-summary")[0]["threads"], 301, "{said:?}");
}

#[test]
fn a_process_that_ends_ends_its_watch() {
    if !can_trace() {
        return;
    }
    let mut sleeps = Command::new("sleep").arg("0.5").spawn().unwrap();
    let said = said(&["trace", "--json", "--pid", &sleeps.id().to_string()]);
    sleeps.wait().unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.records("trace-summary").len(), 1, "{said:?}");
}

/// Another user's program may be watched by its CPU time only, and the output says so.
#[test]
fn what_another_users_program_hides_is_said() {
    let nobody = |program: &str, rest: &[&str]| {
        let mut command = Command::new("setpriv");
        command
            .args(["--reuid", "65534", "--regid", "65534", "--clear-groups", program])
            .args(rest);
        command
    };
    // The program has to be where others may read it.
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("overlock");
    std::fs::copy(OVERLOCK, &copy).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let copy = copy.to_str().unwrap();
    if !nobody(copy, &["--version"]).output().is_ok_and(|output| output.status.success()) {
        std::io::stderr().write_all(b"skipped: only root can become another user\n").unwrap();
        return;
    }
    let mut sleeps = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = sleeps.id().to_string();
    let said = nobody(copy, &["trace", "--for", "1s", "--pid", &pid]).output();
    sleeps.kill().unwrap();
    sleeps.wait().unwrap();
    Said::from(said.unwrap()).ends(0, "run this as root");
}

#[test]
fn a_system_without_proc_is_told_what_to_mount() {
    let without = "umount -l /proc && exec \"$0\" trace -- true";
    let said =
        Command::new("unshare").args(["-m", "sh", "-c", without, OVERLOCK]).output().unwrap();
    let said = Said::from(said);
    if said.stderr.contains("unshare") || said.stderr.contains("umount") {
        std::io::stderr().write_all(b"skipped: only root can take /proc away\n").unwrap();
        return;
    }
    said.ends(2, "mount -t proc proc /proc");
}

#[test]
fn bad_requests_have_a_clear_answer() {
    said(&["trace", "--pid", "4194304"]).ends(2, "there is no process 4194304");
    said(&["trace"]).ends(2, "--pid");
    said(&["trace", "--for", "10", "--", "true"]).ends(2, "needs a unit");
    if can_trace() {
        said(&["trace", "--", "/no/such/program"]).ends(2, "can't run /no/such/program");
        said(&["trace", "--", "sh", "-c", "exit 3"]).ends(0, "the program ended with code 3");
    }
}
