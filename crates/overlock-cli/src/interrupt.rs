// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ctrl-C: remembered, so that what was measured can still be printed. A second one kills.

use crate::output;
use anyhow::{Context, Result};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

static SEEN: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Begins to watch for SIGINT and SIGTERM.
pub(crate) fn watch() -> Result<()> {
    let seen = SEEN.get_or_init(Arc::default);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // The conditional comes first, so that it acts on the second signal and not on the first.
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(seen))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(seen)))
            .context("could not watch for Ctrl-C")?;
    }
    Ok(())
}

/// Tells the user that it came too early for any result.
pub(crate) fn tell_that_nothing_is_done() {
    output::complain(
        "overlock: ended before the first round was over, so there is nothing to tell",
    );
}

/// Says whether one has come.
pub(crate) fn seen() -> bool {
    flag().load(Relaxed)
}

/// The flag that says so.
pub(crate) fn flag() -> &'static AtomicBool {
    SEEN.get_or_init(Arc::default)
}
