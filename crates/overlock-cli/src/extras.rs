//! What an installed command needs besides itself: completions for shells, and
//! manual pages.

use crate::outcome::Outcome;
use crate::output;
use anyhow::{Context, Result};
use clap::{Args, Command};
use std::path::PathBuf;
use std::{fs, io};

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
    write_pages(&args.folder, command)
        .with_context(|| format!("can't write to {}", args.folder.display()))?;
    Ok(Outcome::Fine)
}

fn write_pages(folder: &PathBuf, command: Command) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    clap_mangen::generate_to(command, folder)?;
    for page in fs::read_dir(folder)? {
        let page = page?.path();
        let text = fs::read_to_string(&page)?;
        // Examples and tables follow, whose lines a page must not fill, up to the next section.
        let Some((options, examples)) = text.split_once(".SH EXTRA\n") else { continue };
        fs::write(page, format!("{options}.SH EXAMPLES\n.nf\n{examples}"))?;
    }
    Ok(())
}
