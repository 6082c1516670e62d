// SPDX-License-Identifier: MIT OR Apache-2.0
//! The progress bar: shown only on a terminal, and removed when the work is done or given up.

use crate::interrupt;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often the bar is redrawn between two steps, so that its estimate moves.
const REDRAW: Duration = Duration::from_millis(500);

/// A bar that knows how many equal steps there are.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    pace: Arc<Mutex<Pace>>,
}

#[derive(Clone, Copy, Debug)]
struct Pace {
    began: Instant,
    stepped: Instant,
    steps: u32,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Pace { began: now, stepped: now, steps: 0 }
    }

    fn step(&mut self, now: Instant) {
        self.steps += 1;
        self.stepped = now;
    }

    /// Estimates the time left of `total` steps, assuming the pace of those before. A step that
    /// takes longer makes the estimate for the others longer too. Before the first step there is no
    /// estimate.
    fn left(&self, now: Instant, total: u64) -> Option<Duration> {
        let begun = now - self.stepped;
        let usual = (self.stepped - self.began).checked_div(self.steps)?;
        let others = u32::try_from(total).unwrap_or(u32::MAX).saturating_sub(self.steps + 1);
        Some(match usual.checked_sub(begun) {
            Some(rest) => rest + usual * others,
            None => (now - self.began) / (self.steps + 1) * others,
        })
    }
}

impl Progress {
    pub(crate) fn new(steps: u64) -> Self {
        let is_seen = std::io::stderr().is_terminal();
        let target =
            if is_seen { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        interrupt::clear_line(is_seen);
        let pace = Arc::new(Mutex::new(Pace::new(Instant::now())));
        let shared = Arc::clone(&pace);
        let left = move |state: &ProgressState, text: &mut dyn Write| {
            let pace = *shared.lock().unwrap_or_else(PoisonError::into_inner);
            let left = pace.left(Instant::now(), state.len().unwrap_or(0));
            let text = text.write_str(&left.map_or_else(|| "some time".into(), short));
            text.expect("the bar's text is in memory");
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
        Progress { bar, pace }
    }

    pub(crate) fn say(&self, message: &str) {
        self.bar.set_message(message.to_owned());
    }

    pub(crate) fn more(&self, steps: u64) {
        self.bar.inc_length(steps);
    }

    pub(crate) fn step(&self) {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner).step(Instant::now());
        self.bar.inc(1);
    }

    /// Hides the bar while something is printed.
    pub(crate) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        self.bar.suspend(print)
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
        interrupt::clear_line(false);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

/// A time as a clock shows it: `0:07`, `12:34`, `1:02:03`.
fn short(time: Duration) -> String {
    let seconds = time.as_secs_f64().ceil() as u64;
    let (minutes, seconds) = (seconds / 60, seconds % 60);
    match minutes / 60 {
        0 => format!("{minutes}:{seconds:02}"),
        hours => format!("{hours}:{:02}:{seconds:02}", minutes % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_moves_between_steps_and_never_ends_early() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut pace = Pace::new(start);
        assert_eq!(pace.left(at(3.0), 4), None);
        pace.step(at(10.0));
        let left = |pace: &Pace, now| pace.left(at(now), 4).unwrap().as_secs_f64();
        assert_eq!([10.0, 14.0, 20.0].map(|now| left(&pace, now)), [30.0, 26.0, 20.0]);
        // The second step takes longer than the first: the estimate for the others grows.
        assert_eq!([24.0, 40.0].map(|now| left(&pace, now)), [24.0, 40.0]);
        for _ in 0..3 {
            pace.step(at(40.0));
        }
        assert_eq!(left(&pace, 50.0), 0.0);
    }

    #[test]
    fn times_are_those_of_a_clock() {
        let shown = [0.2, 61.0, 3723.0].map(|seconds| short(Duration::from_secs_f64(seconds)));
        assert_eq!(shown, ["0:01", "1:01", "1:02:03"]);
    }
}
