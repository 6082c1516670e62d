//! The errors of a run: why there is no result, though the lock is not to blame.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error("could not {attempt}: {source}")]
    System { attempt: &'static str, source: io::Error },
    /// There is no memory for so many threads, or a limit is lower.
    #[error("the system won't start {threads} threads; ask for fewer: {source}")]
    Threads { threads: usize, source: io::Error },
    #[error("there is no lock '{0}'")]
    NoLock(String),
    /// An order is none: a user has called what is for parent processes alone.
    #[error("this command is for bench itself: {0}")]
    Order(serde_json::Error),
    /// A child's answer is none.
    #[error("a run answered nonsense: {0}")]
    Answer(serde_json::Error),
    /// The child has told why on standard error.
    #[error("a run could not be started")]
    NotStarted,
}

impl RunError {
    /// Makes of a system's error one that says what was attempted.
    pub(crate) fn when(attempt: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { attempt, source }
    }
}
