//! Compilers, the libraries that cargo has just built, and programs that must not hang.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A test program that takes longer counts as hung.
const TIMEOUT_S: &str = "120";

/// The same for a program with a fault, which takes less than a second if it does not hang.
const FAULTY_TIMEOUT_S: &str = "10";

/// A language with the compilers that a machine can have for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Language {
    standard: &'static str,
    compilers: [&'static str; 2],
}

pub(crate) const C: Language = Language { standard: "-std=c11", compilers: ["gcc", "clang"] };
pub(crate) const CXX: Language = Language { standard: "-std=c++17", compilers: ["g++", "clang++"] };

impl Language {
    /// Returns the compilers that this machine has; the others are skipped visibly.
    ///
    /// # Panics
    /// If it has none for C.
    pub(crate) fn compilers(self) -> Vec<Compiler> {
        let (present, missing): (Vec<_>, Vec<_>) =
            self.compilers.into_iter().partition(|name| is_present(name));
        for name in missing {
            skip(&format!("what {name} makes of the header: it is not installed"));
        }
        // The README asks for a C compiler, and for no other.
        assert!(!present.is_empty() || self != C, "install one of {:?}", self.compilers);
        present.into_iter().map(|name| Compiler { name, standard: self.standard }).collect()
    }
}

/// A compiler with strict options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Compiler {
    pub(crate) name: &'static str,
    standard: &'static str,
}

impl Compiler {
    /// Returns the compiler's command, without the sources and the output.
    pub(crate) fn command(self) -> Command {
        let mut command = Command::new(self.name);
        command
            .args([self.standard, "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion"])
            .args(["-Wshadow", "-Werror", "-I"])
            .arg(package().join("include"));
        if self.name.ends_with("++") {
            command.arg("-Wold-style-cast");
        }
        command
    }

    /// Compiles `source` and links it with `library`. Returns the program in `folder`.
    pub(crate) fn program(
        self,
        source: &Path,
        library: &Path,
        defines: &[&str],
        folder: &Path,
    ) -> PathBuf {
        let program = folder.join("program");
        let mut command = self.command();
        command.args(defines).arg(source).arg(library).args(private_libs()).arg("-o").arg(&program);
        succeeds(&mut command);
        program
    }
}

/// Reports that something is not tested here, directly to standard error, because the test harness
/// hides output.
pub(crate) fn skip(what: &str) {
    writeln!(io::stderr(), "skipped: {what}").expect("stderr takes a line");
}

/// Returns whether a command can be started.
pub(crate) fn is_present(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success())
}

pub(crate) fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns where cargo has put the libraries, beside this test.
pub(crate) fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().expect("a file is in a folder").to_path_buf()
}

pub(crate) fn static_library() -> PathBuf {
    built().join("liboverlock_c.a")
}

/// Returns the libraries that a program needs beside the static one, from the pkg-config file.
pub(crate) fn private_libs() -> Vec<String> {
    let template = package().join("overlock.pc.in");
    let template = fs::read_to_string(template).expect("the template of the pkg-config file");
    let line = template.lines().find_map(|line| line.strip_prefix("Libs.private:"));
    line.expect("it names the libraries").split_whitespace().map(str::to_owned).collect()
}

/// Runs a program under a time limit.
pub(crate) fn run(program: &Command) -> Output {
    run_until(program, TIMEOUT_S)
}

/// Runs a program that is faulty, and waits for less time if it hangs.
pub(crate) fn run_faulty(program: &Command) -> Output {
    run_until(program, FAULTY_TIMEOUT_S)
}

fn run_until(program: &Command, seconds: &str) -> Output {
    let mut command = Command::new("timeout");
    command.arg(seconds).arg(program.get_program());
    for (name, value) in program.get_envs() {
        command.env(name, value.unwrap_or_default());
    }
    output(&mut command)
}

/// Runs a command that must succeed.
#[track_caller]
pub(crate) fn succeeds(command: &mut Command) -> String {
    let out = output(command);
    assert!(
        out.status.success(),
        "{command:?}: {}\n{}{}",
        out.status,
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).expect("text")
}

#[track_caller]
fn output(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?} can't be started: {error}"))
}
