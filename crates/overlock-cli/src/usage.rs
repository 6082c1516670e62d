// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors in the command line: our own sentence for the mistakes that `run` and `compare` invite,
//! and the parser's message for all others.

use crate::args::Cli;
use crate::output;
use crate::process::preload;
use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use std::process::ExitCode;

/// Prints what is wrong, or what the user asked for (`--help`).
pub(crate) fn explain(mut error: clap::Error, args: &[OsString]) -> ExitCode {
    suggest_no_hidden(&mut error);
    match mistake(&error, args) {
        Some(sentence) => {
            output::complain(&format!("overlock: {sentence}"));
            ExitCode::from(2)
        }
        None => {
            // If even this fails, the exit code still tells.
            let _ = error.print();
            ExitCode::from(if error.use_stderr() { 2 } else { 0 })
        }
    }
}

/// Drops suggestions of commands that `--help` does not show.
fn suggest_no_hidden(error: &mut clap::Error) {
    let kind = ContextKind::SuggestedSubcommand;
    let Some(ContextValue::Strings(names)) = error.remove(kind) else { return };
    let cli = Cli::command();
    let is_shown = |name: &String| cli.find_subcommand(name).is_some_and(|c| !c.is_hide_set());
    let shown: Vec<_> = names.into_iter().filter(is_shown).collect();
    if !shown.is_empty() {
        error.insert(kind, ContextValue::Strings(shown));
    }
}

/// Returns the sentence for a mistake about the program to run.
fn mistake(error: &clap::Error, args: &[OsString]) -> Option<String> {
    let name = args.get(1)?.to_str().filter(|name| ["run", "compare"].contains(name))?;
    let has_dashes = args.iter().any(|word| word == "--");
    let kind = error.kind();
    let named = error.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
    if kind == ErrorKind::MissingRequiredArgument && !named.contains("PROGRAM") {
        return None;
    }
    if kind == ErrorKind::MissingRequiredArgument && has_dashes {
        return Some(format!("name a program after --, as in\n  overlock {name} -- make -j8"));
    }
    let is_ours = matches!(kind, ErrorKind::MissingRequiredArgument | ErrorKind::UnknownArgument);
    if has_dashes || !is_ours {
        return None;
    }
    let Some(at) = program(name, args) else {
        let missing = kind == ErrorKind::MissingRequiredArgument;
        return missing
            .then(|| format!("name a program, after --, as in\n  overlock {name} -- make -j8"));
    };
    let typed = |words: &[OsString]| {
        words.iter().map(|word| format!(" {}", preload::typed(word))).collect::<String>()
    };
    let (ours, program) = (typed(&args[1..at]), typed(&args[at..]));
    Some(format!("put -- before the program, as in\n  overlock{ours} --{program}"))
}

/// Finds where the program seems to begin: the first word that is none of our flags, none of their
/// values and no lock.
fn program(name: &str, args: &[OsString]) -> Option<usize> {
    let command = Cli::command();
    let flags = command.find_subcommand(name)?;
    let takes_value = |word: &str| {
        let flag = flags.get_arguments().find(|flag| flag.get_long() == word.strip_prefix("--"));
        flag.is_some_and(|flag| flag.get_action().takes_values() && flag.get_long().is_some())
    };
    let mut at = 2;
    while let Some(word) = args.get(at) {
        let text = word.to_string_lossy();
        if takes_value(&text) {
            at += 2;
        } else if text.starts_with('-') || (name == "run" && preload::known(&text).is_ok()) {
            at += 1;
        } else {
            return Some(at);
        }
    }
    None
}
