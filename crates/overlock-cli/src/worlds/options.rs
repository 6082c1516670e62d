// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command line says of worlds.

/// Tells the user a sentence.
pub type Note = fn(&str);

/// What only some worlds need.
#[derive(Clone, Debug)]
pub struct Options {
    /// The commit of the program, whose runs are not those of another.
    pub commit: &'static str,
    /// Tells what the user should know.
    pub note: Note,
}
