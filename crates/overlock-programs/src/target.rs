//! A program, and the environment that makes it use the preload library.

use crate::counts::{Counted, Shared, VARIABLE};
use crate::elf::{self, Foreign};
use crate::library::{Library, preload_list};
use crate::locks::LIBC;
use crate::starter::Launch;
use anyhow::{Context, Result, anyhow};
use overlock_results::units::typed;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Debug)]
pub struct Target {
    pub path: PathBuf,
    pub args: Vec<OsString>,
    pub library: Option<Library>,
}

impl Target {
    /// Finds the program and, if any of `locks` needs it, the library; refuses what can't work.
    pub fn new(command: &[OsString], locks: &[String]) -> Result<Self> {
        let (program, args) = command.split_first().context("name a program after --")?;
        let path = elf::find(program)?;
        let mut library = None;
        if locks.iter().any(|lock| lock != LIBC) {
            elf::refuse(&path).map_err(|why| {
                match why.chain().any(|part| part.is::<Foreign>()) {
                    true => anyhow!("{why:#}; `overlock trace` shows why its threads wait"),
                    false => why,
                }
            })?;
            library = Some(Library::find()?);
        }
        Ok(Target { path, args: args.to_vec(), library })
    }

    /// Plans how to start the program under `lock`, counting in `shared`.
    pub fn plan(&self, lock: &str, shared: Option<&Shared>) -> Launch {
        let mut variables = vec![(OsString::from(VARIABLE), None)];
        if let Some(library) = self.library.as_ref().filter(|_| lock != LIBC) {
            let list = preload_list(&library.loadable());
            variables.push(("LD_PRELOAD".into(), Some(list)));
            variables.push(("OVERLOCK_LOCK".into(), Some(lock.into())));
            if let Some((name, value)) = shared.map(Shared::variable) {
                variables.push((name.into(), Some(value.into())));
            }
        }
        let plan = Launch::new(self.path.clone(), self.args.clone());
        Launch { variables, inherit: shared.map(Shared::descriptor), ..plan }
    }

    /// Explains why no process has counted, although it should have.
    pub fn unloaded(&self, counted: &Counted) -> String {
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

    pub fn typed(&self) -> String {
        let words: Vec<String> = [self.path.as_os_str()]
            .into_iter()
            .chain(self.args.iter().map(|arg| &**arg))
            .map(typed)
            .collect();
        words.join(" ")
    }
}
