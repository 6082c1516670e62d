//! The cost of preloading itself: the dynamic loader's work for one more library, and that
//! library's own start.
//!
//! Each process pays it once, whatever lock is chosen. So a program of many short processes that
//! waits for nothing is slower under every lock, by this much, and no lock is to blame.

use crate::row::{LIBC, NONE, Point, StartUp};
use crate::stats::Interval;
use crate::units::{three, time};

/// Computes it; nothing, if one of the two was not measured.
pub fn cost(points: &[Point]) -> Option<StartUp> {
    let find = |lock: &str| points.iter().find(|point| point.lock == lock);
    let [libc, none] = [find(LIBC)?, find(NONE)?].map(|point| point.each(|run| run.seconds));
    let costs: Vec<f64> = none.iter().zip(&libc).map(|(none, libc)| none - libc).collect();
    Some(StartUp { seconds: Interval::of(&costs)? })
}

/// What preloading costs in the program's own figure, if it has one.
pub fn of_metric(points: &[Point]) -> Option<String> {
    let none = points.iter().find(|point| point.lock == NONE && point.metric.is_some())?;
    let libc = points.iter().find(|point| point.lock == LIBC)?;
    let Interval { median, low, high } = Interval::of(&none.better_than(libc))?;
    let [median, low, high] = [median, low, high].map(three);
    Some(format!(
        "none is libc under the preload library, which then replaces nothing: preloading alone, \
         with counting, makes the metric {median}x as good ({low}..{high})"
    ))
}

pub fn sentence(startup: &StartUp) -> String {
    let show = |seconds: f64| {
        let sign = if seconds < 0.0 { "-" } else { "" };
        format!("{sign}{}", time(seconds.abs() * 1e9))
    };
    let Interval { median, low, high } = startup.seconds;
    // One round has no interval.
    let range =
        if low < high { format!(" ({}..{})", show(low), show(high)) } else { String::new() };
    let is = "none is libc under the preload library, which then replaces nothing";
    // Preloading takes time: an interval below zero is noise as well.
    if low <= 0.0 {
        format!("{is}: preloading alone makes no measurable difference{range}")
    } else {
        format!("{is}: preloading alone, with counting, takes {} of each run{range}", show(median))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_named_only_if_all_of_the_interval_is_some() {
        let sentence = |median: f64, low: f64, high: f64| {
            super::sentence(&StartUp { seconds: Interval { median, low, high } })
        };
        assert!(
            sentence(2e-4, 1e-4, 3e-4).contains("preloading alone, with counting, takes 200 us")
        );
        assert!(sentence(1e-4, -1e-4, 3e-4).contains("no measurable difference (-100 us..300 us)"));
        assert!(sentence(-1e-4, -1e-4, -1e-4).ends_with("no measurable difference"));
        assert!(sentence(1e-4, 1e-4, 1e-4).ends_with("takes 100 us of each run"));
    }
}
