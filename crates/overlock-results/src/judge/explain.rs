//! Where the time of vCPUs went at a point, in sentences.
//!
//! It reports only counted facts: how long vCPUs waited for each lock while its holder, or the only
//! vCPU that could take it, was off CPU; and the reason codes of every spin that the host heard of.

use crate::locks::Lock;
use crate::row::{Asked, Point};
use crate::units::{count, three, time};
use crate::{Losses, Run};

pub fn explain(runs: &Point) -> Vec<String> {
    let mut sentences = vec![spent(runs), away(runs)];
    sentences.extend(late(runs));
    sentences.extend(slept(runs));
    if runs.sections != Some(0) {
        sentences.extend(lost(runs));
        sentences.extend(asked(runs));
    }
    sentences
}

fn spent(runs: &Point) -> String {
    if runs.sections == Some(0) {
        return format!(
            "Reads of the PM timer took {} of the CPU time; each took {}, waits for a pCPU included.",
            percent(mid(runs, Run::timer_share), 1.0),
            time(mid(runs, |record| record.timer_read_ns)),
        );
    }
    let pcpus = f64::from(runs.pcpus.unwrap_or(1));
    let used = mid(runs, |record| record.cpu_s_per_s);
    // A wait that goes on at the end is timed to its own end, a little beyond that of the run.
    let spun = mid(runs, |record| record.spin_s_per_s).min(used);
    let lock = &runs.lock;
    let locks = match runs.locks_count.unwrap_or(1) {
        1 => format!("the one {lock} lock"),
        n => format!("the {n} {lock} locks"),
    };
    format!(
        "Of {} pCPU seconds in a second {} ({}) went into waiting for {locks}, {} into everything \
         else that vCPUs did, and {} were idle.",
        three(pcpus),
        three(spun),
        percent(spun, pcpus),
        three(used - spun),
        three((pcpus - used).max(0.0)),
    )
}

/// Describes how often and how long vCPUs had no pCPU against their will.
fn away(runs: &Point) -> String {
    let preempted = exits_per_s(runs, "preemption");
    let steal = mid(runs, |record| record.steal_s_per_s);
    if steal < 0.01 {
        return format!(
            "vCPUs were preempted {} times a second, and hardly ever waited for a pCPU.",
            count(preempted)
        );
    }
    format!(
        "vCPUs were preempted {} times a second; being ready without a pCPU cost each of them {} \
         of its time.",
        count(preempted),
        percent(steal, f64::from(runs.cpus.unwrap_or(1))),
    )
}

/// Describes how well slices were kept, and what the system took.
fn late(runs: &Point) -> Option<String> {
    let slices = mid(runs, |record| record.slices_per_s);
    (slices > 0.0).then(|| {
        format!(
            "{} slices a second ended with a preemption, {} late on average; the system kept {} s \
             in a second of the pCPUs' time for itself and others.",
            count(slices),
            time(mid(runs, |record| record.overrun_ns)),
            three(mid(runs, |record| record.run_delay_s_per_s)),
        )
    })
}

fn slept(runs: &Point) -> Option<String> {
    let (halts, kicks) = (exits_per_s(runs, "halt"), exits_per_s(runs, "kick"));
    let ops = mid(runs, |record| record.ops_per_s);
    (halts > 0.0 && ops > 0.0).then(|| {
        format!(
            "vCPUs halted {} times and kicked {} times a second: {} exits for each operation.",
            count(halts),
            count(kicks),
            three((halts + kicks) / ops),
        )
    })
}

/// The number of locks of a workload that are described one by one.
const WORST: usize = 4;

