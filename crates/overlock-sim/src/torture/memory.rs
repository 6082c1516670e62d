// SPDX-License-Identifier: MIT OR Apache-2.0
//! The memory of a run.

/// Where the slots and the table of a run lie.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) slots: Vec<*const ()>,
    pub(crate) slot_bytes: usize,
    pub(crate) table: *const (),
    pub(crate) buckets: usize,
    pub(crate) table_offset: u32,
    /// The entries of the table, for the oracle of residues: their offsets and first contents.
    pub(crate) table_entries: Vec<(u32, u32)>,
}
