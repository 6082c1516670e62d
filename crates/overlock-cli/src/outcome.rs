//! How a command that could run ended.

use overlock_programs::Ended;
use std::process::ExitCode;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Fine,
    CheckFailed,
    Interrupted,
    /// The exit code of the program that the command ran.
    Code(u8),
}

/// A program's end, as shells give it.
impl From<Ended> for Outcome {
    fn from(ended: Ended) -> Self {
        let (Ended::Code(code) | Ended::Signal(code)) = ended;
        let code = if matches!(ended, Ended::Signal(_)) { 128 + code } else { code };
        Outcome::Code(u8::try_from(code).unwrap_or(u8::MAX))
    }
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
