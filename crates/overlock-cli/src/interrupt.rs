// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the user is told after a Ctrl-C.

use crate::output;
use anyhow::{Context, Result};
pub(crate) use overlock_process::interrupt::{clear_line, flag, seen};

/// Starts watching for SIGINT and SIGTERM.
pub(crate) fn watch() -> Result<()> {
    overlock_process::interrupt::watch().context("could not watch for Ctrl-C")
}

/// Tells the user that Ctrl-C came too early for any result.
pub(crate) fn tell_that_nothing_is_done() {
    output::complain(
        "overlock: interrupted before the end of the first round, so there are no results",
    );
}

/// Tells the user, if Ctrl-C has come, whether there are results.
pub(crate) fn tell(has_results: bool) {
    match (seen(), has_results) {
        (false, _) => {}
        (true, true) => output::complain(
            "overlock: interrupted; the results are those of what was measured before",
        ),
        (true, false) => tell_that_nothing_is_done(),
    }
}
