//! Does `overlock trace` watch programs of all kinds, and say what it can't see?

use crate::support::{OVERLOCK, Said, interrupt, overlock, said, said_until, skip};
use crate::truth::{Both, apart, can_look, can_trace, needs, program, row, told, traced, turn};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};

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
        return skip("no group with a quota can be made here");
    };
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let version: Vec<u32> = release.split(['.', '-']).take(2).flat_map(str::parse).collect();
    if version < vec![6, 18] {
        return skip("before Linux 6.18 a quota looks like a neighbour");
    }
    let path = |file: &str| group.0.join(file).to_str().unwrap().to_owned();
    for source in ["tracepoints", "preload"] {
        let agrees = |both: &Both| {
            let lock = both.find("waits (").unwrap();
            let share = |record: &Value, name: &str| {
                record[name].as_f64().unwrap() / both.truth["waited"].as_f64().unwrap()
            };
            let throttled = share(&both.truth, "throttled");
            let delayed = share(&both.truth, "delayed");
            let seen = share(&lock["holder_ns"], "throttled");
            let without = seen + share(&lock["holder_ns"], "preempted");
            let is_between = seen > throttled - 0.1 && seen < delayed + 0.1;
            match is_between && (without - delayed).abs() < 0.1 {
                true => Ok(()),
                false => Err(format!("{source}: {lock} {:?}", both.truth)),
            }
        };
        let run = || Both::by(source, "quota", &[&path("cgroup.procs"), &path("cpu.stat")]);
        Both::that(run, agrees);
    }
}

/// Other tools can open what was seen: each stack of a wait with its time, and each thread's track.
#[test]
fn files_for_other_tools_agree_with_the_records() {
    needs!(can_trace());
    let folder = tempfile::tempdir().unwrap();
    let asleep = program(folder.path(), "asleep");
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (folded, timeline, firefox) = (path("folded"), path("timeline"), path("x.profile.json"));
    let files = ["--folded", &folded, "--timeline", &timeline, "--timeline", &firefox];
    let said = {
        let _turn = turn("asleep");
        told(&[&["trace", "--json"][..], &files, &["--", &asleep]].concat())
    };
    let lock = said.records("trace-lock").remove(0);
    let folded = std::fs::read_to_string(folded).unwrap();
    let slept =
        folded.lines().find(|line| line.contains(";waits;") && line.contains("[holder asleep]"));
    let (stack, us) = slept.expect(&folded).rsplit_once(' ').unwrap();
    assert_eq!(us.parse::<u64>().unwrap(), lock["holder_ns"]["asleep"].as_u64().unwrap() / 1000);
    assert!(stack.contains(";waiter;waits;") && stack.contains("[mutex]"), "{stack}");

    let text = std::fs::read_to_string(timeline).unwrap();
    let events: Value = serde_json::from_str(&text).unwrap();
    let events = events["traceEvents"].as_array().unwrap();
    let waits: Vec<&Value> = events
        .iter()
        .filter(|event| {
            event["name"].as_str().unwrap().starts_with("waits: mutex at waits (")
                && event["ph"] == "X"
        })
        .collect();
    assert_eq!(waits.len() as u64, lock["waits"].as_u64().unwrap());
    let length: f64 = waits.iter().map(|event| event["dur"].as_f64().unwrap()).sum();
    let all = lock["waited_ns"].as_f64().unwrap() / 1000.0;
    assert!((length - all).abs() < 1.0, "{length} for {all}");
    for event in events.iter().filter(|event| event["ph"] == "X") {
        assert!(event["ts"].as_f64() >= Some(0.0) && event["dur"].as_f64() >= Some(0.0), "{event}");
    }

    let text = std::fs::read_to_string(firefox).unwrap();
    let profile: Value = serde_json::from_str(&text).unwrap();
    let threads = profile["threads"].as_array().unwrap();
    let is_all = |one: &&Value| one["name"].as_str().unwrap().starts_with("all sleeps");
    // Its weights are whole milliseconds of each stack.
    let weights = |thread: &Value| -> f64 {
        let all = thread["samples"]["weight"].as_array().unwrap();
        all.iter().map(|weight| weight.as_f64().unwrap()).sum()
    };
    let kinds = ["trace-lock", "trace-work", "trace-outside"];
    let all: Vec<Value> = kinds.iter().flat_map(|kind| said.records(kind)).collect();
    let waited: f64 = all.iter().map(|one| one["waited_ns"].as_f64().unwrap() / 1e6).sum();
    let whole: f64 = threads.iter().filter(is_all).map(weights).sum();
    assert!(whole <= waited && whole > waited - 100.0, "{whole} of {waited} ms");
    let own: f64 = threads.iter().filter(|one| !is_all(one)).map(weights).sum();
    assert!(own <= waited && own > waited - 100.0, "{own} of {waited} ms");
    let markers: u64 = threads.iter().map(|one| one["markers"]["length"].as_u64().unwrap()).sum();
    let slices = events.iter().filter(|event| event["ph"] == "X").count();
    assert_eq!(markers, slices as u64, "each time is marked in both files");
}

/// A program that runs already is watched until Ctrl-C, which keeps what was seen.
#[test]
fn a_running_program_is_watched_until_ctrl_c() {
    needs!(can_trace());
    let folder = tempfile::tempdir().unwrap();
    let _turn = turn("forever");
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
    assert_eq!(said.code, Some(130), "{said:?}");
    assert!(has_lock(&said), "{said:?}");
    assert_eq!(said.stdout, std::fs::read_to_string(&rows).unwrap());
}

