//! What the counters of a run mean, in sentences.

use crate::units::{three, time};
use overlock_programs::{Counted, LONGEST_STALL, Waits, seen_in};
use std::path::Path;

/// A program that keeps more CPUs busy than this, without a wait, may spin.
const BUSY_CPUS: f64 = 1.2;

#[derive(Debug)]
pub(super) struct Seen<'a> {
    pub(super) program: &'a Path,
    pub(super) counted: &'a Counted,
    pub(super) blind: &'a [String],
    pub(super) wall_s: f64,
    pub(super) cpu_s: f64,
}

impl Seen<'_> {
    /// Returns the conclusion, and then what supports it.
    pub(super) fn sentences(&self) -> Vec<String> {
        let waits = Waits::new(String::new(), Some(self.counted.sums()), self.blind.to_vec());
        let mut told = vec![match waits.replaced() {
            None => "Some of the program's processes can have counted nothing, so it is unknown \
                     whether it waits for locks at all."
                .to_owned(),
            Some(0) if waits.unreplaced().is_empty() => format!(
                "No thread waited for a lock that Overlock replaces: {} of pthread and C11. Another \
                 lock can't make this run faster.",
                Waits::replaceable()
            ),
            Some(0) => format!(
                "No thread waited for a lock that Overlock replaces, but threads waited for {}, \
                 which stay libc's: another lock can't make this run faster.",
                waits.unreplaced().join(", ")
            ),
            Some(_) => self.waited(&waits),
        }];
        if waits.replaced().is_some_and(|count| count > 0) && waits.are_mostly_unreplaced() {
            told.push(format!(
                "They waited more often for what Overlock does not replace: {}.",
                waits.unreplaced().join(", ")
            ));
        }
        told.extend(self.blind.iter().map(|why| format!("{why}.")));
        if waits.replaced().unwrap_or(0) == 0 {
            told.extend(self.instead());
        }
        if let Some(shared) = self.counted.processes.iter().find(|counts| counts.processes > 1) {
            told.push(format!(
                "The last {} of {} processes are counted as one.",
                shared.processes,
                self.counted.count()
            ));
        }
        told
    }

    pub(super) fn doubts(&self, lock: &str) -> Vec<String> {
        let waits = Waits::new(String::new(), Some(self.counted.sums()), self.blind.to_vec());
        if waits.replaced().is_some_and(|count| count > 0) && !waits.are_mostly_unreplaced() {
            return Vec::new();
        }
        let mut told = self.sentences();
        told[0] = format!("under {lock}: {}", told[0]);
        told
    }

    fn waited(&self, waits: &Waits) -> String {
        let longest = self.counted.sums().get(LONGEST_STALL).copied();
        let stall = longest.map_or_else(String::new, |ns| {
            format!("; the longest stall at a mutex was {}", time(ns as f64))
        });
        format!(
            "Threads waited for {}{stall}. `overlock compare` finds out whether another lock pays.",
            waits.kinds().join(", ")
        )
    }

    /// Tells what was noticed instead of waits.
    fn instead(&self) -> Vec<String> {
        let mut told: Vec<String> =
            seen_in(self.program).iter().map(|what| format!("Noticed: {what}.")).collect();
        told.push("`overlock trace` shows why its threads wait, for locks of any kind.".into());
        let busy = self.cpu_s / self.wall_s;
        if busy > BUSY_CPUS {
            told.push(format!(
                "Noticed: it kept {} CPUs busy for {}. Spin locks of its own, if it has any, \
                 can't be seen.",
                three(busy),
                time(self.wall_s * 1e9)
            ));
        }
        told
    }
}
