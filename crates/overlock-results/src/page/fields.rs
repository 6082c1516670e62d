//! The fields of records that are shown as they are: what each is called on a page, and in which
//! unit its value is.
//!
//! A field that is not listed here is shown too, after the others: its name says its unit.

use crate::units::{count, three, time};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Plain,
    Count,
    Nanos,
    Seconds,
    /// A part of something: 0 to 1.
    Share,
}

impl Unit {
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            Unit::Plain => three(value),
            // A page has no room for a count of nine digits; the cell has it in full.
            Unit::Count if value.fract() == 0.0 && value.abs() < 1e4 => format!("{value}"),
            Unit::Count => count(value),
            Unit::Nanos => time(value),
            Unit::Seconds => time(1e9 * value),
            Unit::Share => format!("{} %", three(100.0 * value)),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Field {
    /// Its name in the record; a dot stands between a field and a field within it.
    name: &'static str,
    heading: &'static str,
    about: &'static str,
    unit: Unit,
}

/// Fields, each with its name, its heading, its unit, and what it means.
macro_rules! fields {
    ($($name:literal $heading:literal $unit:ident $about:literal;)*) => {
        &[$(Field { name: $name, heading: $heading, about: $about, unit: $unit }),*]
    };
}

#[derive(Debug)]
pub(crate) struct Kind {
    name: &'static str,
    pub(crate) heading: &'static str,
    /// The field that is the same in rows that belong together.
    pub(crate) group: Option<&'static str>,
    /// Fields that another one repeats; `*` stands for all that are not listed.
    hidden: &'static [&'static str],
    /// The fields, in the order in which to read them.
    fields: &'static [Field],
}

use Unit::{Count, Nanos, Plain, Seconds, Share};

/// All kinds that have a table, in the order in which they are on the page.
const KINDS: &[Kind] = &[
    Kind {
        name: "summary",
        heading: "Over all points",
        group: None,
        hidden: &[],
        fields: fields! {
            "lock" "lock" Plain "";
            "beside" "beside" Plain "how many busy processes were beside; blank for none";
            "of_best_peer" "of best peer" Plain
                "throughput over that of the best peer: geometric mean over all points";
            "worst.ratio" "at worst" Plain "the lowest of these ratios at any point";
            "worst.point" "where" Plain "the point at which it was lowest";
            "pair_ns" "pair" Nanos "an uncontended lock and unlock";
            "worst_jain" "least Jain" Plain "the lowest Jain's index of any point";
            "calm_jain" "Jain, up to 16 threads" Plain
                "the lowest Jain's index of the points with up to 16 threads";
            "longest_stall_ns" "longest stall" Nanos
                "the longest time that a thread waited for the lock at any point";
            "calm_stall_ns" "stall, up to 16 threads" Nanos
                "the longest stall at points with up to 16 threads";
            "p999_of_parking_lot" "p99.9 of parking-lot" Plain
                "the 99.9th percentile of waits over parking-lot's: geometric mean over the points \
                 where threads compete";
            "stall_of_parking_lot" "stall of parking-lot" Plain
                "the longest stall over parking-lot's: geometric mean over the points where \
                 threads compete";
        },
    },
    Kind {
        name: "trace-lock",
        heading: "Waits for locks",
        group: None,
        hidden: &["*"],
        fields: TRACE,
    },
    Kind {
        name: "trace-outside",
        heading: "Waits for what is outside of the program",
        group: None,
        hidden: &["*"],
        fields: TRACE.split_at(OF_HOLDERS).0,
    },
    Kind {
        name: "trace-work",
        heading: "Waits for work, time, or each other",
        group: None,
        hidden: &["*"],
        fields: TRACE.split_at(OF_HOLDERS).0,
    },
    Kind {
        name: "trace-loop",
        heading: "Loops that wait on a processor",
        group: None,
        hidden: &["pid"],
        fields: fields! {
            "where" "where" Plain "";
            "cpu_share" "of CPU time" Share "the part of all processor time, by samples";
            "cpu_ns" "CPU time" Nanos "";
        },
    },
    Kind {
        name: "pair",
        heading: "Uncontended lock and unlock",
        group: None,
        hidden: &[],
        fields: fields! {
            "lock" "lock" Plain "";
            "ns" "pair" Nanos "the time of an uncontended lock and unlock";
        },
    },
    Kind {
        name: "published",
        heading: "Published figures beside ours",
        group: Some("experiment"),
        // An effect is a ratio's distance from 1; the world is that of the points.
        hidden: &[
            "published_effect",
            "ours_effect",
            "less_is_better",
            "world",
            "ours_absolute",
            "rounds",
        ],
        fields: PUBLISHED,
    },
    Kind {
        name: "check",
        heading: "Bounds that were checked",
        group: None,
        hidden: &[],
        fields: fields! {
            "bound" "bound" Plain "what is bounded";
            "lock" "lock" Plain "";
            "workload" "workload" Plain "what the vCPUs did";
            "place" "where" Plain "the point";
            "side" "must be" Plain "whether the value must be at least or at most the limit";
            "limit" "limit" Plain "";
            "value" "was" Plain "the median, and its interval";
            "verdict" "verdict" Plain "unclear: only the median misses the limit";
            "note" "note" Plain "";
        },
    },
    Kind {
        name: "torture",
        heading: "Torture",
        group: None,
        hidden: &["world"],
        fields: fields! {
            "lock" "lock" Plain "";
            "failed" "failed" Plain "whether any run went wrong";
            "runs" "runs" Count "";
            "injections" "injections" Count "runs that lost a CPU at one step";
            "acquisitions" "acquisitions" Count "";
            "steps" "steps" Count "atomic accesses";
            "longest_bypass" "longest bypass" Count "the most that passed a queue head";
            "takeovers" "takeovers" Count "releases that took over the kick of another";
            "crossed_kicks" "crossed kicks" Count "kicks that found another kind of lock";
            "virtual_s" "virtual time" Seconds "";
            "seconds" "real time" Seconds "";
        },
    },
    Kind {
        name: "doctor",
        heading: "What the machine offers",
        group: None,
        hidden: &[],
        fields: &[],
    },
    Kind {
        name: "process",
        heading: "Counters of processes",
        group: None,
        hidden: &[],
        fields: fields! {
            "program" "program" Plain "";
            "pid" "process" Plain "";
            "lock" "lock" Plain "";
            "mutex.longest_stall_ns" "longest stall" Nanos
                "the longest stall in a call of pthread_mutex_lock";
        },
    },
];

