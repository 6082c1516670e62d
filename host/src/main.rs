//! S2's policies on a stock Linux.
//!
//! | verb | what it does |
//! |---|---|
//! | `replay` | reads a recording of a host, and says whom each policy would have chosen |
//! | `run` | loads a scheduler for the threads of some processes, and takes it away again |
//! | `compare` | one load under the kernel's own class and under each policy, in rounds |
//! | `load` | threads that spin for one lock, yield, and can tell what they hold |

#![deny(unsafe_code)]

mod load;
mod page;
mod replay;
#[cfg(feature = "scheduler")]
mod sched;
mod words;

use anyhow::{Result, bail};
use std::io::Write as _;
use std::process::ExitCode;

const USAGE: &str = "\
overlock replay FILE       what each policy would have done on a recorded host
overlock host run ...      a policy for some processes, as a scheduler in BPF, until Ctrl-C
overlock host compare ...  a load under the kernel's own class and each policy, in rounds: a table
overlock host load ...     threads that spin for one lock: something to try it on";

fn run(words: &[String]) -> Result<ExitCode> {
    // `overlock host VERB` and `overlock-host VERB` are the same.
    let words = words.strip_prefix(&["host".to_owned()]).unwrap_or(words);
    match words {
        [verb, rest @ ..] if verb == "replay" => replay::main(rest)?,
        [verb] if verb == "--version" => {
            say(concat!("overlock-host ", env!("CARGO_PKG_VERSION"), "\n"))?;
        }
        [verb, rest @ ..] if verb == "load" => load::main(rest)?,
        #[cfg(feature = "scheduler")]
        [verb, rest @ ..] if verb == "run" => return sched::main(rest),
        #[cfg(feature = "scheduler")]
        [verb, rest @ ..] if verb == "compare" => return sched::compare::main(rest),
        #[cfg(not(feature = "scheduler"))]
        [verb, ..] if verb == "run" || verb == "compare" => {
            bail!("this program was built without the scheduler")
        }
        [verb, ..] if verb != "--help" && verb != "-h" => bail!("there is no verb {verb}\n{USAGE}"),
        _ => say(&format!("{USAGE}\n"))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells people what goes on.
#[cfg(feature = "scheduler")]
fn note(text: &str) {
    // Without a reader there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "overlock-host: {text}");
}

/// Prints for people and programs; a reader that has gone is no error.
fn say(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn main() -> ExitCode {
    let words = std::env::args_os().skip(1);
    let words: Vec<String> = words.map(|word| word.to_string_lossy().into_owned()).collect();
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "overlock-host: {error:#}");
            ExitCode::from(2)
        }
    }
}
