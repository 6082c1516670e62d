//! What a program of another workspace adds to this command, and how it is found.

use crate::worlds::Options;
use anyhow::{Context, Result, bail};
use overlock_bench::World;
use overlock_results::locks::PUBLISHED;
use overlock_results::row::Symptom;
use overlock_sim::hosts::More;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// Worlds and experiments that this command does not have by itself.
#[derive(Clone, Copy, Debug)]
pub struct Added {
    pub experiments: &'static [(&'static str, &'static str)],
    /// The names of worlds, and the experiment that is measured in each if no other is named.
    pub worlds: &'static [(&'static str, &'static str)],
    pub open: fn(&str, &Options) -> Result<Box<dyn World>>,
    /// What a world needs that is not here, or nothing: for `doctor`.
    pub missing: fn(&str) -> Result<()>,
    pub locks: &'static [&'static str],
    /// What simulations have besides: locks and schedulers.
    pub more: More,
}

/// The programs that add something to `bench`, the folder that each is built from, and the names of
/// what it adds.
const PROGRAMS: [(&str, &str, &[&str]); 2] = [
    ("overlock-kernels", "kernels/command", &["tcg", "kvm-guest", "xen"]),
    (
        "overlock-papers",
        "papers",
        &[
            "s1",
            "s2-kernbench",
            "s2-oltp",
            "s2-ebizzy",
            "s3",
            "s4-36-cores",
            "s4-16-cores",
            "s4-micro",
            "s5",
        ],
    ),
];

/// The same of the program that adds verbs.
const HOST: (&str, &str, &[&str]) = ("overlock-host", "host", &["replay", "host"]);

impl Added {
    /// What the command adds to itself.
    pub const NOTHING: Self = Self {
        experiments: &[],
        worlds: &[],
        open: |name, _| bail!("there is no world {name}"),
        missing: |_| Ok(()),
        locks: &[],
        more: More::NOTHING,
    };

    pub(crate) fn tour(&self, world: &str) -> Option<&'static str> {
        self.worlds.iter().find(|(name, _)| *name == world).map(|(_, experiment)| *experiment)
    }

    pub(crate) fn open(&self, name: &str, options: &Options) -> Result<Box<dyn World>> {
        match self.tour(name) {
            Some(_) => (self.open)(name, options),
            None => crate::worlds::open(name, options),
        }
    }

    /// Becomes the program that has the world, experiment or lock `name`, with the same command
    /// line, if another program has it and this one has not. That program is beside this one, or in
    /// PATH.
    pub(crate) fn leave_to_others(&self, name: &str) -> Result<()> {
        let own = self.worlds.iter().chain(self.experiments).any(|(known, _)| *known == name);
        let own = own || self.locks.iter().any(|lock| name.starts_with(lock));
        let is_published = PUBLISHED.iter().any(|lock| name.starts_with(lock));
        let has = |(program, _, names): &&(&str, &str, &[&str])| {
            !own && (names.contains(&name) || is_published && *program == "overlock-papers")
        };
        let Some((program, folder, _)) = PROGRAMS.iter().find(has) else { return Ok(()) };
        become_program(name, program, folder)
    }

    /// Finds out what can run of the worlds that this program has, or of those that another one
    /// would have.
    pub(crate) fn findings(&self) -> Vec<Symptom> {
        // What the laboratory needs, `doctor` says of it anyway.
        let own = self.worlds.iter().filter(|(world, _)| *world != "kvm");
        let own = own.map(|(world, _)| {
            let finding = |found: String| Symptom::new(world, found);
            match (self.missing)(world) {
                Ok(()) => finding(format!("usable: `bench --in {world}`")),
                Err(why) => finding(format!("not usable: {why:#}"))
                    .advise(true, format!("until then there is no `bench --in {world}`")),
            }
        });
        let others = PROGRAMS.iter().chain([&HOST]).filter(|(.., names)| {
            !self.worlds.iter().chain(self.experiments).any(|(own, _)| names.contains(own))
        });
        let others = others.map(|(program, folder, names)| {
            let names = names.join(", ");
            match Command::new(path(program)).arg("--version").output() {
                Ok(said) if said.status.success() => {
                    let more = if *program == HOST.0 { "--help" } else { "doctor" };
                    Symptom::new(program, format!("installed, for {names}: `{program} {more}`"))
                }
                _ => Symptom::new(program, "not installed").advise(
                    true,
                    format!("`cargo install --locked --path {folder}` brings it, for {names}"),
                ),
            }
        });
        own.chain(others).collect()
    }
}

/// Where a program of ours is: beside this one, or else in PATH.
fn path(program: &str) -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name(program));
    beside.filter(|beside| beside.exists()).unwrap_or_else(|| program.into())
}

/// Becomes the program that has the verb, if it is another's.
pub(crate) fn leave_verb(verb: &str) -> Result<()> {
    let (program, folder, verbs) = HOST;
    if !verbs.contains(&verb) {
        return Ok(());
    }
    become_program(verb, program, folder)
}

fn become_program(name: &str, program: &str, folder: &str) -> Result<()> {
    match Command::new(path(program)).args(std::env::args_os().skip(1)).exec() {
        error if error.kind() == ErrorKind::NotFound => bail!(
            "{name} needs the program {program}: `cargo install --locked --path {folder}` in the \
             source tree of Overlock brings it"
        ),
        error => Err(error).with_context(|| format!("can't run {program}")),
    }
}