const PUBLISHED: &[Field] = fields! {
    "lock" "lock" Plain "";
    "figure" "figure" Plain "what was measured";
    "policy" "policy" Plain "the yield policy";
    "timer" "timer" Plain "the rule for the PM timer";
    "cpus" "vCPUs" Count "";
    "think_ns" "pause" Nanos "between critical sections or reads";
    "published_ratio" "published" Plain "the published figure over its base; more is better";
    "ours" "ours" Plain "ours in the same form";
    "ours_cpus" "our vCPUs" Count "with how many vCPUs ours was measured";
    "ours_pcpus" "our pCPUs" Count "and on how many processors";
    "over.value" "base as published" Plain "the published figure of the base";
    "noise_percent" "noise, %" Plain "by how many percent it varied";
    "beside" "our lock" Plain "the figure of the lock of ours that stands beside";
    "our_lock" "which" Plain "the lock of ours that stands beside";
    "source" "source" Plain "where it was published";
    "our_ratio" "over theirs" Plain "the throughput of that lock over the published one's";
    "ours_holds" "holds" Plain "whether it is at least as good";
    "basis" "basis" Plain "whether the figure is predicted, fitted or repeated";
    "ours_ends" "ends" Plain "the lowest and the highest round";
    "direction" "direction" Plain "whether both are more, less or as much";
    "size" "size" Plain "whether the effects are within a quarter of each other";
    "over.lock" "over" Plain "the base: its lock";
    "over.policy" "over policy" Plain "the base: its yield policy";
    "over.cpus" "over vCPUs" Count "the base: its number of vCPUs";
    "published_effect" "published effect" Plain "the gain or the loss";
    "ours_effect" "our effect" Plain "the gain or the loss";
    "value" "as published" Plain "the published figure itself";
    "unit" "unit" Plain "its unit";
    "less_is_better" "less is better" Plain "whether less of it is better";
};

/// From here on, fields are about the holder of a lock.
const OF_HOLDERS: usize = 8;

