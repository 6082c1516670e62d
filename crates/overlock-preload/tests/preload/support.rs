//! Compiling and running the C programs, with and without the library.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::{Mutex, OnceLock};

pub(crate) use crate::built::library;

/// The locks that `OVERLOCK_LOCK` chooses from.
pub(crate) const LOCKS: [&str; 4] = ["hybrid", "ticket", "queued", "test-and-set"];

/// Compiles `tests/posix/SOURCE` to an executable, or to a shared object if `flags` say so. `name`
/// keeps tests apart that run at once.
pub(crate) fn compile(source: &str, name: &str, flags: &[&str]) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/posix");
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let (compiler, standard) =
        if source.ends_with(".cc") { ("c++", "-std=gnu++17") } else { ("cc", "-std=gnu11") };
    let result = Command::new(compiler)
        .args([standard, "-O2", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(flags)
        .arg(folder.join(source))
        .arg("-o")
        .arg(&output)
        .output()
        .unwrap_or_else(|error| panic!("can't run {compiler}: {error}; install a C compiler"));
    assert!(result.status.success(), "{source}: {}", String::from_utf8_lossy(&result.stderr));
    output
}

/// The executable of `tests/posix/SOURCE`, which is compiled once for all tests.
pub(crate) fn program(source: &str) -> &'static Path {
    static PROGRAMS: Mutex<BTreeMap<String, &'static OnceLock<PathBuf>>> =
        Mutex::new(BTreeMap::new());
    let cell: &'static OnceLock<_> = {
        let mut programs = PROGRAMS.lock().expect("nothing panics while it is locked");
        programs.entry(source.to_owned()).or_insert_with(|| Box::leak(Box::default()))
    };
    // Tests that need other programs compile them at the same time.
    cell.get_or_init(|| compile(source, &source.replace('.', "-"), &[]))
}

/// Returns whether there is a C++ compiler; if not, says that its programs are skipped.
pub(crate) fn has_cxx() -> bool {
    let result = Command::new("c++").arg("--version").output();
    if let Err(error) = &result {
        writeln!(std::io::stderr(), "skipped: C++ programs: c++ does not run: {error}")
            .expect("a terminal or a file");
    }
    result.is_ok()
}

pub(crate) fn under(lock: &str, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_PRELOAD", library()).env("OVERLOCK_LOCK", lock);
    command
}

/// Both streams of a program that has ended.
pub(crate) fn text(output: &Output) -> String {
    [&output.stdout[..], &output.stderr[..]].map(String::from_utf8_lossy).concat()
}
