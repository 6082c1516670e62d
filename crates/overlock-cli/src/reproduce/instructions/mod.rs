// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an uncontended pair of lock and unlock executes: native, compiled in but switched off, and
//! switched on. That is what S1 is about, and what its listings show.
//!
//! Counted and not timed: by single steps, in processes of their own (this program again), for a
//! process finds out when it starts how its locks are released. Kernels, S1's among them, release
//! by an instruction that changes the lock; so do threads whose C library registers no restartable
//! sequences, which is what `GLIBC_TUNABLES` brings about here. Where there are sequences, they are
//! counted too.

pub(super) mod cost;
mod sequences;
mod step;

use crate::interrupt;
use anyhow::{Context, Result, bail, ensure};
use overlock::platform::{Native, Threads};
use overlock::{Hybrid, Queued, TestAndSet, Ticket};
use overlock_bench::child::{self, Finished};
use overlock_world::experiment::Published;
use overlock_world::locks::verbs::Compiled;
use overlock_world::locks::{Build, Lock};
use serde::{Deserialize, Serialize};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;
use step::{Executed, executed};

/// The figures that are counted here, by name.
pub(super) const FIGURES: [&str; 2] = ["pair_instructions", "pair_locked"];

/// Whether this is one of them.
pub(super) fn counts(published: &Published) -> bool {
    FIGURES.contains(&published.figure.as_str())
}

/// How a lock without waiters is released.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Release {
    /// By an instruction that changes the word.
    Instruction,
    /// By a restartable sequence.
    Sequence,
}

impl Release {
    const fn name(self) -> &'static str {
        match self {
            Self::Instruction => "instruction",
            Self::Sequence => "sequence",
        }
    }
}

/// What an uncontended pair of one lock executes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Pair {
    lock: String,
    release: Release,
    locking: Executed,
    unlocking: Executed,
}

impl Pair {
    /// Both halves together.
    fn both(&self) -> Executed {
        Executed {
            instructions: self.locking.instructions + self.unlocking.instructions,
            locked: self.locking.locked + self.unlocking.locked,
        }
    }
}

/// One of [`FIGURES`] of the lock called `lock`, released by an instruction, as in a kernel.
pub(super) fn value(pairs: &[Pair], lock: &str, figure: &str) -> Result<f64> {
    let is_it = |pair: &&Pair| pair.lock == lock && pair.release == Release::Instruction;
    let pair = pairs.iter().find(is_it);
    let both = pair.with_context(|| format!("the pair of {lock} was not counted"))?.both();
    Ok(if figure == FIGURES[0] { both.instructions } else { both.locked }.into())
}

/// Counts the pairs of these locks, each released by an instruction and, where there are
/// restartable sequences and the lock uses them, by one.
pub(super) fn count(locks: &[String]) -> Result<Vec<Pair>> {
    let mut pairs = count_apart(locks, Release::Instruction)?;
    pairs.extend(count_apart(locks, Release::Sequence)?);
    Ok(pairs)
}

/// The tunable of the GNU C library that says whether it registers restartable sequences.
const TUNABLE: &str = "glibc.pthread.rseq";

/// How long the counting of all locks may take: a thousand times what it takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Has another process of this program count.
fn count_apart(locks: &[String], release: Release) -> Result<Vec<Pair>> {
    let others = std::env::var("GLIBC_TUNABLES").unwrap_or_default();
    let others = others.split(':').filter(|set| !set.is_empty() && !set.starts_with(TUNABLE));
    let own = format!("{TUNABLE}={}", u8::from(release == Release::Sequence));
    let tunables: Vec<&str> = others.chain([own.as_str()]).collect();
    let mut command = Command::new("/proc/self/exe");
    command.arg0("overlock").arg("count-child").args(locks);
    command.env("GLIBC_TUNABLES", tunables.join(":")).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let finished = child::finish(&mut command, Some(PATIENCE), interrupt::flag());
    let (exit, stdout, stderr) =
        match finished.context("could not start a process that counts instructions")? {
            Finished::Exited { exit, stdout, stderr } => (exit, stdout, stderr),
            Finished::TooLong => bail!("no end after {} s", PATIENCE.as_secs()),
            Finished::Cancelled => bail!("interrupted"),
        };
    let why = String::from_utf8_lossy(&stderr);
    ensure!(exit.status.success(), "{}", why.trim().trim_start_matches("overlock: "));
    let pairs: Vec<Pair> =
        serde_json::from_slice(&stdout).context("the process that counts instructions has died")?;
    Ok(pairs.into_iter().filter(|pair| pair.release == release).collect())
}

/// The child's side: prints the pairs of these locks as one line of JSON.
pub(crate) fn obey(locks: &[String]) -> Result<()> {
    let pairs: Vec<Pair> = locks.iter().map(|lock| pair_named(lock)).collect::<Result<_>>()?;
    crate::output::print(&serde_json::to_string(&pairs)?)
}

fn pair_named(name: &str) -> Result<Pair> {
    let Some(lock) = Lock::named(name) else { bail!("there is no lock '{name}'") };
    let build = lock.build();
    let pair = match (build, lock.family()) {
        (Build::Native, "ticket") => pair::<Ticket<Native>>(build, false),
        (Build::Native, "test-and-set") => pair::<TestAndSet<Native>>(build, false),
        (Build::Native, "queued") => pair::<Queued<Native>>(build, false),
        (Build::Native, "hybrid") => pair::<Hybrid<Native>>(build, false),
        (Build::Off | Build::Paravirtual, "ticket") => pair::<Ticket<Threads>>(build, true),
        (Build::Off | Build::Paravirtual, "test-and-set") => {
            pair::<TestAndSet<Threads>>(build, false)
        }
        (Build::Off | Build::Paravirtual, "queued") => pair::<Queued<Threads>>(build, true),
        (Build::Off | Build::Paravirtual, "hybrid") => pair::<Hybrid<Threads>>(build, true),
        _ => bail!("the instructions of {name} can't be counted: no thread can use it"),
    };
    pair.map(|pair| Pair { lock: name.to_owned(), ..pair })
}

/// Counts for a lock of this build, which has a restartable sequence to release it or not.
fn pair<L: Compiled>(build: Build, has_one: bool) -> Result<Pair> {
    let lock = L::NEW;
    let sequence = has_one && Threads::has_restartable_sequences();
    // In the child: the switch is thrown before the first lock is taken, and steps don't cut a
    // sequence off.
    let prepare = || {
        (build != Build::Off || Threads::set_waiting(false)) && (!sequence || sequences::outlast())
    };
    // SAFETY: no thread holds the lock, which is this process's own; it has one thread.
    let locking = unsafe { executed(L::LOCK, &lock, prepare) }?;
    let taken = || {
        let ready = prepare();
        lock.lock();
        ready
    };
    // SAFETY: as above, and the child has taken it in `taken`.
    let unlocking = unsafe { executed(L::UNLOCK, &lock, taken) }?;
    let release = if sequence { Release::Sequence } else { Release::Instruction };
    Ok(Pair { lock: String::new(), release, locking, unlocking })
}