const TRACE: &[Field] = fields! {
    "path" "where" Plain "the function that waits, and its callers";
    "what" "for" Plain "what it waits for";
    "share" "share" Share "the part of all threads' time";
    "waited_ns" "time" Nanos "";
    "waits" "stalls" Count "consecutive sleeps of a thread for one thing are one";
    "wait_ns.max" "longest" Nanos "the longest stall";
    "longest_thread_name" "thread" Plain "the thread of the longest stall";
    "ender" "ended by" Plain "the place, and the thread, that ended most of the time";
    "holder_ns.running" "holder ran" Nanos "for how long the lock's holder ran meanwhile";
    "holder_ns.preempted" "preempted" Nanos "it could run, and had no processor";
    "holder_ns.throttled" "throttled" Nanos "its group's quota was spent";
    "holder_ns.asleep" "slept" Nanos "it slept itself";
    "holder_ns.late" "late" Nanos "there was none: the next one was woken and not there yet";
    "holder_ns.unknown" "unknown" Nanos "what it did is not known";
};

/// What is known about a field.
#[derive(Debug, PartialEq)]
pub(crate) struct Named {
    pub(crate) place: usize,
    pub(crate) heading: String,
    pub(crate) about: String,
    pub(crate) unit: Unit,
}

pub(crate) fn place(name: &str) -> usize {
    KINDS.iter().position(|kind| kind.name == name).unwrap_or(KINDS.len())
}

pub(crate) fn kind(name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.name == name)
}

impl Kind {
    /// Returns whether the field is left out, because another one repeats it.
    pub(crate) fn hides(&self, name: &str) -> bool {
        let is_listed = || self.fields.iter().any(|field| field.name == name);
        self.hidden.contains(&name) || (self.hidden == ["*"] && !is_listed())
    }
}

pub(crate) fn named(kind: Option<&Kind>, name: &str) -> Named {
    let known = kind.map_or(&[][..], |kind| kind.fields);
    match known.iter().position(|field| field.name == name) {
        Some(place) => {
            let Field { heading, about, unit, .. } = &known[place];
            Named { place, heading: (*heading).into(), about: (*about).into(), unit: *unit }
        }
        None => {
            let (heading, unit) = by_name(name);
            Named { place: known.len(), heading, about: String::new(), unit }
        }
    }
}

/// Reads the unit from the end of a field's name, and makes words of the rest.
fn by_name(name: &str) -> (String, Unit) {
    let ends = [
        ("_s_per_s", " s/s", Plain),
        ("_per_s", "/s", Count),
        ("_ns", "", Nanos),
        ("_s", "", Seconds),
    ];
    let found =
        ends.into_iter().find_map(|(end, unit, of)| Some((name.strip_suffix(end)?, unit, of)));
    let (stem, unit, of) = found.unwrap_or((name, "", Plain));
    (format!("{}{unit}", stem.replace('_', " ").replace('.', ": ")), of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_field_has_words_and_a_unit() {
        let summary = kind("summary");
        let stall = named(summary, "calm_stall_ns");
        assert_eq!((stall.heading.as_str(), stall.place), ("stall, up to 16 threads", 9));
        assert!(stall.about.contains("up to 16 threads"));
        assert_eq!(stall.unit.show(26_870_735.0), "26.9 ms");
    }

    #[test]
    fn an_unknown_field_says_its_unit_itself() {
        for (name, heading, shown) in [
            ("longest_wake_ns", "longest wake", "1.50 us"),
            ("kicks_per_s", "kicks/s", "1500"),
            ("spin_s_per_s", "spin s/s", "1500"),
            ("mutex.timed", "mutex: timed", "1500"),
            ("real_s", "real", "1500 s"),
        ] {
            let field = named(None, name);
            assert_eq!(field.heading, heading);
            assert_eq!(field.unit.show(1500.0), shown, "{name}");
        }
    }

    #[test]
    fn counts_are_whole_until_they_are_long() {
        assert_eq!(
            [3.0, 9999.0, 123_456.0, 2.5].map(|n| Count.show(n)),
            ["3", "9999", "123 k", "2.50"]
        );
    }

    #[test]
    fn names_are_unique_and_explained() {
        for kind in KINDS {
            for (at, field) in kind.fields.iter().enumerate() {
                let twice = kind.fields[..at].iter().any(|other| other.name == field.name);
                assert!(!twice, "{} has {} twice", kind.name, field.name);
                assert!(!field.heading.contains('_'), "{}", field.heading);
            }
        }
    }
}
