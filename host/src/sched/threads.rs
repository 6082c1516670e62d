//! The threads that get the scheduler: of processes, or of a cgroup.

#![expect(unsafe_code, reason = "the class of a thread, and signals")]

use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The class of sched_ext, from the kernel's `sched.h`.
const SCHED_EXT: libc::c_int = 7;

/// Where threads are found.
#[derive(Debug)]
pub(crate) enum Source {
    Processes(Vec<u32>),
    Cgroup(PathBuf),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Processes(ids) => write!(f, "{ids:?}"),
            Self::Cgroup(folder) => write!(f, "{}", folder.display()),
        }
    }
}

impl Source {
    /// All threads that are there now.
    pub(crate) fn threads(&self) -> Result<Vec<i32>> {
        match self {
            Self::Processes(ids) => {
                let of = |id: &u32| {
                    let tasks = fs::read_dir(format!("/proc/{id}/task")).ok()?;
                    let names = tasks.flatten().map(|task| task.file_name());
                    Some(names.filter_map(|name| name.to_str()?.parse().ok()).collect::<Vec<i32>>())
                };
                let alive: Vec<Vec<i32>> = ids.iter().filter_map(of).collect();
                if alive.is_empty() {
                    anyhow::bail!("there is no process {ids:?}");
                }
                let mut all = alive.concat();
                all.sort_unstable();
                Ok(all)
            }
            Self::Cgroup(folder) => {
                // A threaded cgroup lists threads only; a plain one's processes have all of theirs.
                let list = folder.join("cgroup.threads");
                let text = fs::read_to_string(list)
                    .with_context(|| format!("there is no cgroup {}", folder.display()))
                    .map_err(|error| anyhow::anyhow!("{error}"))?;
                Ok(text.lines().filter_map(|line| line.parse().ok()).collect())
            }
        }
    }
}

/// Threads that have the scheduler by us.
static TAKEN: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

fn set_class(thread: i32, class: libc::c_int) -> bool {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: a parameter that outlives the call.
    unsafe { libc::sched_setscheduler(thread, class, &raw const none) == 0 }
}

/// Gives threads the scheduler, each once: a thread that has left it has reasons.
pub(crate) fn take(threads: &[i32]) {
    let mut taken = TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for &thread in threads {
        // A thread that has just ended is no error.
        if !taken.contains(&thread) && set_class(thread, SCHED_EXT) {
            taken.insert(thread);
        }
    }
}

/// Gives all threads back to the kernel's own class.
pub(crate) fn give_back() {
    let mut taken = TAKEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    for thread in std::mem::take(&mut *taken) {
        // SAFETY: a number of a thread; one that has ended, or is another's by now, has its own
        // class.
        if unsafe { libc::sched_getscheduler(thread) } == SCHED_EXT {
            set_class(thread, libc::SCHED_OTHER);
        }
    }
}

/// Lets a command start in the scheduler's class, if it is to: its threads are born into it.
pub(crate) fn start_in(command: &mut Command, scheduler: bool) {
    if !scheduler {
        return;
    }
    let enter = || if set_class(0, SCHED_EXT) { Ok(()) } else { Err(io::Error::last_os_error()) };
    // SAFETY: a system call, which a new process may make before it becomes another program.
    unsafe { command.pre_exec(enter) };
}

/// Whether this process may do anything.
pub(crate) fn is_root() -> bool {
    // SAFETY: no arguments.
    unsafe { libc::geteuid() == 0 }
}

/// Whether Ctrl-C or a request to end has come.
pub(crate) static STOP: AtomicBool = AtomicBool::new(false);

/// Lets Ctrl-C and a request to end set [`STOP`].
pub(crate) fn stop_at_signals() {
    extern "C" fn ask(_: libc::c_int) {
        STOP.store(true, Relaxed);
    }
    // SAFETY: zeros are a valid action; the handler stores into an atomic and does nothing else.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = ask as *const () as usize;
        for signal in [libc::SIGINT, libc::SIGTERM] {
            libc::sigaction(signal, &raw const action, std::ptr::null_mut());
        }
    }
}
