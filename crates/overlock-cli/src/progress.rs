//! The progress bar: shown only on a terminal, and removed when the work is done or given up.

use crate::interrupt;
use indicatif::{FormattedDuration, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

/// How often the bar is redrawn between two steps, so that its estimate moves.
const REDRAW: Duration = Duration::from_millis(500);

/// A bar that knows how many equal steps there are.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn new(steps: u64) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        let target =
            if is_seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        interrupt::clear_line(is_seen);
        // Before the first step there is no estimate.
        let left = |state: &ProgressState, text: &mut dyn Write| {
            let written = match state.pos() {
                0 => text.write_str("some time"),
                _ => write!(text, "{}", FormattedDuration(state.eta())),
            };
            written.expect("the bar's text is in memory");
        };
        // The message is cut at the terminal's edge: a bar of two lines would leave one behind.
        let style =
            ProgressStyle::with_template("{bar:16} {percent:>3} %, {left} left: {wide_msg}")
                .expect("the template is a constant that is valid")
                .with_key("left", left);
        let bar = ProgressBar::with_draw_target(Some(steps), target).with_style(style);
        if is_seen {
            bar.enable_steady_tick(REDRAW);
        }
        Progress(bar)
    }

    pub(crate) fn say(&self, message: &str) {
        self.0.set_message(message.to_owned());
    }

    pub(crate) fn more(&self, steps: u64) {
        self.0.inc_length(steps);
    }

    pub(crate) fn step(&self) {
        self.0.inc(1);
    }

    /// Hides the bar while something is printed.
    pub(crate) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.0.suspend(print)
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
        interrupt::clear_line(false);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}
