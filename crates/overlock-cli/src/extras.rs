//! What an installed command needs besides itself: completions for shells, and manual pages.

use crate::outcome::Outcome;
use crate::output;
use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_mangen::Man;
use std::fs;
use std::path::PathBuf;

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

/// Write manual pages into a folder.
#[derive(Debug, Args)]
pub(crate) struct ManPagesArgs {
    folder: PathBuf,
}

pub(crate) fn man_pages(args: &ManPagesArgs, command: Command) -> Result<Outcome> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let failed = || format!("can't write to {}", args.folder.display());
    fs::create_dir_all(&args.folder).with_context(failed)?;
    let shown = command.get_subcommands().filter(|one| !one.is_hide_set());
    for one in shown.chain([&command]) {
        let (man, mut page) = (Man::new(one.clone()), Vec::new());
        man.render(&mut page)?;
        // Examples and tables follow, whose lines a page must not fill, up to the next section.
        let page = String::from_utf8(page)?.replacen(".SH EXTRA\n", ".SH EXAMPLES\n.nf\n", 1);
        fs::write(args.folder.join(man.get_filename()), page).with_context(failed)?;
    }
    Ok(Outcome::Fine)
}
