//! The fields of rows that are no points: what each is called on a page and in a terminal, and in
//! which unit it is.
//!
//! A page shows a field that is not listed here too, after the others: its name says its unit.

use crate::columns::Unit;
use crate::stats::unique;
use Unit::{Change, Hundredths, Number, Percent, Ratio, Seconds, Share, Time};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    /// Its name in the record; a dot stands between a field and a field within it.
    name: &'static str,
    pub(crate) heading: std::borrow::Cow<'static, str>,
    /// Its heading in the terminal's table; empty if it has no column there.
    short: &'static str,
    pub(crate) unit: Unit,
    pub(crate) about: &'static str,
}

#[derive(Debug)]
pub(crate) struct Kind {
    name: &'static str,
    pub(crate) heading: &'static str,
    /// Fields that another one repeats; `*` stands for all that are not listed.
    hidden: &'static [&'static str],
    /// The fields, in the order in which to read them.
    fields: &'static [Field],
}

/// Fields, each with its name, its heading, the terminal's behind a slash, its unit, and what it
/// means.
macro_rules! fields {
    ($($name:literal $heading:literal $(/ $short:literal)? $unit:ident $about:literal;)*) => {
        &[$(Field {
            name: $name,
            heading: std::borrow::Cow::Borrowed($heading),
            short: concat!($($short)?),
            unit: $unit,
            about: $about,
        }),*]
    };
}

/// Kinds, each with its name, its heading, and its fields.
macro_rules! kinds {
    ($($kind:literal $title:literal hides [$($hidden:literal)*] { $($fields:tt)* })*) => {
        &[
            $(Kind {
                name: $kind,
                heading: $title,
                hidden: &[$($hidden),*],
                fields: fields! { $($fields)* },
            },)*
            waits("trace-lock", "Waits for locks", TRACE),
            waits("trace-outside", "Waits for what is outside of the program", WITHOUT_HOLDER),
            waits("trace-work", "Waits for work, time, or each other", WITHOUT_HOLDER),
        ]
    };
}

const fn waits(name: &'static str, heading: &'static str, fields: &'static [Field]) -> Kind {
    Kind { name, heading, hidden: &["*"], fields }
}

/// The rows of these stand together that have the same value here.
pub(crate) const GROUP: (&str, &str) = ("published", "experiment");

/// What `trace` found of a place where threads wait; the last six are about a lock's holder.
const TRACE: &[Field] = fields! {
    "path" "where" Ratio "the function that waits, and its callers";
    "what" "for" Ratio "what it waits for";
    "share" "share" Share "the part of all threads' time";
    "waited_ns" "time" Time "";
    "waits" "stalls" Number "consecutive sleeps of a thread for one thing are one";
    "wait_ns.max" "longest" Time "the longest stall";
    "longest_thread_name" "thread" Ratio "the thread of the longest stall";
    "ender" "ended by" Ratio "the place, and the thread, that ended most of the time";
    "holder_ns.running" "holder ran" Time "for how long the lock's holder ran meanwhile";
    "holder_ns.preempted" "preempted" Time "it could run, and had no processor";
    "holder_ns.throttled" "throttled" Time "its group's quota was spent";
    "holder_ns.asleep" "slept" Time "it slept itself";
    "holder_ns.late" "late" Time "there was none: the next one was woken and not there yet";
    "holder_ns.unknown" "unknown" Time "what it did is not known";
};
const WITHOUT_HOLDER: &[Field] = TRACE.split_at(TRACE.len() - 6).0;