/// Describes the vCPUs that were waited for, lock by lock where there are several.
fn lost(runs: &Point) -> Vec<String> {
    let locks = runs.losses();
    let sum = |of: fn(&Losses) -> u64| locks.iter().map(of).sum::<u64>() as f64;
    let waited = sum(|lock| lock.waited_ns);
    if waited == 0.0 {
        return Vec::new();
    }
    let seconds = |waited: f64| three(waited / 1e9 / runs.total_seconds());
    let mut reasons = vec![("the holder was off CPU", sum(|lock| lock.holder_off_ns))];
    if matches!(Lock::named(&runs.lock).map_or("", |lock| lock.family()), "ticket" | "queued") {
        let next = "the lock was free, but could only go to a vCPU off CPU";
        reasons.push((next, sum(|lock| lock.next_off_ns)));
    }
    if locks.iter().any(|lock| lock.debtor_off_ns > 0) {
        let debtor = "the holder waited for a vCPU off CPU to answer an interrupt";
        reasons.push((debtor, sum(|lock| lock.debtor_off_ns)));
    }
    let parts: Vec<String> = reasons
        .iter()
        .map(|(why, ns)| format!("in {} of that {why}", percent(*ns, waited)))
        .collect();
    let mut sentences = vec![format!(
        "Waits for locks add up to {} s in a second, all vCPUs together; {}.",
        seconds(waited),
        parts.join("; "),
    )];
    if locks.len() > 1 {
        let mut worst: Vec<(usize, &Losses)> = locks.iter().enumerate().collect();
        worst.sort_by_key(|(_, lock)| std::cmp::Reverse(lock.waited_ns));
        let part = |(number, lock): &(usize, &Losses)| {
            let off = lock.holder_off_ns + lock.next_off_ns;
            let waited = lock.waited_ns as f64;
            format!("lock {number} {} s ({} off CPU)", seconds(waited), percent(off as f64, waited))
        };
        let parts: Vec<String> = worst.iter().take(WORST).map(part).collect();
        sentences.push(format!("Most waited for: {}.", parts.join(", ")));
    }
    sentences
}

/// Describes the requests of spinners and kickers to the host, its answers, and their reasons.
fn asked(runs: &Point) -> Vec<String> {
    let Asked { times, hits, .. } = runs.asked();
    if times == 0.0 {
        return vec!["No spin was reported to the host, so it tried no yield.".into()];
    }
    let mut sentences = vec![format!(
        "The host was asked for a yield {} times a second; in {} of these the pCPU is known to \
         have gone to the vCPU that was waited for.",
        count(times / runs.total_seconds()),
        percent(hits, times),
    )];
    let list = |kind: &str, what: &str| {
        let part = |(why, count): &(&str, u64)| {
            let count = *count as f64;
            // Several can be passed over each time, so that a share could exceed the whole.
            match kind {
                "skipped" => format!("{} x {}", three(count / times), meaning(why)),
                _ => format!("{}: {}", percent(count, times), meaning(why)),
            }
        };
        let parts: Vec<String> = runs.reasons(kind).iter().map(part).collect();
        (!parts.is_empty()).then(|| format!("{what}: {}.", parts.join("; ")))
    };
    sentences.extend(list("directed", "It went to a chosen vCPU"));
    sentences.extend(list(
        "plain",
        "It went to the vCPU that lagged most, because there was no better one",
    ));
    sentences.extend(list("stayed", "It stayed with its owner"));
    sentences.extend(list("skipped", "Passed over, each time it was asked"));
    sentences
}

