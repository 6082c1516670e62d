//! What can be wrong with an experiment before a world runs it.

/// A sentence that says what is wrong, and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(pub String);
