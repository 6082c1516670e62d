// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the command line says of worlds.

use super::simulated::Shard;
use std::path::PathBuf;

/// What only some worlds need.
#[derive(Clone, Debug, Default)]
pub(crate) struct Options {
    /// Where a simulation keeps its runs.
    pub(crate) sweep: Option<PathBuf>,
    /// Which part of them to make.
    pub(crate) shard: Option<Shard>,
    /// The numbers of CPUs with which a kernel is checked.
    pub(crate) cpus: Vec<u32>,
}
