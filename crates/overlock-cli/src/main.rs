//! The command `overlock`.

use std::process::ExitCode;

fn main() -> ExitCode {
    overlock_cli::main(&overlock_cli::Added::NOTHING)
}
