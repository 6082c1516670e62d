// SPDX-License-Identifier: MIT OR Apache-2.0
//! A program, and the environment that makes it use the preload library.

use super::counts::{Counted, Shared};
use super::library::Library;
use super::start::Plan;
use super::{elf, tally};
pub(crate) use crate::units::typed;
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::path::PathBuf;

/// The program's own locks: nothing is preloaded.
pub(crate) const LIBC: &str = "libc";

/// libc's locks again, under the preload library, which replaces nothing: to measure the cost of
/// that.
pub(crate) const NONE: &str = "none";

/// Locks that the preload library offers.
pub(crate) const LOCKS: [&str; 4] = ["hybrid", "ticket", "queued", "test-and-set"];

/// Finds the file of the library.
pub(crate) fn library() -> Result<PathBuf> {
    Library::find().map(|library| library.path.clone())
}

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

/// A program that can run under the requested locks.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) path: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) library: Option<Library>,
}

impl Target {
    /// Finds the program and, if any of `locks` needs it, the library; refuses what can't work.
    pub(crate) fn new(command: &[OsString], locks: &[String]) -> Result<Self> {
        let (program, args) = command.split_first().context("name a program after --")?;
        let path = elf::find(program)?;
        let mut library = None;
        if locks.iter().any(|lock| lock != LIBC) {
            elf::refuse(&path)?;
            library = Some(Library::find()?);
        }
        Ok(Target { path, args: args.to_vec(), library })
    }

    /// Plans how to start the program under `lock`, counting in `shared`.
    pub(crate) fn plan(&self, lock: &str, shared: Option<&Shared>) -> Plan {
        let mut variables = vec![(OsString::from(tally::VARIABLE), None)];
        if let Some(library) = self.library.as_ref().filter(|_| lock != LIBC) {
            let mut list = library.loadable().as_os_str().to_owned();
            if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|list| !list.is_empty()) {
                list.push(":");
                list.push(others);
            }
            variables.push(("LD_PRELOAD".into(), Some(list)));
            variables.push(("OVERLOCK_LOCK".into(), Some(lock.into())));
            if let Some((name, value)) = shared.map(Shared::variable) {
                variables.push((name.into(), Some(value.into())));
            }
        }
        let plan = Plan::new(self.path.clone(), self.args.clone());
        Plan { variables, inherit: shared.map(Shared::descriptor), ..plan }
    }

    /// Explains why no process has counted, although it should have.
    pub(crate) fn unloaded(&self, counted: &Counted) -> String {
        let path = self.library.as_ref().map(|library| library.path.display().to_string());
        let path = path.unwrap_or_default();
        let what = match counted.strangers {
            0 => format!("the dynamic loader did not load {path}"),
            _ => "the dynamic loader loaded a library of Overlock's of another build".to_owned(),
        };
        format!(
            "{what} into {}, which ran with its own locks; look for what it says about LD_PRELOAD, \
             and for what the program does to its environment",
            self.typed()
        )
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