/// All kinds that have a table, in the order in which they are on the page.
const KINDS: &[Kind] = kinds! {
    "summary" "Over all points" hides [] {
        "lock" "lock" / "lock" Ratio "";
        "beside" "beside" Ratio "how many busy processes were beside; blank for none";
        "of_best_peer" "of best peer" / "of best peer" Ratio
            "throughput over that of the best peer: geometric mean over all points";
        "of_best_peer.low" "" / "low" Ratio "the lower end of its interval";
        "of_best_peer.high" "" / "high" Ratio "the upper end";
        "worst.ratio" "at worst" / "worst" Ratio "the lowest of these ratios at any point";
        "bare_of_best_peer" "without work" / "0/0" Ratio
            "the same as `of best peer`, over the points where threads only lock and unlock";
        "pair_ns" "pair" / "pair" Time "an uncontended lock and unlock";
        "worst_jain" "least Jain" / "Jain" Hundredths "the lowest Jain's index of any point";
        "calm_jain" "Jain, up to 16 threads" / "Jain<=16" Hundredths
            "the lowest Jain's index of the points with up to 16 threads";
        "p999_of_parking_lot" "p99.9 of parking-lot" / "p99.9/pl" Ratio
            "the 99.9th percentile of waits over parking-lot's: geometric mean over the points \
             where threads compete";
        "stall_of_parking_lot" "stall of parking-lot" / "stall/pl" Ratio
            "the longest stall over parking-lot's: geometric mean over the points where \
             threads compete";
        "longest_stall_ns" "longest stall" / "stall" Time
            "the longest time that a thread waited for the lock at any point";
        "calm_stall_ns" "stall, up to 16 threads" Time
            "the longest stall at points with up to 16 threads";
        "neighbours" "neighbours" / "neighbours" Percent
            "the CPU time of the busy processes beside, of what they have alone: the mean";
        "worst.point" "where" / "worst point" Ratio "the point with the lowest ratio";
    }
    "trace-loop" "Loops that wait on a processor" hides ["pid"] {
        "where" "where" Ratio "";
        "cpu_share" "of CPU time" Share "the part of all processor time, by samples";
        "cpu_ns" "CPU time" Time "";
    }
    "pair" "Uncontended lock and unlock" hides [] {
        "lock" "lock" Ratio "";
        "ns" "pair" Time "the time of an uncontended lock and unlock";
    }
    "published" "Published figures beside ours" hides
        ["published_effect" "ours_effect" "less_is_better" "world" "ours_absolute" "rounds"] {
        "lock" "lock" Ratio "";
        "figure" "figure" / "figure" Ratio "what was measured";
        "policy" "policy" Ratio "the yield policy";
        "timer" "timer" Ratio "the rule for the PM timer";
        "cpus" "vCPUs" Number "";
        "think_ns" "pause" Time "between critical sections or reads";
        "ours_cpus" "our vCPUs" / "vCPUs" Number "with how many vCPUs ours was measured";
        "ours_pcpus" "our pCPUs" Number "and on how many processors";
        "published_ratio" "published" / "published" Ratio
            "the published figure over its base; more is better";
        "ours" "ours" / "ours" Ratio "ours in the same form";
        "ours.low" "" / "low" Ratio "the lower end of its interval";
        "ours.high" "" / "high" Ratio "the upper end";
        "published_effect" "published effect" / "effect, theirs" Change "the gain or the loss";
        "ours_effect" "our effect" / "ours" Change "the gain or the loss";
        "direction" "direction" / "direction" Ratio "whether both are more, less or as much";
        "size" "size" / "size" Ratio
            "whether the effects are within a quarter of each other";
        "beside" "our lock" / "our lock" Ratio "the figure of the lock of ours that stands beside";
        "our_lock" "which" Ratio "the lock of ours that stands beside";
        "our_ratio" "over theirs" / "over theirs" Ratio
            "the throughput of that lock over the published one's";
        "ours_holds" "holds" / "holds" Ratio "whether it is at least as good";
        "basis" "basis" Ratio "whether the figure is predicted, fitted or repeated";
        "ours_ends" "ends" Ratio "the lowest and the highest round";
        "over.value" "base as published" Ratio "the published figure of the base";
        "over.lock" "over" Ratio "the base: its lock";
        "over.policy" "over policy" Ratio "the base: its yield policy";
        "over.cpus" "over vCPUs" Number "the base: its number of vCPUs";
        "noise_percent" "noise, %" Ratio "by how many percent it varied";
        "source" "source" Ratio "where it was published";
        "value" "as published" Ratio "the published figure itself";
        "unit" "unit" Ratio "its unit";
        "less_is_better" "less is better" Ratio "whether less of it is better";
    }
    "check" "Bounds that were checked" hides [] {
        "bound" "bound" Ratio "what is bounded";
        "lock" "lock" Ratio "";
        "workload" "workload" Ratio "what the vCPUs did";
        "place" "where" Ratio "the point";
        "side" "must be" Ratio "whether the value must be at least or at most the limit";
        "limit" "limit" Ratio "";
        "value" "was" Ratio "the median, and its interval";
        "verdict" "verdict" Ratio "unclear: only the median misses the limit";
        "note" "note" Ratio "";
    }
    "torture" "Torture" hides ["world"] {
        "lock" "lock" Ratio "";
        "failed" "failed" Ratio "whether any run went wrong";
        "runs" "runs" Number "";
        "injections" "injections" Number "runs that lost a CPU at one step";
        "acquisitions" "acquisitions" Number "";
        "steps" "steps" Number "atomic accesses";
        "longest_bypass" "longest bypass" Number "the most that passed a queue head";
        "takeovers" "takeovers" Number "releases that took over the kick of another";
        "crossed_kicks" "crossed kicks" Number "kicks that found another kind of lock";
        "virtual_s" "virtual time" Seconds "";
        "seconds" "real time" Seconds "";
    }
    "doctor" "What the machine offers" hides [] {}
    "process" "Counters of processes" hides [] {
        "program" "program" Ratio "";
        "pid" "process" Ratio "";
        "lock" "lock" Ratio "";
        "mutex.longest_stall_ns" "longest stall" Time
            "the longest stall in a call of pthread_mutex_lock";
    }
};

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
        self.hidden.contains(&name)
            || (self.name, name) == GROUP
            || (self.hidden == ["*"] && !is_listed())
    }
}

