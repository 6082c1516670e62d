//! One part of a measurement, for a batch engine that makes the parts.

use std::str::FromStr;

/// The `number`th of `of` parts of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Counted from 1.
    number: usize,
    of: usize,
}

impl Shard {
    /// Returns whether the group of points at this place in the plan belongs to this part.
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
    fn shards_are_read_and_have_each_group_once() {
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
