//! Refuses what can be read but is not an experiment, and names the line.

use super::{Experiment, Factors, Host};
use crate::Document;
use crate::vcpus::engine::VCPUS_MAX;
use crate::workload::Profile;
use overlock_results::Error;
use overlock_results::NO_POLICY;
use overlock_results::locks::{Lock, PEERS};

/// Refuses empty lists, unknown locks and impossible numbers of vCPUs.
pub(super) fn factors(experiment: &Experiment, document: &Document<'_>) -> Result<(), Error> {
    let Factors { locks, cpus, over, random, .. } = &experiment.factors;
    let nowhere = cpus.is_empty() && over.is_empty() && random.is_none();
    for (empty, key) in [
        (locks.is_empty(), "factors.locks"),
        (nowhere && experiment.points.is_empty(), "factors.cpus"),
    ] {
        if empty {
            return Err(document.refuse(&[key], format!("{key} is empty: there is nothing to run")));
        }
    }
    for (at, name) in locks.iter().enumerate() {
        lock(name, &format!("factors.locks.{at}"), document)?;
    }
    for (at, &count) in cpus.iter().enumerate() {
        if count == 0 || count > VCPUS_MAX {
            let what = format!("{count} vCPUs asked for; choose 1 to {VCPUS_MAX}");
            return Err(document.refuse(&[&format!("factors.cpus.{at}")], what));
        }
    }
    Ok(())
}

fn lock(name: &str, key: &str, document: &Document<'_>) -> Result<(), Error> {
    let known: Vec<Lock> = Lock::all().chain(PEERS.iter().filter_map(|n| Lock::named(n))).collect();
    let chosen = Lock::choose(&[name.to_owned()], &known);
    chosen.map(drop).map_err(|Error(what)| document.refuse(&[key], what))
}

/// Refuses published figures of points that the factors don't have, and impossible values.
pub(super) fn published(experiment: &Experiment, document: &Document<'_>) -> Result<(), Error> {
    let factors = &experiment.factors;
    for (at, published) in experiment.published.iter().enumerate() {
        let over = published.over.clone().unwrap_or_default();
        let base = format!("published.{at}");
        let named = [
            ("lock", Some(&published.lock)),
            ("over.lock", over.lock.as_ref()),
            ("our_lock", published.our_lock.as_ref()),
        ];
        let policies = [("policy", Some(&published.policy)), ("over.policy", over.policy.as_ref())];
        let cpus = [("cpus", Some(published.cpus)), ("over.cpus", over.cpus)];
        let refuse = |key: &str, what: String| document.refuse(&[&format!("{base}.{key}")], what);
        let absent = |key: &str, odd: &str| {
            let (number, figure) = (at + 1, &published.figure);
            let of = format!("published figure {number} ({figure})");
            refuse(key, format!("{of} is about {odd}, which the factors do not have"))
        };
        for (key, name) in named.into_iter().filter_map(|(key, name)| Some((key, name?))) {
            lock(name, &format!("{base}.{key}"), document)?;
            if !factors.locks.contains(name) {
                return Err(absent(key, name));
            }
        }
        for (key, name) in policies.into_iter().filter_map(|(key, name)| Some((key, name?))) {
            let is_none = factors.policies.is_empty() && name == NO_POLICY;
            if !is_none && !factors.policies.contains(name) {
                return Err(absent(key, name));
            }
        }
        for (key, count) in cpus.into_iter().filter_map(|(key, count)| Some((key, count?))) {
            if !factors.cpus.contains(&count) {
                return Err(absent(key, &format!("{count} vCPUs")));
            }
        }
        for (key, value) in [("value", published.value), ("over.value", over.value)] {
            if let Some(value) = value.filter(|value| !value.is_finite() || *value < 0.0) {
                return Err(refuse(key, format!("{key} is {value}; expected 0 or more")));
            }
        }
        let noise = published.noise_percent;
        if !(0.0..=100.0).contains(&noise) {
            let what = format!("noise_percent is {noise}; expected 0 to 100");
            return Err(refuse("noise_percent", what));
        }
    }
    Ok(())
}

/// Refuses hosts that can't run anything.
pub(super) fn host(host: &Host, document: &Document<'_>) -> Result<(), Error> {
    let Host { slice_ns, seconds, runs, .. } = host;
    for (zero, key) in [(*slice_ns == 0, "host.slice_ns"), (*runs == 0, "host.runs")] {
        if zero {
            return Err(document.refuse(&[key], format!("{key} is 0; expected 1 at least")));
        }
    }
    if !(0.001..=600.0).contains(seconds) {
        let what = format!("host.seconds is {seconds}; choose 0.001 to 600");
        return Err(document.refuse(&["host.seconds"], what));
    }
    Ok(())
}