/// Returns the terminal's table of rows of one kind: its headings, and a line for each row.
pub fn terminal(kind: &str, rows: &[Value]) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let all = self::kind(kind).map_or(&[][..], |kind| kind.fields);
    let shown = || all.iter().filter(|field| !field.short.is_empty());
    let line = |row| shown().map(|field| field.text(row)).collect();
    (shown().map(|field| field.short).collect(), rows.iter().map(line).collect())
}

impl Field {
    /// What a terminal shows of it in this row: of an interval, its median.
    fn text(&self, row: &Value) -> String {
        let found = self.name.split('.').try_fold(row, |value, part| value.get(part));
        match found {
            Some(Value::String(text)) => text.clone(),
            Some(value) => {
                let number = value.as_f64().or_else(|| value.get("median")?.as_f64());
                number.map_or_else(|| "-".into(), |number| self.unit.show(number))
            }
            None => "-".into(),
        }
    }

    /// The row of the reference: its names on a terminal and in records, and what it means.
    fn explained(&self) -> String {
        let names = std::iter::once(self.short).chain(self.name.split('.'));
        let names = unique(names.filter(|name| !name.is_empty()));
        let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
        format!("| {} | {} |\n", names.join(", "), self.about)
    }
}

/// Explains all fields of a kind, but for the ends of intervals, as rows of the reference.
pub fn explained(kind: &str) -> String {
    let all = self::kind(kind).map_or(&[][..], |kind| kind.fields);
    let told = all.iter().filter(|field| !field.heading.is_empty() && !field.about.is_empty());
    told.map(Field::explained).collect()
}

/// Returns what is known about a field, and its place among the others.
pub(crate) fn named(kind: Option<&Kind>, name: &str) -> (usize, Field) {
    let known = kind.map_or(&[][..], |kind| kind.fields);
    let place = known.iter().position(|field| field.name == name).unwrap_or(known.len());
    (place, known.get(place).cloned().unwrap_or_else(|| by_name(name)))
}

/// Reads the unit from the end of a field's name, and makes words of the rest.
fn by_name(name: &str) -> Field {
    let ends = [
        ("_s_per_s", " s/s", Ratio),
        ("_per_s", "/s", Number),
        ("_ns", "", Time),
        ("_s", "", Seconds),
    ];
    let found = ends
        .into_iter()
        .find_map(|(end, words, unit)| Some((name.strip_suffix(end)?, words, unit)));
    let (stem, words, unit) = found.unwrap_or((name, "", Ratio));
    let heading = format!("{}{words}", stem.replace('_', " ").replace('.', ": "));
    Field { name: "", heading: heading.into(), short: "", unit, about: "" }
}

#[cfg(test)]
mod tests {
    use super::*;

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
