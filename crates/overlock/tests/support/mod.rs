// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the model checks share: the platform, the call sites of atomic operations, and the models.

pub mod cells;
pub mod models;
pub mod platform;
pub mod sites;
