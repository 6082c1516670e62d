// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command line says of worlds.

use std::path::PathBuf;
use std::str::FromStr;

/// Tells the user a sentence.
pub type Note = fn(&str);

/// What only some worlds need.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where a simulation keeps its runs.
    pub sweep: Option<PathBuf>,
    /// Which part of them to make.
    pub shard: Option<Shard>,
    /// The numbers of CPUs with which a kernel is checked.
    pub cpus: Vec<u32>,
    /// The commit of the program, whose runs are not those of another.
    pub commit: &'static str,
    /// Tells what the user should know.
    pub note: Note,
}

/// A part of a sweep: the `number`th of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub number: usize,
    /// How many parts there are.
    pub of: usize,
}

impl Shard {
    /// The whole sweep.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Returns whether the run at this place in the plan belongs to this part. Neighbours, which
    /// take about the same time, go to different parts.
    pub(crate) const fn has(self, at: usize) -> bool {
        at % self.of == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('/').and_then(|(number, of)| {
            Some(Self { number: number.parse().ok()?, of: of.parse().ok()? })
        });
        let known = parts.filter(|shard| (1..=shard.of).contains(&shard.number));
        known.ok_or_else(|| "choose 1/N to N/N, as in 2/4".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_read_and_have_each_run_once() {
        for (text, ok) in [("1/1", true), ("2/4", true), ("0/4", false), ("5/4", false)] {
            assert_eq!(text.parse::<Shard>().is_ok(), ok, "{text}");
        }
        for text in ["", "1", "a/b", "-1/2", "1/0"] {
            assert!(text.parse::<Shard>().is_err(), "{text}");
        }
        for at in 0..20 {
            let takers = (1..=3).filter(|&number| Shard { number, of: 3 }.has(at)).count();
            assert_eq!(takers, 1);
        }
    }
}
