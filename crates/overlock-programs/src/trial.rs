//! One run of the program: started, timed, read and judged.

use crate::counts::Shared;
use crate::finish::{end_within, read};
use crate::input::Input;
use crate::launch::{Ended, kill_rest, start};
use crate::target::Target;
use crate::{GRACE, interrupt};
use anyhow::{Context, Result};
use overlock_results::Run;
use regex::Regex;
use std::time::Duration;

#[derive(Debug)]
pub struct Good {
    pub run: Run,
    pub stdout: Vec<u8>,
}

#[derive(Debug)]
pub enum Trial {
    Good(Box<Good>),
    /// The sentence explains what went wrong.
    Bad(String),
    Interrupted,
}

/// The criteria of a good run, and how to read it.
#[derive(Debug)]
pub struct Rules {
    /// Finds the program's own figure in its output; without one it is wall time.
    pub metric: Option<Regex>,
    pub any_exit_code: bool,
    pub timeout: Option<Duration>,
}

impl Rules {
    /// Runs the program once under `lock`, with this input, counting in `shared` if there is such
    /// memory.
    ///
    /// # Errors
    /// If it could not be run at all; a program that fails is [`Trial::Bad`].
    pub fn run(
        &self,
        target: &Target,
        lock: &str,
        input: &Input,
        shared: Option<&Shared>,
    ) -> Result<Trial> {
        let spool = || tempfile::tempfile().context("can't make a file for the program's output");
        let (mut stdout, mut stderr) = (spool()?, spool()?);
        let mut plan = target.plan(lock, shared);
        // Its own process group, so that a hang can be ended with everything that the program
        // started.
        plan.own_group = true;
        let [output, error] = [stdout.try_clone()?, stderr.try_clone()?];
        plan.streams = [Some(input.open()?), Some(output), Some(error)];
        let mut program = start(plan)?;
        let Some(exit) = end_within(&mut program, self.timeout, interrupt::flag())? else {
            if interrupt::seen() {
                program.end(GRACE)?;
            } else {
                program.kill();
                program.wait(Duration::MAX)?;
            }
            kill_rest(program.id());
            return Ok(if interrupt::seen() {
                Trial::Interrupted
            } else {
                let limit = self.timeout.unwrap_or_default().as_secs_f64();
                Trial::Bad(format!("hung: killed after {limit} s (see --timeout)"))
            });
        };
        // Processes left in the background would disturb the next run.
        let strays = kill_rest(program.id());
        if interrupt::seen() && !exit.status.success() {
            // The same Ctrl-C has asked it to end.
            return Ok(Trial::Interrupted);
        }
        let (stdout, stderr) = (read(&mut stdout)?, read(&mut stderr)?);
        let texts = [&stderr, &stdout].map(|bytes| String::from_utf8_lossy(bytes));
        let (usage, wall_s) = (exit.usage, exit.wall.as_secs_f64());
        if let Err(complaint) = self.judge(exit.status.into()) {
            return Ok(Trial::Bad(format!("{complaint}{}", last_words(&texts[0]))));
        }
        if let Some(stray) = strays.first() {
            return Ok(Trial::Bad(format!(
                "went into the background: it ended and left {} of its processes running ({stray}), \
                 which were killed, because they would overlap the next run; start it in the \
                 foreground, as servers offer (-D, -F, --foreground)",
                strays.len()
            )));
        }
        let value = match self.value(&texts[1], &texts[0], wall_s) {
            Ok(value) => value,
            Err(complaint) => return Ok(Trial::Bad(complaint)),
        };
        let run = Run {
            seconds: wall_s,
            ops_per_s: 1.0 / wall_s,
            cpu_s_per_s: usage.cpu_seconds / wall_s,
            cpu_s: Some(usage.cpu_seconds),
            value: Some(value),
            max_rss_kib: Some(usage.max_rss_kib.unsigned_abs()),
            longest_stall_ns: shared.and_then(|shared| shared.read().longest_stall_ns()),
            ..Run::default()
        };
        Ok(Trial::Good(Box::new(Good { run, stdout })))
    }

    fn judge(&self, ended: Ended) -> Result<(), String> {
        match ended {
            Ended::Code(0) => Ok(()),
            Ended::Code(_) if self.any_exit_code => Ok(()),
            Ended::Code(_) => Err(format!("{ended} (--any-exit-code accepts that)")),
            Ended::Signal(_) => Err(ended.to_string()),
        }
    }

    /// Reads the figure from the output: the last match, and the first of its groups that matched
    /// if it has any.
    fn value(&self, stdout: &str, stderr: &str, wall_s: f64) -> Result<f64, String> {
        let Some(metric) = &self.metric else { return Ok(wall_s) };
        let found = [stderr, stdout].iter().find_map(|text| metric.captures_iter(text).last());
        let Some(found) = found else {
            return Err(format!("--metric '{metric}' matches nothing in the program's output"));
        };
        let group = found.iter().skip(1).flatten().next().or_else(|| found.get(0));
        let figure = group.map_or("", |group| group.as_str());
        match figure.trim().parse::<f64>() {
            Ok(value) if value > 0.0 && value.is_finite() => Ok(value),
            Ok(value) => Err(format!("--metric found {value}; ratios need a figure above 0")),
            Err(_) => Err(format!(
                "--metric found '{figure}', which is not a number; put parentheses around only \
                 the digits, as in 'rate: *([0-9.]+)'"
            )),
        }
    }
}

/// Quotes the last line that a failed program printed, which usually is the reason.
fn last_words(stderr: &str) -> String {
    let last = stderr.lines().rev().find(|line| !line.trim().is_empty());
    last.map_or_else(String::new, |line| format!("; it said: {}", line.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(metric: &str) -> Rules {
        Rules { metric: Some(Regex::new(metric).unwrap()), any_exit_code: false, timeout: None }
    }

    #[test]
    fn the_last_match_wins_and_standard_error_comes_last() {
        let rules = rules(r"rate: *([0-9.]+)");
        assert_eq!(rules.value("rate: 1\nrate: 2.5\n", "", 9.0), Ok(2.5));
        assert_eq!(rules.value("rate: 1\n", "rate: 7\n", 9.0), Ok(7.0));
    }

    #[test]
    fn one_of_two_patterns_is_enough() {
        let rules = rules("rate: *([0-9.]+)|total: *([0-9]+)");
        assert_eq!(rules.value("total: 7", "", 9.0), Ok(7.0));
        assert_eq!(rules.value("rate: 2.5", "", 9.0), Ok(2.5));
    }

    #[test]
    fn bad_figures_are_explained() {
        let found = |metric, text| rules(metric).value(text, "", 9.0).unwrap_err();
        assert!(found("rate", "nothing").contains("matches nothing"));
        assert!(found("rate: (.*)", "rate: fast").contains("'fast', which is not a number"));
        assert!(found("rate: (.*)", "rate: 0").contains("above 0"));
        assert!(found("rate: (.*)", "rate: NaN").contains("above 0"));
    }

    #[test]
    fn without_a_metric_it_is_wall_time() {
        let rules = Rules { metric: None, any_exit_code: false, timeout: None };
        assert_eq!(rules.value("", "", 9.0), Ok(9.0));
    }
}