/// Refuses workloads that are unknown, or that no run could do.
pub(super) fn workload(experiment: &Experiment, document: &Document<'_>) -> Result<(), Error> {
    let own = experiment.profile().map_err(|Error(what)| document.refuse(&["workload"], what))?;
    let most = |given: &[u64], own| given.iter().copied().max().unwrap_or(own);
    let section_ns = most(&experiment.factors.section_ns, own.section_ns);
    let think_ns = most(&experiment.factors.think_ns, own.think_ns);
    if let Some((key, what)) = (Profile { section_ns, think_ns, ..own }).mistake() {
        // Lengths can be factors; everything else belongs to the workload.
        let (factor, own) = (format!("factors.{key}"), format!("workload.{key}"));
        let keys = [factor.as_str(), own.as_str(), "workload"];
        let varied = usize::from(!["section_ns", "think_ns"].contains(&key));
        return Err(document.refuse(&keys[varied..], what));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "about = ''\nsource = ''\nworkload = 'micro'\n";

    #[track_caller]
    fn refused(text: &str, line: u32, sentence: &str) {
        let error = Experiment::parse("my/mine.toml", text).unwrap_err().to_string();
        assert!(error.starts_with(&format!("my/mine.toml:{line}: ")), "{line}: {error}");
        assert!(error.contains(sentence), "{error}");
    }

    #[test]
    fn mistakes_are_told_with_line_and_expectation() {
        let good = format!(
            "{HEAD}[factors]\nlocks = ['ticket']\ncpus = [\n1,\n2]\n[host]\npcpus = 2\n\
             slice_ns = 1000\nseconds = 0.5\n[[published]]\nlock = 'ticket'\ncpus = 1\n\
             figure = 'jain'\nvalue = 0.5\nsource = ''\nover = {{ cpus = 2, value = 1 }}\n"
        );
        assert!(Experiment::parse("mine", &good).is_ok());
        for (from, to, line, sentence) in [
            ("['ticket']", "[]", 5, "factors.locks is empty"),
            ("['ticket']", "['ticket', 'nonsense']", 5, "no lock 'nonsense'; choose from"),
            ("\n2]", "\n1025]", 8, "1025 vCPUs asked for; choose 1 to 1024"),
            ("\n2]", "\n-2]", 8, "integer `-2`, expected a whole number"),
            ("cpus = [\n", "cores = 2\ncpus = [\n", 6, "unknown field `cores`, expected one of"),
            ("slice_ns = 1000", "slice_ns = -1", 11, "`-1`, expected a whole number, 0 or more"),
            ("seconds = 0.5", "seconds = -0.5", 12, "host.seconds is -0.5; choose 0.001 to 600"),
            ("seconds = 0.5", "second = 0.5", 12, "unknown field `second`, expected one of"),
            ("lock = 'ticket'", "lock = 'queued'", 14, "figure 1 (jain) is about queued, which"),
            ("{ cpus = 2", "{ cpus = 9", 19, "about 9 vCPUs, which the factors do not have"),
            ("value = 0.5", "value = -0.5", 17, "value is -0.5; expected 0 or more"),
            ("value = 1 }", "value = nan }", 19, "over.value is NaN; expected 0 or more"),
            ("'micro'", "'yoga'", 3, "no workload is called yoga; there are micro"),
            ("[host]", "section_ns = [2000000000]\n[host]", 9, "has operations of 2000000000 ns"),
        ] {
            assert!(good.contains(from), "{from}");
            refused(&good.replacen(from, to, 1), line, sentence);
        }
    }

    #[test]
    fn mistakes_in_a_workload_of_its_own_have_lines_too() {
        let good = "about = ''\nsource = ''\n[workload]\nabout = ''\nsource = ''\nthink_ns = 5\n\
                    locks = 1\nsections = 1\nsection_ns = 7\n[factors]\nlocks = ['ticket']\n\
                    cpus = [1]\n";
        assert!(Experiment::parse("mine", good).is_ok());
        for (from, to, line, sentence) in [
            ("think_ns = 5", "think_ns = -5", 6, "`-5`, expected a whole number, 0 or more"),
            ("think_ns = 5", "thinks_ns = 5", 6, "unknown field `thinks_ns`, expected one of"),
            ("locks = 1", "locks = 0", 7, "the workload mine has sections but no lock"),
            ("section_ns = 7", "section_ns = 3000000000", 9, "choose at most 1000000000 (1 s)"),
        ] {
            assert!(good.contains(from), "{from}");
            refused(&good.replacen(from, to, 1), line, sentence);
        }
    }
}