fn meaning(why: &str) -> &str {
    match why {
        "next-in-turn" => "the next in turn",
        "not-spinning" => "the next in turn that had not spun itself",
        "skipped-before" => "a spinner that had been skipped before",
        "lock-holder" => "the preempted holder, as the guest named it",
        "next-waiter" => "the next waiter, preempted, as the guest named it",
        "owes-ipi" => "a vCPU that owed the spinner an answer to an interrupt",
        "owes-holder" => "a vCPU that owed the holder an answer to an interrupt",
        "ipi-pending" => "a vCPU with an interrupt to answer",
        "true-holder" => "the vCPU truly waited for, which was preempted",
        "named" => "a vCPU that was requested by number",
        "policy-never" => "the policy never yields",
        "policy-undirected" => "the policy gives no direction",
        "no-candidate" => "every other vCPU was passed over",
        "not-overcommitted" => "there were pCPUs for all vCPUs",
        "holder-running" => "the holder was running, and spinning was right",
        "holder-halted" => "the holder slept",
        "holder-unknown" => "the holder was unknown",
        "target-unfit" => "the requested vCPU could not run",
        "ahead-of-share" => "ahead of its share of CPU time",
        "nobody-waits" => "no vCPU waited for a pCPU",
        "itself" => "the spinner itself",
        "running" => "a vCPU that ran already",
        "halted" => "a vCPU that slept until a kick",
        "stopped" => "a vCPU that had ended",
        "spinning" => "a vCPU that had spun itself",
        "no-ipi" => "a vCPU that owed no answer",
        "beyond-scan" => "a vCPU beyond the end of the scan",
        code => code,
    }
}

fn exits_per_s(runs: &Point, kind: &str) -> f64 {
    runs.exits.get(kind).copied().unwrap_or(0) as f64 / runs.total_seconds()
}

fn mid(runs: &Point, figure: impl Fn(&Run) -> f64) -> f64 {
    runs.median(figure).unwrap_or(0.0)
}

fn percent(part: f64, whole: f64) -> String {
    if whole > 0.0 { format!("{} %", three(100.0 * part / whole)) } else { "-".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two runs of 2 s; what is counted once for a point is of both.
    #[test]
    fn shares_are_of_what_the_sentences_name() {
        let losses =
            |waited_ns, holder_off_ns| Losses { waited_ns, holder_off_ns, ..Losses::default() };
        let run = Run {
            seconds: 2.0,
            ops_per_s: 10.0,
            cpu_s_per_s: 3.0,
            spin_s_per_s: 1.0,
            steal_s_per_s: 2.0,
            locks: vec![losses(1_000_000_000, 250_000_000), losses(3_000_000_000, 1_500_000_000)],
            ..Run::default()
        };
        let point = Point {
            lock: "ticket".into(),
            cpus: Some(8),
            pcpus: Some(4),
            locks_count: Some(2),
            samples: vec![run.clone(), run],
            exits: [("preemption", 40), ("halt", 60), ("kick", 20)]
                .map(|(k, n)| (k.into(), n))
                .into(),
            yields: [
                ("directed:lock-holder", 6),
                ("stayed:holder-running", 2),
                ("skipped:halted", 4),
            ]
            .map(|(code, count)| (code.into(), count))
            .into(),
            yield_hits: Some(2),
            ..Point::default()
        };
        assert_eq!(explain(&point).join("\n"), SENTENCES.trim_end());
    }

    const SENTENCES: &str = "\
Of 4.00 pCPU seconds in a second 1.00 (25.0 %) went into waiting for the 2 ticket locks, \
2.00 into everything else that vCPUs did, and 1.00 were idle.
vCPUs were preempted 10.0 times a second; being ready without a pCPU cost each of them \
25.0 % of its time.
vCPUs halted 15.0 times and kicked 5.00 times a second: 2.00 exits for each operation.
Waits for locks add up to 2.00 s in a second, all vCPUs together; \
in 43.8 % of that the holder was off CPU; \
in 0 % of that the lock was free, but could only go to a vCPU off CPU.
Most waited for: lock 1 1.50 s (50.0 % off CPU), lock 0 0.500 s (25.0 % off CPU).
The host was asked for a yield 2.00 times a second; \
in 25.0 % of these the pCPU is known to have gone to the vCPU that was waited for.
It went to a chosen vCPU: 75.0 %: the preempted holder, as the guest named it.
It stayed with its owner: 25.0 %: the holder was running, and spinning was right.
Passed over, each time it was asked: 0.500 x a vCPU that slept until a kick.
";
}
