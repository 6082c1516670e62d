//! What an installed command needs besides itself: completions for shells, and manual pages.

use crate::outcome::Outcome;
use crate::output;
use anyhow::{Context, Result};
use clap::{Args, Command};
use clap_mangen::Man;
use std::path::{Path, PathBuf};
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

/// Write manual pages into a folder.
#[derive(Debug, Args)]
pub(crate) struct ManPagesArgs {
    folder: PathBuf,
}

pub(crate) fn completions(args: &CompletionsArgs, mut command: Command) -> Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "overlock", &mut script);
    output::print(String::from_utf8(script).context("a completion script is text")?.trim_end())?;
    Ok(Outcome::Fine)
}

pub(crate) fn man_pages(args: &ManPagesArgs, command: Command) -> Result<Outcome> {
    let mut command = command.disable_help_subcommand(true);
    command.build();
    fs::create_dir_all(&args.folder)
        .and_then(|()| {
            let shown = command.get_subcommands().filter(|command| !command.is_hide_set());
            shown.chain([&command]).try_for_each(|command| man_page(command, &args.folder))
        })
        .with_context(|| format!("can't write to {}", args.folder.display()))?;
    Ok(Outcome::Fine)
}

fn man_page(command: &Command, folder: &Path) -> io::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    let man = Man::new(command.clone())
        .title(name.to_uppercase())
        .date(env!("OVERLOCK_DATE"))
        .source(concat!("overlock ", env!("CARGO_PKG_VERSION")))
        .manual("Overlock");
    let mut page = Vec::new();
    man.render(&mut page)?;
    let page = String::from_utf8(page).map_err(io::Error::other)?;
    fs::write(folder.join(man.get_filename()), tidied(&page))
}

/// Makes of a generated page one that `mandoc -T lint` accepts. The text after the options keeps
/// its lines, as on a terminal: it consists of examples and tables.
fn tidied(page: &str) -> String {
    /// The longest line that the format advises, in bytes.
    const LONGEST: usize = 80;
    let page = page.replace("\n.br\n\n.br\n", "\n.sp\n");
    let mut text = String::new();
    let (mut is_tag, mut is_extra) = (false, false);
    for line in page.lines().map(str::trim_end) {
        if is_extra && line.starts_with(".SH") {
            text.push_str(".fi\n");
            is_extra = false;
        }
        // The line after .TP is one tag; a line that is filled can be broken at any space.
        let is_filled = !is_extra && !is_tag && !line.starts_with(['.', ' ']);
        is_tag = line == ".TP";
        match line {
            ".SH EXTRA" => {
                text.push_str(".SH NOTES\n.nf");
                is_extra = true;
            }
            // An empty line is a macro too.
            "" => text.push_str(".sp"),
            _ if is_filled => {
                let options = textwrap::Options::new(LONGEST).break_words(false);
                let options = options.word_splitter(textwrap::WordSplitter::NoHyphenation);
                // A line that began with a dot would be a macro.
                text.push_str(&textwrap::fill(line, options).replace("\n.", "\n\\&."));
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    if is_extra {
        text.push_str(".fi\n");
    }
    text
}
