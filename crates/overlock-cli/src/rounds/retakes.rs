//! Runs that were disturbed, again.

use crate::interrupt;
use crate::warnings::DISTURBED;
use overlock_bench::Failed;
use overlock_results::Run;

/// How often one run may be repeated.
const EACH: u32 = 2;

/// How many more runs may be repeated.
pub(super) struct Retakes(u64);

impl Retakes {
    /// All repetitions together may add at most half of the planned runs.
    pub(super) fn new(runs: u64) -> Self {
        Retakes(runs / 2)
    }

    /// Makes a run, and again if the hypervisor or other processes took too much of the time
    /// meanwhile: of three, the least disturbed is kept.
    pub(super) fn least_disturbed(
        &mut self,
        mut make: impl FnMut() -> Result<Run, Failed>,
    ) -> Result<Run, Failed> {
        let mut best = make()?;
        for retaken in 1..=EACH {
            if best.disturbance <= DISTURBED || self.0 == 0 || interrupt::seen() {
                break;
            }
            self.0 -= 1;
            let run = make()?;
            if run.disturbance < best.disturbance {
                best = Run { retaken, ..run };
            }
        }
        Ok(best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes runs of which others took these shares. Returns the one that is kept, and how many
    /// were made.
    fn kept(retakes: &mut Retakes, disturbances: &[f64]) -> (f64, u32, usize) {
        let mut rest = disturbances.iter();
        let next = || Ok(Run { disturbance: *rest.next().unwrap(), ..Run::default() });
        let run = retakes.least_disturbed(next).unwrap();
        (run.disturbance, run.retaken, disturbances.len() - rest.len())
    }

    #[test]
    fn of_three_runs_the_least_disturbed_is_kept() {
        let kept = |disturbances: &[f64]| kept(&mut Retakes::new(100), disturbances);
        assert_eq!(kept(&[0.2, 0.3, 0.4]), (0.2, 0, 3));
        assert_eq!(kept(&[0.3, 0.2, 0.4]), (0.2, 1, 3));
        assert_eq!(kept(&[0.4, 0.3, 0.2]), (0.2, 2, 3));
        assert_eq!(kept(&[0.3, DISTURBED, 0.0]), (DISTURBED, 1, 2));
    }

    #[test]
    fn at_most_half_of_the_plan_is_repeated() {
        let mut retakes = Retakes::new(6);
        let made = (0..6).map(|_| kept(&mut retakes, &[0.5; 3]).2);
        assert_eq!(made.sum::<usize>(), 6 + 3);
    }
}
