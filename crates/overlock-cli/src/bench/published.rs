//! Published figures beside ours, for people.
//!
//! A figure is *pinned* if its file says what the verdict was when it was last examined: `--check`
//! fails if that changes.

use crate::table::Table;
use overlock_bench::World;
use overlock_bench::experiment::Experiment;
use overlock_bench::published::ROUNDS;
use overlock_results::Published;
use overlock_results::row::{Agreement, Beside};
use overlock_results::units::three;

/// An effect; a figure that is over nothing has none.
fn percent(published: &Published, effect: Option<f64>) -> String {
    let effect = effect.filter(|_| published.over.is_some());
    effect.map_or_else(|| "-".into(), |effect| format!("{:+.1} %", 100.0 * effect))
}

fn name(agreement: Agreement) -> String {
    match agreement {
        Agreement::Yes => "yes",
        Agreement::No => "NO",
        Agreement::Open => "-",
        Agreement::Unclear => "unclear",
    }
    .into()
}

fn what(published: &Published) -> String {
    let Published { lock, policy, timer, figure, think_ns, .. } = published;
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
    let mut table = Table::headed(
        "figure|vCPUs|published|ours|low|high|effect, theirs|ours|direction|size|\
         our lock|over theirs|holds",
    );
    for one in besides {
        table.row(vec![
            what(&one.published),
            one.ours_cpus.to_string(),
            one.published_ratio.map_or_else(|| "-".into(), three),
            three(one.ours.median),
            three(one.ours.low),
            three(one.ours.high),
            percent(&one.published, one.published_effect),
            percent(&one.published, Some(one.ours_effect)),
            name(one.direction),
            name(one.size),
            one.beside.map_or_else(String::new, |beside| three(beside.median)),
            one.our_ratio.map_or_else(String::new, |ratio| three(ratio.median)),
            one.ours_holds.map_or_else(String::new, name),
        ]);
    }
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
