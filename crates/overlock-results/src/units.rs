//! Durations, numbers and command lines as people write and read them.
//!
//! Durations on the command line carry a unit (`100ns`, `1us`, `10µs`, `2.5ms`, `1s`); only a bare
//! `0` needs none, because zero is the same in every unit.

use std::ffi::OsStr;
use std::fmt::Display;

/// A duration in whole nanoseconds, as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DurationArg(pub u64);

const UNITS: [(&str, f64); 5] = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)];

/// The longest critical section or pause that is plausible and not a typing error.
const LONGEST_NS: f64 = 1e9;

impl std::str::FromStr for DurationArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text == "0" {
            return Ok(DurationArg(0));
        }
        let digits = text.trim_end_matches(|c: char| c.is_alphabetic());
        let suffix = &text[digits.len()..];
        let scale = UNITS.iter().find(|(name, _)| *name == suffix).map(|(_, scale)| *scale);
        let Some(scale) = scale else {
            return Err(format!("'{text}' needs a unit: ns, us, ms or s (as in 100ns)"));
        };
        let number: f64 =
            digits.parse().map_err(|_| format!("'{digits}' in '{text}' is not a number"))?;
        let nanos = number * scale;
        if !(0.0..=LONGEST_NS).contains(&nanos) {
            return Err(format!("'{text}' is outside 0 to 1s"));
        }
        Ok(DurationArg(nanos.round() as u64))
    }
}

impl std::fmt::Display for DurationArg {
    /// Prints the shortest exact form, which parses back to the same value.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            0 => write!(f, "0"),
            n if n % 1_000_000_000 == 0 => write!(f, "{}s", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => write!(f, "{}ms", n / 1_000_000),
            n if n % 1_000 == 0 || (1_000..1_000_000).contains(&n) => {
                write!(f, "{}us", n as f64 / 1e3)
            }
            n => write!(f, "{n}ns"),
        }
    }
}

pub fn time(nanos: f64) -> String {
    match nanos {
        n if n < 1e3 => format!("{} ns", three(n)),
        n if n < 1e6 => format!("{} us", three(n / 1e3)),
        n if n < 1e9 => format!("{} ms", three(n / 1e6)),
        n => format!("{} s", three(n / 1e9)),
    }
}

/// Formats a count (of operations per second, say) to three figures with `k`, `M` or `G`.
pub fn count(value: f64) -> String {
    match value {
        v if v < 1e3 => three(v),
        v if v < 1e6 => format!("{} k", three(v / 1e3)),
        v if v < 1e9 => format!("{} M", three(v / 1e6)),
        v => format!("{} G", three(v / 1e9)),
    }
}

/// Formats a number of things: `1 run`, `2 runs`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let plural = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Formats a number to three significant figures (large ones are left whole).
pub fn three(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v < 0.001 => format!("{value:.0e}"),
        v if v < 1.0 => format!("{value:.3}"),
        v if v < 10.0 => format!("{value:.2}"),
        v if v < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Quotes a word as a user would type it in a shell.
pub fn typed(word: &OsStr) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=./:,+@%".contains(c);
    match word.to_str() {
        None => format!("$'{}'", word.as_encoded_bytes().escape_ascii()),
        Some(text) if !text.is_empty() && text.chars().all(plain) => text.to_owned(),
        Some(text) => format!("'{}'", text.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_round_trip() {
        for (text, nanos) in [
            ("0", 0),
            ("100ns", 100),
            ("1us", 1_000),
            ("10µs", 10_000),
            ("1.234us", 1_234),
            ("999.999us", 999_999),
            ("2.5us", 2_500),
            ("3ms", 3_000_000),
            ("1s", 1_000_000_000),
        ] {
            let parsed: DurationArg = text.parse().unwrap();
            assert_eq!(parsed, DurationArg(nanos), "{text}");
            assert_eq!(parsed.to_string().parse(), Ok(parsed));
        }
    }

    #[test]
    fn bad_durations_say_why() {
        for (text, part) in [
            ("100", "needs a unit"),
            ("1h", "needs a unit"),
            ("1.2.3ns", "not a number"),
            ("-1us", "outside"),
            ("20s", "outside"),
            ("NaNs", "needs a unit"),
        ] {
            let error = text.parse::<DurationArg>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn people_see_three_figures() {
        assert_eq!(time(12.34), "12.3 ns");
        assert_eq!(time(1_234.0), "1.23 us");
        assert_eq!(time(43_000_000.0), "43.0 ms");
        assert_eq!(count(33_200_000.0), "33.2 M");
        assert_eq!(three(0.000_01), "1e-5");
    }

    #[cfg(unix)]
    #[test]
    fn a_command_is_typed_as_a_shell_reads_it() {
        use std::os::unix::ffi::OsStrExt;
        for (word, text) in [
            (&b"-j8"[..], "-j8"),
            (b"", "''"),
            (b"/a b/c", "'/a b/c'"),
            (b"it's", r"'it'\''s'"),
            (b"\xff'", r"$'\xff\''"),
        ] {
            assert_eq!(typed(OsStr::from_bytes(word)), text);
        }
    }
}
