//! What the command line says of worlds.

use overlock_sim::hosts::More;

/// Tells the user a sentence.
pub type Note = fn(&str);

#[derive(Clone, Debug)]
pub struct Options {
    /// Tells what the user should know.
    pub note: Note,
    /// What another program adds to simulations.
    pub more: More,
}
