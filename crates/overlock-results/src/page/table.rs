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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::count;

    fn table(rows: usize) -> Table {
        let column = |name: &str, about: &str| Column {
            name: name.into(),
            about: about.into(),
            is_text: name == "lock",
        };
        let of = Interval { median: 2e6, low: 1.5e6, high: 3e6 };
        let row = || vec![html! { "a<b" }, interval(of, count)];
        let group = Group { name: "2 threads".into(), rows: (0..rows).map(|_| row()).collect() };
        let columns = vec![column("lock", ""), column("ops/s", "operations per second")];
        Table { class: "points", caption: "All".into(), columns, groups: vec![group] }
    }

    #[test]
    fn each_cell_has_the_name_of_its_column() {
        let shown = table(1).show().into_string();
        for part in [
            r#"<th scope="col" class="text">lock</th>"#,
            r#"<th scope="col" title="operations per second">ops/s</th>"#,
            r#"<th scope="rowgroup" colspan="2">2 threads</th>"#,
            r#"<th scope="row">a&lt;b</th>"#,
            r#"<td data-name="ops/s"><data value="2000000">2.00 M</data>"#,
            r#"<data value="1500000">1.50 M</data> to <data value="3000000">3.00 M</data>"#,
        ] {
            assert!(shown.contains(part), "{part} is not in {shown}");
        }
    }

    #[test]
    fn a_unit_is_shown_once_if_it_is_the_same() {
        let ends = |low: &str, high: &str| range(&(1.0, low.into()), &(2.0, high.into()));
        for (low, high, shown) in [
            ("14.7 ns", "15.1 ns", ">14.7</data> to"),
            ("900 ns", "1.20 us", ">900 ns</data> to"),
            ("1.50 k", "2.00 k", ">1.50 k</data> to"),
            ("0.9", "1.2", ">0.9</data> to"),
        ] {
            let text = ends(low, high).into_string();
            assert!(text.contains(shown), "{text}");
        }
    }

    #[test]
    fn a_long_table_waits_until_it_is_asked_for() {
        assert!(!table(LONG).show().into_string().contains("<details>"));
        let long = table(LONG + 1).show().into_string();
        assert!(long.starts_with("<details><summary>All: 41 rows</summary>"), "{long}");
    }
}
