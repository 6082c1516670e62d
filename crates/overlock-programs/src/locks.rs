//! The names of the locks that a program can run under.

use anyhow::{Result, bail};

pub use overlock_results::row::{LIBC, NONE};

/// Locks that the preload library offers.
pub const LOCKS: [&str; 4] = ["hybrid", "ticket", "queued", "test-and-set"];

pub fn known(lock: &str) -> Result<()> {
    if [LIBC, NONE].contains(&lock) || LOCKS.contains(&lock) {
        return Ok(());
    }
    bail!(
        "there is no lock '{lock}' for programs; choose from {}, {LIBC}, {NONE}",
        LOCKS.join(", ")
    )
}
