// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plain tables: the first column to the left, numbers to the right, no lines to draw.

/// A table that grows row by row.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(header: &[&str]) -> Self {
        Table { rows: vec![header.iter().map(ToString::to_string).collect()] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let padding = " ".repeat(width - cell.chars().count());
                match column {
                    0 => line.push_str(&format!("  {cell}{padding}")),
                    _ => line.push_str(&format!("  {padding}{cell}")),
                }
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["lock", "ops/s"]);
        table.row(vec!["std".into(), "1.00 M".into()]);
        table.row(vec!["pthread-µ".into(), "3".into()]);
        assert_eq!(
            table.to_string(),
            "  lock        ops/s\n  std        1.00 M\n  pthread-µ       3\n"
        );
    }
}
