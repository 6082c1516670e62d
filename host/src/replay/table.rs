//! A replay for people and for programs.

use super::Played;
use super::score::{Answer, Choice, Score};
use overlock_results::units::time;
use overlock_vcpu::host::Nanos;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// How long named threads waited to run: median and 99th percentile of the spins, and the sum, in
/// which each absence of a thread counts once, from the first spin that named it.
#[derive(Debug)]
struct Waits {
    count: usize,
    p50_ns: u64,
    p99_ns: u64,
    sum_ns: u64,
}

impl Waits {
    fn of<'a>(answers: impl Iterator<Item = &'a Answer>) -> Option<Self> {
        let mut absences: BTreeMap<(u32, Nanos), u64> = BTreeMap::new();
        let mut all = Vec::new();
        for answer in answers {
            let Some(((waited, ran), (thread, _))) =
                answer.waited().zip(answer.ran).zip(answer.named)
            else {
                continue;
            };
            all.push(waited);
            let longest = absences.entry((thread, ran)).or_default();
            *longest = waited.max(*longest);
        }
        all.sort_unstable();
        let at = |part: usize| all.get((all.len() * part).div_ceil(100).max(1) - 1).copied();
        let (p50_ns, p99_ns) = (at(50)?, at(99)?);
        Some(Self { count: all.len(), p50_ns, p99_ns, sum_ns: absences.values().sum() })
    }
}

/// Counts of one policy's answers.
#[derive(Debug)]
struct Counts {
    named: usize,
    same: usize,
    /// The kernel chose another: how long the named thread then waited.
    cost: Option<Waits>,
    /// What the kernel did, or when the named thread ran, is not in the recording.
    unknown: usize,
    right: (usize, usize),
}

impl Counts {
    fn of(score: &Score) -> Self {
        let named = score.answers.iter().filter(|answer| answer.named.is_some());
        let other = named.clone().filter(|answer| answer.agrees() == Some(false));
        let is_unknown = |of: &&Answer| of.agrees().is_none() || of.waited().is_none();
        Self {
            named: named.clone().count(),
            same: named.clone().filter(|answer| answer.agrees() == Some(true)).count(),
            cost: Waits::of(other),
            unknown: named.filter(is_unknown).count(),
            right: score.right(),
        }
    }
}

fn right((right, known): (usize, usize)) -> String {
    if known == 0 { "unknown".into() } else { format!("{right} of {known}") }
}

/// What the kernel did: gave the processor to another of the group, to a stranger, to none; or it
/// is not known.
fn kernel(score: &Score) -> [usize; 4] {
    let count = |is: fn(&Option<Choice>) -> bool| {
        score.answers.iter().filter(|answer| is(&answer.kernel)).count()
    };
    [
        count(|choice| matches!(choice, Some(Choice::Member(_)))),
        count(|choice| *choice == Some(Choice::Stranger)),
        count(|choice| *choice == Some(Choice::Stayed)),
        count(Option::is_none),
    ]
}

/// A table of each group.
pub(super) fn text(played: &Played) -> String {
    let mut said = String::new();
    // Writing into a string can't fail.
    let _ = write_text(&mut said, played);
    said
}

fn write_text(to: &mut String, played: &Played) -> std::fmt::Result {
    for (group, stage) in played.cast.groups.iter().zip(&played.stages) {
        let (own, policies, kicks) = stage.scores();
        let spins = own.answers.len();
        let pcpus = played.pcpus;
        writeln!(
            to,
            "{}: {} threads, {pcpus} CPUs, {spins} spins",
            group.name,
            group.threads.len()
        )?;
        let [member, stranger, stayed, unknown] = kernel(own);
        writeln!(
            to,
            "  The kernel gave the processor to another of them {member} times, to a stranger or \
             none {stranger} times,\n  left it to the spinner {stayed} times; unknown {unknown} \
             times. Right: {}.",
            right(own.right())
        )?;
        if !kicks.answers.is_empty() {
            let of = |why| kicks.reasons.get(why).copied().unwrap_or_default();
            let waits = Waits::of(kicks.answers.iter());
            let waits = waits.map_or("unknown".into(), |of| {
                format!("{} in the median, {} at the 99th percentile", ns(of.p50_ns), ns(of.p99_ns))
            });
            writeln!(
                to,
                "  {} kicks of the next waiter: it was asleep {} times, preempted {} times, \
                 running {} times;\n  until it ran: {waits}.",
                kicks.answers.len(),
                of("asleep"),
                of("preempted"),
                of("running"),
            )?;
        }
        if spins == 0 {
            writeln!(to, "  No spin, so no policy has anything to decide.\n")?;
            continue;
        }
        writeln!(
            to,
            "\n  {:<14} {:>7} {:>7} {:>8}  {:>9} {:>9} {:>9}  {:>10}",
            "policy", "named", "kernel", "unknown", "wait p50", "wait p99", "sum", "right"
        )?;
        for score in policies {
            if let Some(signal) = stage.signals.missing(&score.name) {
                writeln!(to, "  {:<14} not known: the recording has no {signal}", score.name)?;
                continue;
            }
            let of = Counts::of(score);
            let wait = |get: fn(&Waits) -> u64| of.cost.as_ref().map_or("-".into(), |w| ns(get(w)));
            writeln!(
                to,
                "  {:<14} {:>7} {:>7} {:>8}  {:>9} {:>9} {:>9}  {:>10}",
                score.name,
                of.named,
                of.same,
                of.unknown,
                wait(|of| of.p50_ns),
                wait(|of| of.p99_ns),
                wait(|of| of.sum_ns),
                right(of.right)
            )?;
        }
        writeln!(to)?;
    }
    writeln!(
        to,
        "named: spins at which the policy names one of the group; kernel: of these, the kernel gave \
         it the processor.\nwait, sum: where the kernel did not, until the named one ran. That is \
         what another choice could save at most.\nright: the named one held the lock, where the \
         recording says who did."
    )?;
    if played.strange + played.gaps > 0 {
        let (strange, gaps) = (played.strange, played.gaps);
        writeln!(to, "{strange} lines were not understood; events are missing at {gaps} places.")?;
    }
    Ok(())
}

