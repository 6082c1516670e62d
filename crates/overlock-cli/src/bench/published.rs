//! Published figures beside ours, for people.
//!
//! A figure is *pinned* if its file says what the verdict was when it was last examined: `--check`
//! fails if that changes.

use crate::table::Table;
use overlock_bench::World;
use overlock_bench::experiment::Experiment;
use overlock_bench::published::ROUNDS;
use overlock_results::PublishedFigure;
use overlock_results::row::{Agreement, Beside};
use overlock_results::units::three;
use serde_json::{Value, json};

fn name(agreement: Agreement) -> String {
    match agreement {
        Agreement::Yes => "yes",
        Agreement::No => "NO",
        Agreement::Open => "-",
        Agreement::Unclear => "unclear",
    }
    .into()
}

fn what(published: &PublishedFigure) -> String {
    let PublishedFigure { lock, policy, timer, figure, think_ns, .. } = published;
    let mut own = vec![timer.map_or_else(|| lock.clone(), |timer| timer.name().to_owned())];
    if policy != "none" {
        own.push(policy.clone());
    }
    let mut base = vec![];
    if let Some(over) = &published.over {
        base.extend(over.lock.clone());
        base.extend(over.policy.clone());
        base.extend(over.timer.map(|timer| timer.name().to_owned()));
        base.extend(over.cpus.map(|cpus| format!("{cpus} vCPUs")));
    }
    let over = if base.is_empty() { String::new() } else { format!(" over {}", base.join(", ")) };
    let think = think_ns.map(|ns| format!(", {ns} ns apart")).unwrap_or_default();
    format!("{figure}: {}{over}{think}", own.join(", "))
}

/// The table of an experiment, how often ours agree, and the notes.
pub(super) fn table(experiment: &Experiment, world: &dyn World, besides: &[Beside]) -> String {
    let row = |one: &Beside| {
        let mut row = json!(one);
        row["figure"] = what(&one.published).into();
        row["direction"] = name(one.direction).into();
        row["size"] = name(one.size).into();
        row["ours_holds"] = one.ours_holds.map(name).into();
        // A figure that is over nothing has no effect.
        if one.published.over.is_none() {
            (row["published_effect"], row["ours_effect"]) = (Value::Null, Value::Null);
        }
        row
    };
    let table = Table::of("published", &besides.iter().map(row).collect::<Vec<_>>());
    let Experiment { name, about, source, .. } = experiment;
    let score = |of: fn(&Beside) -> Agreement| {
        let count = |is| besides.iter().filter(|one| of(one) == is).count();
        let (yes, no) = (count(Agreement::Yes), count(Agreement::No));
        format!("{yes} of {}", yes + no)
    };
    let mut text = format!(
        "{name}: {about}\n{}. {source}\n\n{table}Directions agree in {}, sizes to within a \
         quarter in {}.\n",
        world.about(),
        score(|one| one.direction),
        score(|one| one.size)
    );
    let mut told: Vec<&str> = Vec::new();
    // The notes are about the model.
    for note in
        besides.iter().filter(|_| !world.is_real()).filter_map(|one| one.published.note.as_deref())
    {
        if !told.contains(&note) {
            told.push(note);
            text += &format!("  note: {note}\n");
        }
    }
    text
}

/// What differs from the verdicts that the experiment's file pins, a line each. Where there are
/// fewer rounds than the file has, or than an interval needs, neither a verdict in place of an open
/// one counts nor an open one in place of a verdict.
pub(super) fn changes(experiment: &Experiment, besides: &[Beside]) -> Vec<String> {
    let changed = besides.iter().filter_map(|one| {
        let is_short = one.rounds < ROUNDS.max(usize::from(experiment.host.runs));
        let differs = |pin: Agreement, is: Agreement| {
            pin != is && !(is_short && [pin, is].contains(&Agreement::Unclear))
        };
        let pinned = one.published.pinned.map(|[direction, size]| {
            [("direction", (direction, one.direction)), ("size", (size, one.size))]
        });
        let ours = one.published.our_pin.zip(one.ours_holds).map(|pair| ("our lock", pair));
        let told: Vec<String> = pinned
            .into_iter()
            .flatten()
            .chain(ours)
            .filter(|(_, (pin, is))| differs(*pin, *is))
            .map(|(of, (pin, is))| format!("{of} was {}, is {}", name(pin), name(is)))
            .collect();
        (!told.is_empty()).then(|| {
            format!(
                "changed: {}: {}; published {}, ours {}",
                what(&one.published),
                told.join(", "),
                one.published_ratio.map_or_else(|| "-".into(), three),
                three(one.ours.median)
            )
        })
    });
    changed.collect()
}
