// SPDX-License-Identifier: MIT OR Apache-2.0
//! The place of the preload library, and the environment that makes a program use it.

use super::run::COUNTERS;
use super::{bundle, elf};
pub(crate) use crate::units::typed;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// The program's own locks: nothing is preloaded.
pub(crate) const LIBC: &str = "libc";

/// libc's locks again, under the preload library, which replaces nothing: to measure the cost of
/// that.
pub(crate) const NONE: &str = "none";

/// Locks that the preload library offers.
pub(crate) const LOCKS: [&str; 4] = ["hybrid", "ticket", "queued", "test-and-set"];

const LIBRARY: &str = "liboverlock_preload.so";

/// The variable that names the library's file if it isn't in one of its usual places.
const OVERRIDE: &str = "OVERLOCK_PRELOAD";

/// Checks the name of a lock for a program.
pub(crate) fn known(lock: &str) -> Result<()> {
    if [LIBC, NONE].contains(&lock) || LOCKS.contains(&lock) {
        return Ok(());
    }
    bail!(
        "there is no lock '{lock}' for programs; choose from {}, {LIBC}, {NONE}",
        LOCKS.join(", ")
    )
}

/// The folder of an installed library, relative to this program's.
const INSTALLED: &str = "../lib/overlock";

/// The folders where cargo builds it, likewise.
const BUILT: [&str; 4] = [".", "deps", "../release", "../debug"];

/// Finds the library: the one that the variable names, the one installed with this program, the one
/// inside it, or the one that cargo has built beside it.
pub(crate) fn library() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(OVERRIDE) {
        let path = PathBuf::from(path);
        let path = path
            .canonicalize()
            .and_then(|path| File::open(&path).map(|_| path))
            .with_context(|| format!("{OVERRIDE} names {}, which can't be read", path.display()))?;
        elf::refuse_library(&path).with_context(|| format!("{OVERRIDE} names the wrong file"))?;
        return Ok(path);
    }
    let program = std::env::current_exe().context("can't tell where this program is")?;
    let folder = program.parent().context("this program is in no folder")?;
    let file = |place: &str| folder.join(place).join(LIBRARY).canonicalize().ok();
    if let Some(installed) = file(INSTALLED) {
        elf::refuse_library(&installed).context("the installation is of two versions")?;
        return Ok(installed);
    }
    // A user who builds only the library wants to use that one.
    let is_newer = |path: &PathBuf| modified(path) > modified(&program);
    match BUILT.iter().find_map(|place| file(place)) {
        Some(built) if !bundle::is_here() || is_newer(&built) => {
            elf::refuse_library(&built)?;
            Ok(built)
        }
        _ if bundle::is_here() => bundle::unpacked(LIBRARY),
        _ => bail!(
            "there is no {LIBRARY} beside {}, nor in {INSTALLED}, and a build without --release \
             contains none; build it with\n  cargo build -p overlock-preload\nor name it in {OVERRIDE}",
            program.display()
        ),
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|meta| meta.modified()).ok()
}

/// A program that can run under the requested locks.
#[derive(Debug)]
pub(crate) struct Target {
    path: PathBuf,
    args: Vec<OsString>,
    library: Option<PathBuf>,
}

impl Target {
    /// Finds the program and, if any of `locks` needs it, the library; refuses what can't work.
    pub(crate) fn new(command: &[OsString], locks: &[String]) -> Result<Self> {
        let (program, args) = command.split_first().context("name a program after --")?;
        let path = elf::find(program)?;
        let mut library = None;
        if locks.iter().any(|lock| lock != LIBC) {
            elf::refuse(&path)?;
            library = Some(self::library()?);
        }
        Ok(Target { path, args: args.to_vec(), library })
    }

    /// Makes the command that runs the program under `lock`.
    pub(crate) fn command(&self, lock: &str) -> Command {
        let mut command = Command::new(&self.path);
        command.args(&self.args);
        command.env_remove(COUNTERS);
        if lock == LIBC {
            return command;
        }
        if let Some(library) = &self.library {
            let mut list = library.clone().into_os_string();
            if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|list| !list.is_empty()) {
                list.push(":");
                list.push(others);
            }
            command.env("LD_PRELOAD", list).env("OVERLOCK_LOCK", lock);
        }
        command
    }

    /// Returns the command as a user would type it.
    pub(crate) fn typed(&self) -> String {
        let words: Vec<String> = [self.path.as_os_str()]
            .into_iter()
            .chain(self.args.iter().map(|arg| &**arg))
            .map(typed)
            .collect();
        words.join(" ")
    }
}
