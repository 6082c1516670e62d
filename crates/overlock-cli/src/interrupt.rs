//! What the user is told after a Ctrl-C.

use crate::output;
use anyhow::{Context, Result};
pub(crate) use overlock_programs::interrupt::{clear_line, flag, seen};

pub(crate) fn watch() -> Result<()> {
    overlock_programs::interrupt::watch().context("could not watch for Ctrl-C")
}

/// Tells the user, if Ctrl-C has come, whether there are results.
pub(crate) fn tell(has_results: bool) {
    if seen() {
        output::complain(match has_results {
            true => "overlock: interrupted; the results are those of what was measured before",
            false => {
                "overlock: interrupted before the end of the first round, so there are no results"
            }
        });
    }
}
