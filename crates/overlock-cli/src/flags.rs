// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flags that several verbs have.

use clap::Args;
use std::path::PathBuf;

/// Where results go besides the tables.
#[derive(Clone, Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print JSON Lines instead of tables: a `run` record, then one record for each result
    #[arg(long)]
    pub(crate) json: bool,

    /// Also write JSON Lines to a file, each result as soon as there is one
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// Parses a number of seconds, from a hundredth to `most`.
pub(crate) fn seconds(text: &str, most: f64) -> Result<f64, String> {
    let value = text.strip_suffix('s').unwrap_or(text).parse::<f64>();
    let value = value.map_err(|_| format!("'{text}' is not a number of seconds"))?;
    match (0.01..=most).contains(&value) {
        true => Ok(value),
        false => Err(format!("{text} is outside 0.01 to {most} seconds")),
    }
}
