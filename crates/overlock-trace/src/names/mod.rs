//! Names: of code, of what threads wait for, and of loops that wait.

pub(crate) mod images;
pub(crate) mod kernel;
mod kind;
pub(crate) mod loops;
pub(crate) mod stacks;
pub(crate) mod symbols;
mod table;
pub(crate) mod word;

pub use kind::{Class, Kind};
