//! What the command line says of worlds.

use overlock_sim::hosts::More;

/// Tells the user a sentence.
pub type Note = fn(&str);

#[derive(Clone, Debug)]
pub struct Options {
    /// The commit of the program, whose runs are not those of another.
    pub commit: &'static str,
    /// Tells what the user should know.
    pub note: Note,
    /// What another program adds to simulations.
    pub more: More,
}
