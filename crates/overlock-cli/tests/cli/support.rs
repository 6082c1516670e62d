//! The real binary, run as a user would run it.

pub(crate) use crate::said::{Said, heed_signals, skip};
use crate::tally;
use overlock_programs::{Process, processes};
use std::fmt::Display;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const OVERLOCK: &str = env!("CARGO_BIN_EXE_overlock");

/// Makes the command without starting it. A library that does nothing stands in for the preload
/// library, so that preloading changes only the environment, which the test programs read.
pub(crate) fn overlock(args: &[&str]) -> Command {
    let mut command = Command::new(OVERLOCK);
    command.args(args).env("OVERLOCK_PRELOAD", &*STAND_IN).env_remove("OVERLOCK_LOCK");
    command.env_remove("COLUMNS");
    // SAFETY: `signal` is safe to call between fork and exec.
    unsafe { command.pre_exec(heed_signals) };
    command
}

/// Runs the command to its end.
pub(crate) fn said(args: &[&str]) -> Said {
    overlock(args).output().unwrap().into()
}

/// Runs for the first of these times, and for the next ones as long as the result does not show
/// what is `wanted`: how far a command comes in a time depends on what else the machine does.
pub(crate) fn said_until(
    times: &[&str],
    run: impl Fn(&str) -> Said,
    wanted: impl Fn(&Said) -> bool,
) -> Said {
    let (last, shorter) = times.split_last().expect("a time");
    shorter.iter().map(|time| run(time)).find(wanted).unwrap_or_else(|| run(last))
}

/// A library that changes no lock, and counts what a test wants ([`counts`]), with the mark of the
/// preload library after its end, where no loader reads.
pub(crate) static STAND_IN: LazyLock<PathBuf> = LazyLock::new(|| {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plain-stand-in.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/stand_in.c");
    let places = std::mem::offset_of!(tally::Tally, places);
    let claimed = std::mem::offset_of!(tally::Tally, head.claimed);
    let defines = [
        format!("-DSIZE={}", size_of::<tally::Tally>()),
        format!("-DPLACES={places}"),
        format!("-DPLACE_SIZE={}", size_of::<tally::Place>()),
        format!("-DCLAIMED={claimed}"),
        format!("-DCONTENDED={}", tally::FIRST_COUNTER),
    ];
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O1"]).args(defines).arg("-o").arg(&library).arg(source);
    assert!(compiler.status().expect("this needs a C compiler: install gcc").success());
    stand_in("stand-in.so", &library, env!("CARGO_PKG_VERSION"), env!("OVERLOCK_BUILD"))
});

/// Returns the value of `STAND_IN_COUNTS` for which the library that stands in counts this.
pub(crate) fn counts(counts: &[(&str, u64)]) -> String {
    let place = |name: &str| match name {
        "mutex.longest_stall_ns" => std::mem::offset_of!(tally::Place, longest_ns),
        _ => {
            let index = tally::NAMES.iter().position(|known| *known == name).unwrap_or_else(|| {
                let events = overlock::counters::Event::ALL.iter();
                tally::NAMES.len()
                    + events.clone().position(|event| event.name() == name).expect(name)
            });
            tally::FIRST_COUNTER + 8 * index
        }
    };
    let pairs = counts.iter().map(|(name, count)| format!("{}={count} ", place(name)));
    pairs.collect()
}

/// A copy of a library that claims to be a preload library.
pub(crate) fn stand_in(name: &str, library: &Path, version: &str, build: &str) -> PathBuf {
    let mut bytes = fs::read(library).unwrap();
    let mark = format!("\"library\":\"overlock-preload {version} {build} debug\"");
    bytes.extend(mark.into_bytes());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (path, draft) = (folder.join(name), folder.join(format!("{name}.{}", std::process::id())));
    fs::write(&draft, bytes).unwrap();
    fs::rename(draft, &path).unwrap();
    path
}

pub(crate) fn c_library() -> PathBuf {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let paths = maps.lines().filter_map(|line| line.split_whitespace().nth(5));
    paths.map(PathBuf::from).find(|path| path.to_string_lossy().contains("libc.")).unwrap()
}

pub(crate) fn program(folder: &Path, name: &str, bytes: &[u8], mode: u32) -> String {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Writes an experiment's file with the workload micro; returns its folder, which lives as long as
/// the test, and its path.
pub(crate) fn experiment(factors: &str, host: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    let of = "about = ''\nsource = ''\nworkload = 'micro'";
    fs::write(&path, format!("{of}\n[factors]\n{factors}\n[host]\n{host}\n")).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

pub(crate) fn children_of(parent: u32) -> Vec<String> {
    let children =
        processes().into_iter().filter(|process| process.parent.cast_unsigned() == parent);
    children.map(|process| process.pid.to_string()).collect()
}

/// Whether a process runs, as opposed to one that waits to be reaped by whoever inherited it.
pub(crate) fn runs(pid: &str) -> bool {
    Process::of(pid.parse().unwrap()).is_some_and(|process| !process.is_zombie)
}

pub(crate) fn interrupt(pid: u32) {
    send("INT", pid);
}

/// Sends a signal to a process, or to a group if its id has a minus sign, by the shell's own
/// `kill`.
pub(crate) fn send(signal: &str, to: impl Display) {
    let kill = format!("kill -{signal} {to}");
    assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
}

/// Returns when `done` returns true; gives up after a minute.
#[track_caller]
pub(crate) fn wait_until(done: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !done() {
        assert!(Instant::now() < end, "it never came");
        std::thread::sleep(Duration::from_millis(5));
    }
}
