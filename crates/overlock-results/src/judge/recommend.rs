//! The rule that recommends a lock, for `bench` and for `compare`. reference.md states it for
//! users.
//!
//! In each round a lock has a *score*: its figure × Jain's index × (longest stall)^-0.1. A stall
//! ten times as long so weighs as much as a fifth of the figure. Throughput alone would recommend
//! a lock that serves the threads that happen to run, and lets the others wait.
//!
//! Two locks tie if the interval of the ratio of their scores, formed round by round, includes 1,
//! or if one score is less than 2 % above the other ([`NEAR_TIE`]). Among the locks that tie with
//! the best score, those that can't starve a thread come first: this costs little or nothing, and
//! guarantees what figures hide. Then the score decides, which weighs the longest stall already.
//! (When the shortest of the longest stalls decided, 12.4 ms against 12.6, each of them seen once,
//! chose a lock with 0.91 of the best peer's throughput, and not one with 1.02.)

use crate::locks::Lock;
use crate::stats::{self, GRAIN, Interval};

/// Scores whose ratio is below this are a tie, however certain the difference is: 2 %. Two builds
/// of one lock differ by as much.
pub const NEAR_TIE: f64 = 1.02;

/// The weight of the longest stall: a tenth of an order of magnitude for each order of magnitude.
/// With more weight a rare stall would decide alone; with none, throughput would.
const STALL_WEIGHT: f64 = 0.1;

/// In nanoseconds: shorter stalls count as this long, because `bench` does not see them exactly.
pub const SHORT_STALL_NS: f64 = GRAIN.as_millis() as f64 * 1e6;

/// Returns whether a lock lets no thread wait for ever. Libc's, and names that are unknown here,
/// promise nothing.
pub fn cannot_starve(lock: &str) -> bool {
    Lock::named(lock).is_some_and(|lock| lock.cannot_starve())
}

/// Computes the score of one run. The figure is throughput, or another that is better if it is
/// higher; the index is 1 where the threads do different work.
pub fn score(figure: f64, jain: f64, longest_stall_ns: f64) -> f64 {
    let stall_s = longest_stall_ns.max(SHORT_STALL_NS) / 1e9;
    figure.max(f64::MIN_POSITIVE) * jain * stall_s.powf(-STALL_WEIGHT)
}

#[derive(Clone, Debug)]
pub struct Contender<'a> {
    pub lock: &'a str,
    pub cannot_starve: bool,
    pub scores: Vec<f64>,
}

impl Contender<'_> {
    pub fn score(&self) -> f64 {
        stats::median(&self.scores).unwrap_or(0.0)
    }

    pub fn over(&self, other: &Contender<'_>) -> Option<Interval> {
        let rounds = self.scores.iter().zip(&other.scores);
        Interval::of(&rounds.map(|(own, other)| own / other).collect::<Vec<_>>())
    }

    pub fn beats(&self, other: &Contender<'_>) -> bool {
        self.over(other).is_some_and(|ratio| ratio.low > 1.0 && ratio.median >= NEAR_TIE)
    }
}

pub fn best<'c, 'a>(candidates: &'c [Contender<'a>]) -> Option<&'c Contender<'a>> {
    candidates.iter().max_by(|a, b| a.score().total_cmp(&b.score()))
}

/// Returns the candidates that tie with the best one, and that one itself: first the one to use.
pub fn choose<'c, 'a>(candidates: &'c [Contender<'a>]) -> Vec<&'c Contender<'a>> {
    let Some(best) = best(candidates) else { return Vec::new() };
    let mut ties: Vec<_> = candidates.iter().filter(|other| !best.beats(other)).collect();
    ties.sort_by(|a, b| {
        b.cannot_starve.cmp(&a.cannot_starve).then(b.score().total_cmp(&a.score()))
    });
    ties
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock with the same figure and the same stall in six rounds.
    fn candidate(lock: &str, figure: f64, stall_ms: f64) -> Contender<'_> {
        let scores = vec![score(figure, 1.0, stall_ms * 1e6); 6];
        Contender { lock, cannot_starve: cannot_starve(lock), scores }
    }

    fn chosen(candidates: &[Contender<'_>]) -> Vec<String> {
        choose(candidates).iter().map(|of| of.lock.to_owned()).collect()
    }

    #[test]
    fn a_tie_goes_to_the_lock_that_starves_no_thread() {
        let best = candidate("test-and-set", 100.0, 1.0);
        let near = candidate("hybrid", 98.5, 1.0);
        assert_eq!(chosen(&[best.clone(), near]), ["hybrid", "test-and-set"]);
        let far = candidate("hybrid", 97.5, 1.0);
        assert_eq!(chosen(&[best, far]), ["test-and-set"]);
        assert!(chosen(&[]).is_empty());
    }

    #[test]
    fn among_equals_a_stall_that_is_hardly_shorter_does_not_decide() {
        let ticket = candidate("ticket", 101.0, 3.0);
        assert_eq!(
            chosen(&[ticket.clone(), candidate("queued", 100.5, 2.9)]),
            ["ticket", "queued"]
        );
        assert_eq!(chosen(&[ticket, candidate("queued", 100.5, 2.7)]), ["queued", "ticket"]);
    }
}
