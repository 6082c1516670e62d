// SPDX-License-Identifier: MIT OR Apache-2.0
//! A workload as data.

use serde::{Deserialize, Serialize};

use crate::Error;

/// How long and how often; read from TOML.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name, in records and on the command line.
    #[serde(default)]
    pub name: String,
    /// What it does, in a line.
    pub about: String,
    /// Where its numbers come from, and what must not be concluded from it.
    pub source: String,
    /// Nanoseconds of work outside of all locks in an operation.
    pub think_ns: u64,
    /// How many locks there are; a section takes one of them at random.
    pub locks: usize,
    /// Sections in an operation.
    pub sections: u32,
    /// Nanoseconds of work in a section.
    pub section_ns: u64,
    /// One operation in so many has a TLB shootdown in its first section; 0 is none.
    #[serde(default)]
    pub shootdown_every: u64,
    /// Reads of the PM timer in an operation.
    #[serde(default)]
    pub timer_reads: u32,
    /// One operation in so many ends with a sleep; 0 is none.
    #[serde(default)]
    pub sleep_every: u64,
    /// Nanoseconds of a sleep.
    #[serde(default)]
    pub sleep_ns: u64,
}

/// The profiles that come with the laboratory, by name.
const BUILT_IN: [(&str, &str); 5] = [
    ("micro", include_str!("../../profiles/micro.toml")),
    ("ebizzy", include_str!("../../profiles/ebizzy.toml")),
    ("kernbench", include_str!("../../profiles/kernbench.toml")),
    ("oltp", include_str!("../../profiles/oltp.toml")),
    ("pmtimer", include_str!("../../profiles/pmtimer.toml")),
];

impl Profile {
    /// The names of the profiles that come with the laboratory.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|&(name, _)| name)
    }

    /// The profile of this name that comes with the laboratory.
    ///
    /// # Errors
    /// [`Error::Config`] if there is none such.
    pub fn named(name: &str) -> Result<Self, Error> {
        let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = Self::names().collect();
            let known = known.join(", ");
            return Err(Error::Config(format!("no workload is called {name}; there are {known}")));
        };
        Self::parse(name, text)
    }

    /// The profile that `text` describes.
    ///
    /// # Errors
    /// [`Error::Config`] says what is wrong with the text.
    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        let parsed: Result<Self, _> = toml::from_str(text);
        let mut profile =
            parsed.map_err(|error| Error::Config(format!("the workload {name}: {error}")))?;
        name.clone_into(&mut profile.name);
        Ok(profile)
    }

    /// Whether it can be run.
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.locks == 0 && self.sections > 0 {
            let name = &self.name;
            return Err(Error::Config(format!("the workload {name} has sections but no lock")));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_profiles_parse_and_say_where_they_come_from() {
        for name in Profile::names() {
            let profile = Profile::named(name).unwrap();
            assert_eq!(profile.name, name);
            assert!(profile.check().is_ok());
            assert!(profile.source.len() > 40, "{name} does not say where its numbers come from");
        }
    }

    #[test]
    fn mistakes_are_named() {
        let error = Profile::named("nonsense").unwrap_err().to_string();
        assert!(error.contains("nonsense") && error.contains("micro"), "{error}");
        let error = Profile::parse("mine", "think_nss = 1").unwrap_err().to_string();
        assert!(error.contains("mine") && error.contains("think_nss"), "{error}");
    }
}
