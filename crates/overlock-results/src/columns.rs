//! Columns, as data: what can be shown of a point (`list`), and of rows of other kinds (`fields`).
//! The terminal's tables, the page's and the reference are made from these.

mod column;
pub(crate) mod fields;
mod list;

pub use column::{Column, Unit, View};
pub use fields::{explained, terminal};
pub use list::{
    COLUMNS, FAIRNESS, IMAGE, IMAGE_WAITS, LOCK_TIME, PAGE, THREAD_TIME, THREADS, TIMER, VCPUS,
    YIELDS,
};

pub fn of(view: &View) -> impl Iterator<Item = &'static Column> {
    view.split(", ").filter_map(Column::named)
}

/// The sections of the reference, each with the tables whose columns it explains.
const SECTIONS: [(&str, &[&View]); 3] = [
    ("threads", &[THREADS, LOCK_TIME, THREAD_TIME]),
    ("vcpus", &[VCPUS, FAIRNESS, YIELDS, TIMER]),
    ("kernels", &[IMAGE, IMAGE_WAITS]),
];

/// The section of the reference that explains a column: `threads`, `vcpus` or `kernels` if only
/// these have it, else `all`.
pub fn section(column: &Column) -> &'static str {
    let has =
        |views: &[&View]| views.iter().any(|view| of(view).any(|one| one.name == column.name));
    let mut sections = SECTIONS.iter().filter(|(_, views)| has(views));
    match (sections.next(), sections.next()) {
        (Some((name, _)), None) => name,
        _ => "all",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_views_have_only_columns_that_exist() {
        let names: BTreeSet<&str> = COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(names.len(), COLUMNS.len());
        let views = SECTIONS.iter().flat_map(|(_, views)| *views).chain([&PAGE]);
        for name in views.flat_map(|view| view.split(", ")) {
            assert!(names.contains(name), "{name}");
        }
        let ends = |name| Column::named(name).and_then(Column::ends).map(|of| of.map(|of| of.name));
        assert_eq!(ends("of best"), Some(["of best low", "of best high"]));
        assert_eq!((ends("average"), ends("p50")), (Some(["least", "most"]), None));
    }
}
