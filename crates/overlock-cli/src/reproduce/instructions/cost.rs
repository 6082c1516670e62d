// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the counted instructions make of an operation of the load, beside the published figures.
//!
//! A pair is a small part of a transaction. What a build executes beyond the native one is charged
//! an access of the first-level cache for each instruction, and a locked read-modify-write for each
//! locked one, by the host's profile: dearer than most are, so what comes out is an upper bound.

use super::Pair;
use crate::reproduce::judge::{Agreement, At, Judged};
use crate::table::Table;
use crate::units::three;
use anyhow::Result;
use overlock_sim::performance::HostProfile;
use overlock_world::experiment::{Experiment, Published};
use overlock_world::locks::Lock;
use serde::Serialize;

/// What one lock's pair costs beyond the native one's.
#[derive(Debug, Serialize)]
pub(in crate::reproduce) struct Cost<'a> {
    kind: &'static str,
    experiment: &'a str,
    #[serde(flatten)]
    pair: &'a Pair,
    /// Beyond the native build of the same lock.
    extra_instructions: i64,
    extra_locked: i64,
    /// Critical sections in an operation, and what it computes.
    sections: u32,
    operation_ns: u64,
    /// The share of an operation that the extra instructions take.
    of_operation: f64,
    /// How many published throughputs of this lock there are over the native one, from where to
    /// where they go as gains and losses, and for how many direction and size agree with that
    /// share.
    published: usize,
    published_low: f64,
    published_high: f64,
    direction_agrees: usize,
    size_agrees: usize,
}

/// The costs of all pairs whose native build was counted too.
pub(in crate::reproduce) fn all<'a>(
    experiment: &'a Experiment,
    host: &HostProfile,
    pairs: &'a [Pair],
) -> Result<Vec<Cost<'a>>> {
    let profiles = experiment.profiles()?;
    let Some(profile) = profiles.first() else { return Ok(Vec::new()) };
    let sections = profile.sections;
    let operation_ns = profile.think_ns + u64::from(sections) * profile.section_ns;
    let mut costs = Vec::new();
    for pair in pairs {
        let Some(native) = native_of(pair, pairs) else { continue };
        let (own, base) = (pair.both(), native.both());
        let extra_instructions = i64::from(own.instructions) - i64::from(base.instructions);
        let extra_locked = i64::from(own.locked) - i64::from(base.locked);
        let (each, locked) = (host.costs.hit.ns as f64, host.costs.rmw.ns as f64);
        let extra_ns =
            (extra_instructions - extra_locked) as f64 * each + extra_locked as f64 * locked;
        let of_operation = f64::from(sections) * extra_ns / (operation_ns.max(1) as f64);
        let is_it = |one: &&Published| {
            let over = one.over.as_ref().and_then(|over| over.lock.as_ref());
            one.figure == "ops_per_s" && one.lock == pair.lock && over == Some(&native.lock)
        };
        let beside = |one| {
            Judged::new(&experiment.name, At::default(), one, vec![1.0 / (1.0 + of_operation)])
        };
        let judged: Vec<_> = experiment.published.iter().filter(is_it).map(beside).collect();
        let effects = || judged.iter().filter_map(Judged::published_effect);
        let yes = |of: fn(&Judged<'_>) -> Agreement| {
            judged.iter().filter(|one| of(one) == Agreement::Yes).count()
        };
        costs.push(Cost {
            kind: "instructions",
            experiment: &experiment.name,
            pair,
            extra_instructions,
            extra_locked,
            sections,
            operation_ns,
            of_operation,
            published: judged.len(),
            published_low: effects().fold(0.0, f64::min),
            published_high: effects().fold(0.0, f64::max),
            direction_agrees: yes(|one| one.direction()),
            size_agrees: yes(|one| one.size()),
        });
    }
    Ok(costs)
}

/// The native build of the same lock.
fn native_of<'a>(pair: &Pair, pairs: &'a [Pair]) -> Option<&'a Pair> {
    let family = Lock::named(&pair.lock)?.family();
    let name = format!("native-{family}");
    pairs.iter().find(|other| other.lock == name)
}

/// What there is to tell of the costs; nothing if there are none.
pub(in crate::reproduce) fn table(costs: &[Cost<'_>]) -> Option<String> {
    let first = costs.first()?;
    let mut table = Table::new(&[
        "uncontended pair",
        "release",
        "lock",
        "unlock",
        "pair",
        "locked",
        "over native",
        "of a transaction",
        "published",
        "direction",
        "size",
    ]);
    for cost in costs {
        let Pair { lock, release, locking, unlocking } = cost.pair;
        let both = cost.pair.both();
        let native = f64::from(both.instructions) - cost.extra_instructions as f64;
        let agree = |count: usize| match cost.published {
            0 => "-".to_owned(),
            all => format!("{count} of {all}"),
        };
        table.row(vec![
            lock.clone(),
            release.name().into(),
            locking.instructions.to_string(),
            unlocking.instructions.to_string(),
            both.instructions.to_string(),
            both.locked.to_string(),
            three(f64::from(both.instructions) / native.max(1.0)),
            format!("{:+.3} %", 100.0 * cost.of_operation),
            match cost.published {
                0 => "-".into(),
                _ => format!(
                    "{:+.1}..{:+.1} %",
                    100.0 * cost.published_low,
                    100.0 * cost.published_high
                ),
            },
            agree(cost.direction_agrees),
            agree(cost.size_agrees),
        ]);
    }
    let mut text = format!(
        "Instructions of this build on this machine, by single steps\n\n{table}\n\
         A transaction here is {} critical sections in {} us of work. What a lock executes beyond the \
         native one is charged in full; published is its throughput over the native one.\n",
        first.sections,
        three(first.operation_ns as f64 / 1e3)
    );
    if cfg!(debug_assertions) {
        text += "  note: this build is not optimised; another executes fewer instructions\n";
    }
    Some(text)
}
