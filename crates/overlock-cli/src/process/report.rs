//! The end of a comparison: the ranked table, the failures, the doubts and the verdict.

use super::table::table;
use crate::output::{self, Sink};
use crate::warnings::Warning;
use anyhow::Result;
use overlock_programs::{LIBC, NONE, Target, Waits};
use overlock_results::judge::{choose, startup};
use overlock_results::row::{Failure, PROCESS, Point, Row};
use overlock_results::stats;

/// Results that vary by more than this are reported as doubtful.
const SPREAD_LIMIT: f64 = 0.15;

pub(super) fn tell(
    target: &Target,
    failures: &[Failure],
    waits: &Waits,
    points: &[Point],
    sink: &mut Sink,
) -> Result<()> {
    if !points.is_empty() {
        points.iter().try_for_each(|of| sink.record(&Row::Point(Box::new(of.clone()))))?;
        let library = target.library.as_ref().map(|file| file.describe());
        sink.people(&table(points, library.as_deref()))?;
        let costs = || startup::cost(points).map(|cost| startup::sentence(&cost));
        if let Some(sentence) = startup::of_metric(points).or_else(costs) {
            sink.people(&sentence)?;
        }
        warnings(points).for_each(|warning| warning.print());
    }
    for failure in failures {
        sink.record(&Row::Failure(failure.clone()))?;
        let lock = failure.lock.as_deref().unwrap_or_default();
        output::complain(&format!("failed: under {lock}, {}", failure.sentence));
    }
    let locks = points.iter().filter(|point| point.lock != NONE).count();
    if !failures.is_empty() && locks < 2 {
        sink.people("No verdict: too few locks are left to compare.")?;
    }
    if failures.is_empty() && locks == 1 {
        sink.people(&format!(
            "No verdict: there is only one lock, because {NONE} replaces nothing; name two, as in \
             --locks libc,hybrid."
        ))?;
    }
    if let Some(choice) = choose(points, waits.replaced()) {
        sink.record(&Row::Choice(choice.clone()))?;
        sink.people(&choice.sentence)?;
        if let Some(lock) = choice.lock.filter(|lock| lock != LIBC) {
            sink.people(&format!("  overlock run {lock} -- {}", target.typed()))?;
        }
    }
    Ok(())
}

/// Judges the programs among rows, whoever measured them. Returns whether none failed; nothing if
/// there is none.
pub(crate) fn judge(rows: &[Row], sink: &mut Sink) -> Result<Option<bool>> {
    let points = rows.iter().filter_map(Row::point).filter(|point| point.world == PROCESS);
    let programs = stats::unique(points.clone().map(|point| point.workload.clone()));
    let waits = rows.iter().find_map(|row| match row {
        Row::Choice(choice) => choice.waits,
        _ => None,
    });
    let failures = rows.iter().filter_map(|row| match row {
        Row::Failure(failure) => Some(failure.sentence.as_str()),
        _ => None,
    });
    for program in &programs {
        let own = points.clone().filter(|point| point.workload == *program);
        let own: Vec<Point> = own.cloned().collect();
        let library = own.iter().find_map(|point| point.library.clone());
        sink.people(&table(&own, library.as_deref()))?;
        if let Some(choice) = choose(&own, waits.filter(|_| programs.len() == 1)) {
            sink.people(&choice.sentence)?;
        }
    }
    let failures: Vec<&str> = failures.filter(|_| !programs.is_empty()).collect();
    failures.iter().for_each(|sentence| output::complain(&format!("failed: {sentence}")));
    Ok((!programs.is_empty()).then_some(failures.is_empty()))
}

fn warnings(points: &[Point]) -> impl Iterator<Item = Warning> {
    let steal = Warning::steal(points, |of| of.lock.clone());
    let spreads = points.iter().filter_map(|of| Some((of.value?.spread(), of.lock.clone())));
    steal.into_iter().chain(Warning::widest(spreads, SPREAD_LIMIT))
}

#[cfg(test)]
mod tests {
    use super::super::table::tests::kept;
    use super::*;

    #[test]
    fn a_kept_comparison_is_judged_again() {
        let mut sink = Sink::default();
        assert_eq!(judge(&kept(), &mut sink).unwrap(), Some(true));
        assert_eq!(judge(&[], &mut sink).unwrap(), None);
        let failed = Failure { sentence: "it crashed".into(), ..Failure::default() };
        let rows = [kept(), vec![Row::Failure(failed)]].concat();
        assert_eq!(judge(&rows, &mut sink).unwrap(), Some(false));
    }
}
