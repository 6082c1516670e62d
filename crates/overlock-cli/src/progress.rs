// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress bar: on a terminal only, gone when the work is done.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

/// A bar that knows how many equal steps there are.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(steps: u64) -> Self {
        let target = if std::io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let style =
            ProgressStyle::with_template("{wide_bar} {percent:>3} %, {eta} left  {msg:>48}");
        let bar = ProgressBar::with_draw_target(Some(steps), target);
        Progress(bar.with_style(style.expect("the template is a constant that is valid")))
    }

    /// Says what is going on now.
    pub(crate) fn say(&self, message: &str) {
        self.0.set_message(message.to_owned());
    }

    /// Completes one step.
    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Hides the bar while something is printed.
    pub(crate) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.0.suspend(print)
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
