//! What an installed command needs besides itself: completions for shells.

use crate::outcome::Outcome;
use crate::output;
use anyhow::{Context, Result};
use clap::{Args, Command};

/// Print a script that completes this command's flags in a shell.
#[derive(Debug, Args)]
#[command(after_help = COMPLETIONS_EXAMPLES)]
pub(crate) struct CompletionsArgs {
    /// The shell to complete for
    shell: clap_complete::Shell,
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  overlock completions bash > completions.bash
  overlock completions zsh > _overlock";

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "overlock", &mut script);
    output::print(String::from_utf8(script).context("a completion script is text")?.trim_end())?;
    Ok(Outcome::Fine)
}
