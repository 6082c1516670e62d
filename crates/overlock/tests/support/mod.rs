//! What the model checks share: the platform and its cells, the call sites of atomic operations,
//! and the models.

pub(crate) mod cells;
pub(crate) mod condvars;
pub(crate) mod locks;
pub(crate) mod models;
pub(crate) mod platform;
pub(crate) mod refreshes;
pub(crate) mod shared;
pub(crate) mod sites;
pub(crate) mod states;
pub(crate) mod table;
pub(crate) mod unsure;
