//! The guest's side: what a program sees, and what it shares with its host.

pub(crate) mod abi;
pub(crate) mod calls;
pub(crate) mod platform;
pub(crate) mod ports;
