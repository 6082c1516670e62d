//! The command `overlock` with the five documents' experiments, locks and schedulers.

use std::process::ExitCode;

fn main() -> ExitCode {
    overlock_cli::main(&overlock_papers::ADDED)
}
