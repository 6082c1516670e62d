//! Plain tables: the first column to the left, numbers to the right, no rules.
//!
//! A table that is wider than the terminal becomes several, one below the other, each with the
//! first column: no row is ever broken.

use crate::terminal;

#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Table { rows: vec![header.iter().map(ToString::to_string).collect()] }
    }

    /// The table of rows of one kind, by the list of their fields.
    pub(crate) fn of(kind: &str, rows: &[serde_json::Value]) -> Self {
        let (header, rows) = overlock_results::columns::terminal(kind, rows);
        let mut table = Self::new(&header);
        rows.into_iter().for_each(|row| table.row(row));
        table
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Lays out the table in `width` columns of a terminal.
    pub(crate) fn fitted(&self, width: Option<usize>) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| GAP.len() + cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let parts = parts(&widths, width.unwrap_or(usize::MAX));
        let parts: Vec<String> = parts.iter().map(|part| self.part(&widths, part)).collect();
        parts.join("\n")
    }

    /// Lays out the first column and some others.
    fn part(&self, widths: &[usize], columns: &[usize]) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for column in columns {
                let Some(cell) = row.get(*column) else { continue };
                let padding = " ".repeat(widths[*column] - GAP.len() - cell.chars().count());
                line += &match column {
                    0 => format!("{GAP}{cell}{padding}"),
                    _ => format!("{GAP}{padding}{cell}"),
                };
            }
            text += &format!("{}\n", line.trim_end());
        }
        text
    }
}

const GAP: &str = "  ";

/// Groups columns that fit side by side: the first, and as many more as fit, but at least one.
fn parts(widths: &[usize], width: usize) -> Vec<Vec<usize>> {
    let first = widths.first().copied().unwrap_or(0);
    let mut parts = vec![vec![0]];
    let mut used = first;
    for (column, wide) in widths.iter().enumerate().skip(1) {
        if used + wide > width && parts.last().is_some_and(|part| part.len() > 1) {
            parts.push(vec![0]);
            used = first;
        }
        used += wide;
        parts.last_mut().expect("there is one").push(column);
    }
    parts
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.fitted(terminal::stdout_width()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["lock", "ops/s", "worst"]);
        table.row(vec!["std".into(), "1.00 M".into(), "0.5".into()]);
        table.row(vec!["pthread-µ".into(), "3".into()]);
        table
    }

    #[test]
    fn columns_line_up() {
        let lines = "  lock        ops/s  worst\n  std        1.00 M    0.5\n  pthread-µ       3\n";
        assert_eq!(table().fitted(None), lines);
        assert_eq!(table().fitted(Some(26)), lines);
    }

    #[test]
    fn wide_tables_are_split() {
        let halves = "  lock        ops/s\n  std        1.00 M\n  pthread-µ       3\n\n  \
                        lock       worst\n  std          0.5\n  pthread-µ\n";
        assert_eq!(table().fitted(Some(25)), halves);
        assert_eq!(table().fitted(Some(1)), halves);
        assert_eq!(Table::new(&["alone"]).fitted(Some(1)), "  alone\n");
    }
}
