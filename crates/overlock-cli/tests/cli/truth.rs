//! Programs that do one thing to a lock's holder on purpose and keep their own record of it, and
//! what a trace says of them.

use crate::support::{OVERLOCK, Said, overlock, said, said_until, skip};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::{LazyLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The traced programs whose threads do little but sleep.
const SLEEPERS: [&str; 15] = [
    "asleep", "chain", "faults", "forever", "hangs", "kinds", "leaves", "orphans", "raw", "reads",
    "shared", "turns", "unseen", "waits", "writers",
];

type Turn = (Option<RwLockReadGuard<'static, ()>>, Option<RwLockWriteGuard<'static, ()>>);

/// Waits until a program may be traced. Only sleepers are traced beside others: the threads of the
/// rest ask for processors of their own, and one of them has real-time priority.
pub(crate) fn turn(name: &str) -> Turn {
    static TURNS: RwLock<()> = RwLock::new(());
    match SLEEPERS.contains(&name) {
        true => (Some(TURNS.read().unwrap_or_else(PoisonError::into_inner)), None),
        false => (None, Some(TURNS.write().unwrap_or_else(PoisonError::into_inner))),
    }
}

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

/// Compiles a program in a folder that lasts as long as the folder's name.
pub(crate) fn compiled(name: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = program(folder.path(), name);
    (folder, path)
}

/// Starts a program without the kernel's records, as in a container that forbids them.
static WITHOUT: LazyLock<String> =
    LazyLock::new(|| program(Path::new(env!("CARGO_TARGET_TMPDIR")), "without"));

/// Traces a program by a source, as far as its output is whole: on a very busy machine events can
/// be lost, and are counted. `ours` is a preloaded library in front of our own locks.
pub(crate) fn run(source: &str, subject: &str, args: &[&str]) -> Said {
    let (flag, is_blind) = match source {
        "preload-accounts" => ("preload", true),
        "coarse-looks" => ("looks", true),
        "ours" => ("preload", false),
        source => (source, false),
    };
    let once = |_: &str| {
        let mut command = overlock(&[]);
        if is_blind {
            command = Command::new(&*WITHOUT);
            command.arg(OVERLOCK);
        }
        if source == "ours" {
            command.env("LD_PRELOAD", crate::built::library());
        }
        command.args(["trace", "--source", flag, "--json", "--", subject]).args(args);
        apart(command.output().unwrap().into())
    };
    let is_whole = |said: &Said| said.records("trace-summary").iter().all(|one| one["lost"] == 0);
    let said = said_until(&["first", "second", "third"], once, is_whole);
    assert_eq!(said.code, Some(0), "{said:?}");
    let told = if source == "ours" { flag } else { source };
    assert_eq!(said.records("trace-summary")[0]["source"], told, "{said:?}");
    said
}

/// Traces a program that says nothing of itself.
pub(crate) fn traced(source: &str, name: &str) -> Said {
    let folder = tempfile::tempdir().unwrap();
    let program = program(folder.path(), name);
    let _turn = turn(name);
    told(&["trace", "--source", source, "--json", "--", &program])
}

/// Runs a trace of a program, and takes the records that it writes to standard error, which it
/// shares with the program, for its standard output.
pub(crate) fn told(args: &[&str]) -> Said {
    apart(said(args))
}

/// Parts records from what else is on standard error; the program's output goes there.
pub(crate) fn apart(said: Said) -> Said {
    let is_record = |line: &&str| line.starts_with('{') && !line.contains("\"kind\":\"truth\"");
    let (records, rest): (Vec<&str>, Vec<&str>) = said.stderr.lines().partition(is_record);
    let lines = |lines: Vec<&str>| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    let stderr = lines(rest) + &said.stdout;
    Said { stdout: lines(records), stderr, ..said }
}

/// Returns the first of some records that is of a function, if there is one.
pub(crate) fn in_function(records: Vec<Value>, function: &str) -> Option<Value> {
    let is_it = |one: &Value| one["where"].as_str().is_some_and(|at| at.starts_with(function));
    records.into_iter().find(is_it)
}

/// Returns the first record of a kind that is of a function.
#[track_caller]
pub(crate) fn row(said: &Said, kind: &str, function: &str) -> Value {
    in_function(said.records(kind), function).unwrap_or_else(|| panic!("no {function}: {said:?}"))
}

/// Returns whether the kernel's tracepoints can be used here, and reports it if they can't.
pub(crate) fn can_trace() -> bool {
    static CAN: LazyLock<bool> = LazyLock::new(|| works("tracepoints"));
    *CAN
}

/// Ends a test that can't be made here; what is asked has reported why.
macro_rules! needs {
    ($can:expr) => {
        if !$can {
            return;
        }
    };
}
pub(crate) use needs;

/// Returns whether threads can be looked at here, and reports it if they can't.
pub(crate) fn can_look() -> bool {
    static CAN: LazyLock<bool> = LazyLock::new(|| works("looks"));
    *CAN
}

fn works(source: &str) -> bool {
    let said = said(&["trace", "--source", source, "--", "true"]);
    if said.code != Some(0) {
        skip(said.stderr.trim());
    }
    said.code == Some(0)
}

/// What a program says of itself, and what the trace says.
#[derive(Debug)]
pub(crate) struct Both {
    pub(crate) truth: Value,
    pub(crate) said: Said,
}

/// What a trace says if its looks came so rarely that there is nothing to compare.
const RARE: &str = "a look at the threads only";
/// What a test says if a program did not get the processors that its experiment needs.
pub(crate) const STARVED: &str = "there was no processor to be seen on";

impl Both {
    pub(crate) fn by(source: &str, name: &str, args: &[&str]) -> Self {
        let (_folder, program) = compiled(name);
        Both::of_turn(name, source, &program, args)
    }

    /// Traces a program when a program of this name may be.
    pub(crate) fn of_turn(name: &str, source: &str, program: &str, args: &[&str]) -> Self {
        let _turn = turn(name);
        Both::of(run(source, program, args))
    }

    #[track_caller]
    pub(crate) fn of(said: Said) -> Self {
        let line = said.stderr.lines().find(|line| line.contains("\"truth\"")).expect(&said.stderr);
        Both { truth: serde_json::from_str(line).unwrap(), said }
    }

    pub(crate) fn summary(&self) -> Value {
        self.said.records("trace-summary").remove(0)
    }

    /// Returns the record of the waits in a function, if there is one.
    pub(crate) fn find(&self, function: &str) -> Option<Value> {
        in_function(self.said.records("trace-lock"), function)
    }

    /// Returns a trace that `agrees` with its program. On a busy machine looks can be rare, and
    /// what is estimated from them rough: then the program runs again. Five runs that could tell
    /// and differ are wrong; after five that could not, the test is skipped.
    #[track_caller]
    pub(crate) fn that(
        run: impl Fn() -> Both,
        agrees: impl Fn(&Both) -> Result<(), String>,
    ) -> Both {
        let (mut differences, mut void) = (Vec::new(), 0);
        while differences.len() < 5 {
            let both = run();
            let Err(difference) = agrees(&both) else { return both };
            let is_whole = both.summary()["lost"] == 0;
            if is_whole && !difference.contains(RARE) && !difference.contains(STARVED) {
                differences.push(difference);
                continue;
            }
            void += 1;
            if void == 5 {
                skip(&difference);
                return both;
            }
        }
        panic!("{}", differences.join("\n"));
    }

    /// Asserts that the waits in `waits` are split as the program says, to within 10 points. What
    /// it did before its section, while the waiter waited already, is in no share of it.
    #[track_caller]
    pub(crate) fn agree(&self) -> Result<(), String> {
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
            ("asleep", truth("asleep")),
            ("late", truth("late")),
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
