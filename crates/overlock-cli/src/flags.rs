//! Flags that several verbs have.

use clap::Args;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Where results go besides the tables.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print JSON Lines instead of tables: a `run` record, then one record for each result
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write JSON Lines to a file, each result as soon as there is one
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Parses a whole number of `range`.
pub(crate) fn whole<T>(text: &str, range: RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    let value = text.parse().ok().filter(|value| range.contains(value));
    let (low, high) = range.into_inner();
    value.ok_or_else(|| format!("'{text}' is no whole number from {low} to {high}"))
}

pub(crate) fn seed(text: &str) -> Result<u64, String> {
    whole(text, 0..=u64::MAX)
}

/// Parses a number of seconds, from a hundredth to `most`.
pub(crate) fn seconds(text: &str, most: f64) -> Result<f64, String> {
    let value = text.strip_suffix('s').unwrap_or(text).parse::<f64>();
    let value = value.map_err(|_| format!("'{text}' is not a number of seconds"))?;
    match (0.01..=most).contains(&value) {
        true => Ok(value),
        false => Err(format!("{text} is outside 0.01 to {most} seconds")),
    }
}

/// Parses a length of time with its unit, from a millisecond to a day.
pub(crate) fn time(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let scale = match &text[digits.len()..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{text}' needs a unit: ms, s, min or h (as in 20min)")),
    };
    let seconds = digits.parse::<f64>().map_err(|_| format!("'{digits}' is not a number"))? * scale;
    match (0.001..=86_400.0).contains(&seconds) {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(format!("{text} is outside 1ms to 24h")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_units() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("1.5h"), Ok(Duration::from_secs(5400)));
        assert_eq!([time("20m"), time("20min")], [const { Ok(Duration::from_secs(1200)) }; 2]);
        for (text, part) in [("20", "needs a unit"), ("0s", "outside"), ("x1m", "not a number")] {
            let error = time(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