fn ns(value: u64) -> String {
    time(value as f64)
}

fn waits(of: Option<&Waits>) -> Value {
    of.map_or(Value::Null, |of| {
        json!({"count": of.count, "p50_ns": of.p50_ns, "p99_ns": of.p99_ns, "sum_ns": of.sum_ns})
    })
}

/// JSON Lines: one for each group and policy, and for each spin if `each`.
pub(super) fn json(played: &Played, file: &str, each: bool) -> String {
    let mut lines = Vec::new();
    for (group, stage) in played.cast.groups.iter().zip(&played.stages) {
        let (own, policies, kicks) = stage.scores();
        let [member, stranger, stayed, unknown] = kernel(own);
        let (right, known) = own.right();
        lines.push(json!({
            "kind": "replay-group", "file": file, "group": group.name, "threads": group.threads,
            "pcpus": played.pcpus, "spins": own.answers.len(), "strange_lines": played.strange,
            "gaps": played.gaps, "kernel": {"member": member, "stranger": stranger,
            "stayed": stayed, "unknown": unknown, "right": right, "right_of": known},
            "kicks": {"count": kicks.answers.len(), "reasons": kicks.reasons,
            "until_it_ran": waits(Waits::of(kicks.answers.iter()).as_ref())},
        }));
        let policies: Vec<&Score> = policies.collect();
        for score in &policies {
            if let Some(signal) = stage.signals.missing(&score.name) {
                lines.push(json!({
                    "kind": "replay", "file": file, "group": group.name, "policy": score.name,
                    "not_known": format!("the recording has no {signal}"),
                }));
                continue;
            }
            let of = Counts::of(score);
            lines.push(json!({
                "kind": "replay", "file": file, "group": group.name, "policy": score.name,
                "named": of.named, "same_as_kernel": of.same, "unknown": of.unknown,
                "waited": waits(of.cost.as_ref()), "right": of.right.0, "right_of": of.right.1,
                "reasons": score.reasons,
            }));
        }
        for number in (0..own.answers.len()).filter(|_| each) {
            let known =
                policies.iter().filter(|score| stage.signals.missing(&score.name).is_none());
            let all = known.map(|score| {
                let answer = &score.answers[number];
                let named = answer.named.map(|(place, _)| group.threads[place as usize]);
                let value = json!({"named": named, "waited_ns": answer.waited()});
                (score.name.clone(), value)
            });
            let kernel = choice(own.answers[number].kernel, &group.threads);
            let all: serde_json::Map<String, Value> = all.collect();
            lines.push(json!({"kind": "spin", "group": group.name, "number": number,
                "kernel": kernel, "policies": all}));
        }
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn choice(of: Option<Choice>, threads: &[u32]) -> String {
    match of {
        None => "unknown".into(),
        Some(Choice::Stayed) => "stayed".into(),
        Some(Choice::Stranger) => "stranger".into(),
        Some(Choice::Member(place)) => threads[place as usize].to_string(),
    }
}

/// A line for each spin: what the kernel did, and whom every policy names, with the time until that
/// one ran.
pub(super) fn each(played: &Played) -> String {
    let mut said = String::new();
    for (group, stage) in played.cast.groups.iter().zip(&played.stages) {
        let (own, policies, _) = stage.scores();
        let policies: Vec<&Score> = policies.collect();
        for (number, answer) in own.answers.iter().enumerate() {
            let kernel = choice(answer.kernel, &group.threads);
            let _ = write!(said, "{} spin {number}: the kernel {kernel}", group.name);
            for score in
                policies.iter().filter(|score| stage.signals.missing(&score.name).is_none())
            {
                let answer = &score.answers[number];
                let named = match answer.named {
                    None => "none".into(),
                    Some((place, _)) => {
                        let waited = answer.waited().map_or("unknown".into(), ns);
                        format!("{} ({waited})", group.threads[place as usize])
                    }
                };
                let _ = write!(said, "; {} {named}", score.name);
            }
            said.push('\n');
        }
    }
    said
}
