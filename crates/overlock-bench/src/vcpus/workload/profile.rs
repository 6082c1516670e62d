//! A workload as data.

use serde::{Deserialize, Serialize};

use crate::Document;
use overlock_results::Error;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    #[serde(default)]
    pub name: String,
    pub about: String,
    /// The source of its numbers, and what must not be concluded from it.
    pub source: String,
    /// Nanoseconds of work outside all locks per operation.
    pub think_ns: u64,
    /// How many locks there are; a critical section takes one of them at random.
    pub locks: usize,
    /// Critical sections per operation.
    pub sections: u32,
    pub section_ns: u64,
    /// One operation in this many has a TLB shootdown in its first critical section; 0 means none.
    #[serde(default)]
    pub shootdown_every: u64,
    /// Whether only one other vCPU has to answer it, in turn; otherwise all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shootdown_one: bool,
    /// Whether the vCPU that asks then lets the first of them run that has lost its pCPU, as Linux
    /// does by KVM_HC_SCHED_YIELD.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shootdown_yields: bool,
    /// Whether the work outside all locks is in user mode, where a simulated host sees that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub think_in_user: bool,
    #[serde(default)]
    pub timer_reads: u32,
    /// One operation in this many ends with a sleep; 0 means none.
    #[serde(default)]
    pub sleep_every: u64,
    #[serde(default)]
    pub sleep_ns: u64,
}

/// The most locks, and the most critical sections or reads per operation. A lock and its
/// bookkeeping take half a kibibyte, and vCPUs check the stop flag only between operations.
const LOCKS_MAX: usize = 4096;
const TIMES_MAX: u32 = 4096;

/// The longest operation without any wait, in nanoseconds. With longer ones a run of a second means
/// nothing, and vCPUs would not stop within [`RunConfig::grace`](overlock_bench::RunConfig::grace).
const OPERATION_MAX_NS: u64 = 1_000_000_000;

/// The profiles that come with this crate, by name.
const BUILT_IN: [(&str, &str); 5] = [
    ("micro", include_str!("../../../profiles/micro.toml")),
    ("ebizzy", include_str!("../../../profiles/ebizzy.toml")),
    ("kernbench", include_str!("../../../profiles/kernbench.toml")),
    ("oltp", include_str!("../../../profiles/oltp.toml")),
    ("pmtimer", include_str!("../../../profiles/pmtimer.toml")),
];

impl Profile {
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|&(name, _)| name)
    }

    pub fn named(name: &str) -> Result<Self, Error> {
        let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) else {
            let known: Vec<_> = Self::names().collect();
            let known = known.join(", ");
            return Err(Error(format!("no workload is called {name}; there are {known}")));
        };
        Self::parse(name, text)
    }

    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let document = Document::new(file, text);
        let mut profile: Self = document.read()?;
        document.name().clone_into(&mut profile.name);
        match profile.mistake() {
            Some((key, what)) => Err(document.refuse(&[key], what)),
            None => Ok(profile),
        }
    }

    /// The duration of an operation without any wait, in nanoseconds.
    fn operation_ns(&self) -> u64 {
        let sections = self.section_ns.saturating_mul(self.sections.into());
        let sleep = if self.sleep_every == 0 { 0 } else { self.sleep_ns };
        self.think_ns.saturating_add(sections).saturating_add(sleep)
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.mistake().map_or(Ok(()), |(_, what)| Err(Error(what)))
    }

    /// Why it cannot be run, and which of its keys is to blame.
    pub(crate) fn mistake(&self) -> Option<(&'static str, String)> {
        let times = self.sections.max(self.timer_reads);
        let (key, what) = if self.sections == 0 && self.timer_reads == 0 {
            let none = "neither takes a lock nor reads the timer: there is nothing to measure";
            ("sections", none.into())
        } else if self.locks == 0 && self.sections > 0 {
            ("locks", "has sections but no lock".into())
        } else if self.locks > LOCKS_MAX {
            ("locks", format!("has {} locks; choose 1 to {LOCKS_MAX}", self.locks))
        } else if times > TIMES_MAX {
            let key = if times == self.sections { "sections" } else { "timer_reads" };
            let what = "sections or reads in an operation";
            (key, format!("has {times} {what}; choose at most {TIMES_MAX}"))
        } else if self.operation_ns() > OPERATION_MAX_NS {
            let ns = self.operation_ns();
            let most = format!("choose at most {OPERATION_MAX_NS} (1 s)");
            (self.longest(), format!("has operations of {ns} ns; {most}"))
        } else {
            return None;
        };
        Some((key, format!("the workload {} {what}", self.name)))
    }

    /// The key of the span that makes an operation long.
    fn longest(&self) -> &'static str {
        let sections = self.section_ns.saturating_mul(self.sections.into());
        if sections >= self.think_ns.max(self.sleep_ns) {
            "section_ns"
        } else if self.think_ns >= self.sleep_ns {
            "think_ns"
        } else {
            "sleep_ns"
        }
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

    #[test]
    fn what_no_run_could_do_is_refused_when_it_is_read() {
        for (locks, sections, section_ns, line, sentence) in [
            (0, 1, 0, 4, "sections but no lock"),
            (1, 0, 0, 5, "nothing to measure"),
            (1_000_000_000_000_u64, 1, 0, 4, "has 1000000000000 locks; choose 1 to 4096"),
            (1, 4_000_000_000_u32, 0, 5, "has 4000000000 sections or reads"),
            (1, 2, 600_000_000_u64, 6, "has operations of 1200000000 ns"),
            (1, 2, u64::MAX >> 1, 6, "choose at most 1000000000 (1 s)"),
        ] {
            let text = format!(
                "about = ''\nsource = ''\nthink_ns = 0\nlocks = {locks}\nsections = {sections}\n\
                 section_ns = {section_ns}"
            );
            let error = Profile::parse("mine.toml", &text).unwrap_err().to_string();
            let begin = format!("mine.toml:{line}: the workload mine ");
            assert!(error.starts_with(&begin) && error.contains(sentence), "{error}");
        }
    }
}
