//! How a command that could run ended.

use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Fine,
    CheckFailed,
    Interrupted,
    /// The exit code of the program that the command ran.
    Code(u8),
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        ExitCode::from(match outcome {
            Outcome::Fine => 0,
            Outcome::CheckFailed => 1,
            Outcome::Interrupted => 130,
            Outcome::Code(code) => code,
        })
    }
}
