//! Tables. Wide screens show rows and columns; on narrow ones, each row is a card, in which every
//! value has its name above it.
//!
//! Each figure contains the record's own value, beside the three figures that it shows.

use crate::stats::Interval;
use maud::{Markup, html};

/// A number of a record, and its text on the page.
pub(crate) type Figure = (f64, String);

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) is_text: bool,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) class: &'static str,
    pub(crate) caption: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) groups: Vec<Group>,
}

#[derive(Debug)]
pub(crate) struct Group {
    /// What they have in common; empty if there is nothing to say.
    pub(crate) name: String,
    pub(crate) rows: Vec<Vec<Markup>>,
}

/// If a table has more rows than this, it is shown on request.
const LONG: usize = 40;

/// Tables of no more columns than this stay tables on narrow screens.
const FEW: usize = 3;

impl Table {
    /// Makes the table, which scrolls by itself where it is wider than the page.
    pub(crate) fn show(&self) -> Markup {
        let length = self.groups.iter().map(|group| group.rows.len()).sum::<usize>();
        let table = html! { div class="scroll" role="region" tabindex="0" aria-label=(self.caption) {
            (self.table())
        } };
        html! {
            @if length > LONG {
                details {
                    summary { (self.caption) ": " (length) " rows" }
                    (table)
                }
            } @else { (table) }
        }
    }

    fn table(&self) -> Markup {
        // A few columns fit everywhere.
        let few = if self.columns.len() <= FEW { " few" } else { "" };
        html! { table class={ (self.class) (few) } {
            caption { (self.caption) }
            thead { tr { @for column in &self.columns {
                th scope="col" class=[column.is_text.then_some("text")]
                    title=[Some(&column.about).filter(|about| !about.is_empty())] { (column.name) }
            } } }
            @for group in &self.groups { tbody {
                @if !group.name.is_empty() {
                    tr class="group" {
                        th scope="rowgroup" colspan=(self.columns.len()) { (group.name) }
                    }
                }
                @for row in &group.rows { tr {
                    @for (at, (column, cell)) in self.columns.iter().zip(row).enumerate() {
                        @if at == 0 {
                            th scope="row" { (cell) }
                        } @else {
                            td class=[column.is_text.then_some("text")] data-name=(column.name) {
                                (cell)
                            }
                        }
                    }
                } }
            } }
        } }
    }
}

pub(crate) fn number((raw, shown): &Figure) -> Markup {
    html! { data value=(raw) { (shown) } }
}

pub(crate) fn interval(of: Interval, show: impl Fn(f64) -> String) -> Markup {
    html! { (number(&(of.median, show(of.median)))) (range(&(of.low, show(of.low)), &(of.high, show(of.high)))) }
}

/// Shows two ends, with their unit once. `k` and `M` are part of a number: "776 to 4.53 k" would
/// leave open what 776 is.
pub(crate) fn range(low: &Figure, high: &Figure) -> Markup {
    let short = match (low.1.split_once(' '), high.1.split_once(' ')) {
        (Some((number, one)), Some((_, other))) if one == other && !"kMG".contains(one) => number,
        _ => &low.1,
    };
    html! { span class="interval" { (number(&(low.0, short.to_owned()))) " to " (number(high)) } }
}

pub(crate) fn none() -> Markup {
    html! { span class="none" { "–" } }
}
