//! The project's chores: `cargo xtask`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a tool for people")]

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

mod debian;
mod dist;
mod follow;
mod peers;
mod results;
mod roots;
mod suites;
mod targets;
mod test;
mod tidy;
mod weak;

const HELP: &str = "\
cargo xtask COMMAND

  ci       run what the integration machine runs: .ci/run; names the packages that are missing,
           and installs them only with [--install], or if CI=true is set
  roots    test the preload library in roots of Debian 12 and 13, which have other versions of
           glibc; needs root and debootstrap, and skips visibly without them
  dist     build target/dist: one archive with the command, the preload library, the C library,
           manual pages and completions, and a Debian package of the same files
  installed  build both twice, compare them, and test what is in the archive
  debian   install, test and remove the package in clean roots of Debian 12 and 13, or of the
           suites that are named
  reference  make the tables of columns in crates/overlock-cli/reference.md from the columns
  results FILE...  fill the tables of README.md, docs/results.md, docs/family.md and
           docs/simulator.md from files that `bench` and `compare` wrote with --out
  parking-lot  run the tests of parking_lot with our crate under its name; fetches them, and skips
           visibly where it can't
  spin     the same for spin
  suites [CRATE]...  run the tests of crates over parking_lot and spin, as they are and with Overlock's
           locks put there by compat/patch, and fill the table of docs/suites.md
  follow   step through lock() to the futex, under gdb, and print each function and file that it
           enters; there is a most of each; skips visibly without gdb
  targets  check what is promised of other machines (32 bits, kernels, Android), and of programs
           with two versions of the crate, or with it in a shared library; [--install] adds the
           targets that the toolchain lacks; skips visibly
  test     run all tests of this workspace; the last line counts what was skipped, and says what
           would bring it
  tidy     check the rules of STYLE.md that a program can check (also a test)
  verify   run the long checks: models with one preemption more, every ordering, more rounds of the
           preload library's suites, and six hours of torture for all that can be tortured;
           [--for TIME] torture them for TIME instead, in all
  weak     check weak memory: miri, the orderings in aarch64 code, and suites under qemu-user;
           as far as this machine has the tools, with a list of what it skipped; [--install] adds
           the target that the toolchain lacks
  help     print this text

Exit codes: 0 fine, 1 a check failed, 2 could not run.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["ci"] if std::env::var_os("CI").is_none_or(|ci| ci != "true") => {
            run(Command::new("bash").args([".ci/run", "--no-install"]))
        }
        ["ci"] | ["ci", "--install"] => run(Command::new("bash").arg(".ci/run")),
        ["roots"] => roots::check(),
        ["dist"] => dist::dist(),
        ["installed"] => dist::check_installed(),
        ["debian", ref suites @ ..] => dist::check_in_roots(suites),
        ["reference"] => reference(),
        ["parking-lot"] => peers::check(&peers::PARKING_LOT),
        ["follow"] => follow::check(),
        ["spin"] => peers::check(&peers::SPIN),
        ["suites", ref crates @ ..] => suites::check(crates),
        ["results", ref files @ ..] if !files.is_empty() => results::write(&root(), files),
        ["targets"] => targets::check(false),
        ["targets", "--install"] => targets::check(true),
        ["test"] => test::check(),
        ["tidy"] => tidy(),
        ["verify"] => verify("6h"),
        ["verify", "--for", time] => verify(time),
        ["weak"] => weak::check(false),
        ["weak", "--install"] => weak::check(true),
        ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(true)
        }
        _ => {
            eprintln!("{HELP}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_owned).unwrap_or_default()
}

/// Cargo's target folder.
fn target() -> Result<PathBuf> {
    // This program is in one: TARGET/PROFILE/xtask.
    let program = std::env::current_exe()?;
    program.ancestors().nth(2).map(Path::to_owned).context("xtask is not where cargo puts it")
}

/// Runs a command in the root; returns whether it succeeded.
fn run(command: &mut Command) -> Result<bool> {
    println!("+ {command:?}");
    let status = command.current_dir(root()).status();
    Ok(status.with_context(|| format!("{command:?} did not start"))?.success())
}

/// Makes the tables of the reference from the columns.
fn reference() -> Result<bool> {
    let test = ["test", "-p", "overlock-cli", "--bin", "overlock", "the_page_is_made"];
    run(Command::new(env!("CARGO")).args(test).env("OVERLOCK_BLESS", "1"))
}

fn tidy() -> Result<bool> {
    let found = tidy::check(&root())?;
    for line in &found {
        println!("{line}");
    }
    println!("tidy: {} found", found.len());
    Ok(found.is_empty())
}

fn verify(time: &str) -> Result<bool> {
    let cargo = || Command::new(env!("CARGO"));
    let long = ["test", "--release", "-p", "overlock", "--all-features"];
    let mut sound = run(cargo().args(long).env("OVERLOCK_VERIFY", "long"))?;
    let preload = ["test", "--release", "-p", "overlock-preload", "--test", "preload"];
    sound &= run(cargo().args(preload).env("OVERLOCK_VERIFY", "long"))?;
    let verdicts = ["test", "--release", "-p", "overlock-cli", "--test", "cli", "the_verdicts"];
    sound &= run(cargo().args(verdicts).env("OVERLOCK_VERIFY", "long"))?;
    // Every subject that there is: the command knows them all.
    let torture = ["run", "--release", "-p", "overlock-cli", "--", "torture", "--lock", "all"];
    Ok(run(cargo().args(torture).args(["--for", time]))? && sound)
}
