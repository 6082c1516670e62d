// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of the locks that a program can run under.

use anyhow::{Result, bail};

/// The program's own locks: nothing is preloaded.
pub const LIBC: &str = "libc";

/// libc's locks again, under the preload library, which replaces nothing: to measure the cost of
/// that.
pub const NONE: &str = "none";

/// Locks that the preload library offers.
pub const LOCKS: [&str; 4] = ["hybrid", "ticket", "queued", "test-and-set"];

/// Checks the name of a lock for a program.
///
/// # Errors
/// If there is no such lock.
pub fn known(lock: &str) -> Result<()> {
    if [LIBC, NONE].contains(&lock) || LOCKS.contains(&lock) {
        return Ok(());
    }
    bail!(
        "there is no lock '{lock}' for programs; choose from {}, {LIBC}, {NONE}",
        LOCKS.join(", ")
    )
}
