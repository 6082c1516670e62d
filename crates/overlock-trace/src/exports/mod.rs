//! What was seen, in the formats of other tools.

pub(crate) mod chrome;
pub(crate) mod firefox;
mod folded;
pub(crate) mod slices;
mod window;

pub use folded::lines as folded;
pub(crate) use window::window;
