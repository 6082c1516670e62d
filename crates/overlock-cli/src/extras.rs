// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an installed command needs besides itself: completions for shells, and manual pages.

use crate::args::{Cli, CompletionsArgs, ManPagesArgs};
use crate::{Outcome, output};
use anyhow::{Context, Result};
use clap::CommandFactory as _;
use std::fs;

/// Prints a completion script.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "overlock", &mut script);
    output::print(String::from_utf8(script).context("a completion script is text")?.trim_end())?;
    Ok(Outcome::Fine)
}

/// Writes a manual page for the command, and one for each sub-command.
pub(crate) fn man_pages(args: &ManPagesArgs) -> Result<Outcome> {
    let command = Cli::command().disable_help_subcommand(true);
    fs::create_dir_all(&args.folder)
        .and_then(|()| clap_mangen::generate_to(command, &args.folder))
        .with_context(|| format!("can't write to {}", args.folder.display()))?;
    Ok(Outcome::Fine)
}
