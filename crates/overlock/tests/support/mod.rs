// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the model checks share: the platform and its cells, the call sites of atomic operations,
//! and the models.

pub(crate) mod cells;
pub(crate) mod models;
pub(crate) mod platform;
pub(crate) mod sites;
pub(crate) mod table;