/// A wait that began before the watch, and never ends, is what a program that hangs is watched for.
#[test]
fn a_program_that_hangs_is_seen_to_wait() {
    needs!(can_trace());
    let folder = tempfile::tempdir().unwrap();
    let hangs = program(folder.path(), "hangs");
    let _turn = turn("hangs");
    let mut hangs = Command::new(hangs).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 6];
    std::io::Read::read_exact(hangs.stdout.as_mut().unwrap(), &mut line).unwrap();
    let pid = hangs.id().to_string();
    let watch = |length: &str| said(&["trace", "--json", "--for", length, "--pid", &pid]);
    // What was lost hides what the holders do, and on a very busy machine records are lost.
    let is_whole = |said: &Said| said.records("trace-summary").iter().all(|one| one["lost"] == 0);
    let said = said_until(&["1s", "1s", "2s", "2s", "4s"], watch, is_whole);
    hangs.kill().unwrap();
    hangs.wait().unwrap();
    said.ends(0, "");
    if !is_whole(&said) {
        return skip("records were lost each time");
    }
    for place in ["first (hangs.c", "second (hangs.c"] {
        let lock = row(&said, "trace-lock", place);
        let (waited, holder) = (&lock["waited_ns"], &lock["holder_ns"]);
        assert!(waited.as_f64() > Some(5e8), "{said:?}");
        assert!(holder["asleep"].as_f64().unwrap() > 0.5 * waited.as_f64().unwrap(), "{said:?}");
    }
}

/// Short processes come and go faster than their names can be read.
#[test]
fn many_short_processes_are_all_counted() {
    needs!(can_trace());
    let run = "i=0; while [ $i -lt 300 ]; do /bin/true; i=$((i+1)); done";
    let said = told(&["trace", "--json", "--", "sh", "-c", run]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.records("trace-summary")[0]["threads"], 301, "{said:?}");
}

#[test]
fn a_process_that_ends_ends_its_watch() {
    needs!(can_trace());
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
        return skip("only root can become another user");
    }
    let mut sleeps = Command::new("sleep").arg("600").spawn().unwrap();
    let pid = sleeps.id().to_string();
    let said = nobody(copy, &["trace", "--for", "1s", "--pid", &pid]).output();
    sleeps.kill().unwrap();
    sleeps.wait().unwrap();
    let said = Said::from(said.unwrap());
    said.ends(0, "run this as root");
    assert!(said.stdout.starts_with("Nothing is known of this program's waits"), "{said:?}");
}

#[test]
fn a_system_without_proc_is_told_what_to_mount() {
    let without = "umount -l /proc && exec \"$0\" trace -- true";
    let said =
        Command::new("unshare").args(["-m", "sh", "-c", without, OVERLOCK]).output().unwrap();
    let said = Said::from(said);
    if said.stderr.contains("unshare") || said.stderr.contains("umount") {
        return skip("only root can take /proc away");
    }
    said.ends(125, "mount -t proc proc /proc");
}

/// What the first thread leaves behind when it ends belongs to the others.
#[test]
fn threads_outlive_the_first_one() {
    needs!(can_look());
    for source in ["preload", "looks", "tracepoints"] {
        if source == "tracepoints" && !can_trace() {
            return;
        }
        let said = traced(source, "orphans");
        said.ends(0, "");
        let lock = row(&said, "trace-lock", "waits_alone (orphans.c");
        assert_eq!(lock["type"], "mutex", "{source}: {lock}");
    }
}

/// There, threads have other numbers than in the kernel's tracepoints.
#[test]
fn in_a_pid_namespace_of_its_own_tracepoints_are_not_used() {
    let run = |source: &str| -> Said {
        let trace = ["trace", "--json", "--source", source, "--", "true"];
        let mut command = Command::new("unshare");
        apart(command.args(["-pf", "--mount-proc", OVERLOCK]).args(trace).output().unwrap().into())
    };
    let refused = run("tracepoints");
    if refused.stderr.contains("unshare") {
        return skip("only root can make a PID namespace");
    }
    refused.ends(125, "in this PID namespace");
    let other = run("auto");
    other.ends(0, "");
    let source = &other.records("trace-summary")[0]["source"];
    assert!(source.as_str().is_some_and(|name| name.starts_with("preload")), "{other:?}");
}

#[test]
fn bad_requests_have_a_clear_answer() {
    said(&["trace", "--pid", "4194304"]).ends(2, "there is no process 4194304");
    said(&["trace"]).ends(2, "--pid");
    said(&["trace", "--for", "10", "--", "true"]).ends(2, "needs a unit");
    if can_trace() {
        said(&["trace", "--", "/no/such/program"]).ends(125, "can't run /no/such/program");
    }
}

/// The program's standard output and exit code are its own.
#[test]
fn a_traced_program_is_as_without() {
    needs!(can_look());
    for (script, code) in [("echo hello; exit 7", 7), ("echo hello; kill -SEGV $$", 128 + 11)] {
        let said = said(&["trace", "--", "sh", "-c", script]);
        assert_eq!((said.code, &*said.stdout), (Some(code), "hello\n"), "{said:?}");
        assert!(said.stderr.contains("too short a time to say"), "{said:?}");
    }
}
