//! Guest page tables: four levels, 4 KiB pages, user rights.
//!
//! ```text
//! CR3 ─► level 4 ─► level 3 ─► level 2 ─► level 1 ─► page      (9 bits of the address each)
//! ```
//!
//! The tables are built once, before any vCPU runs, in memory that becomes guest-physical memory
//! from [`TABLES_GPA`] on. Accessed and dirty bits are set beforehand so that the processor never
//! writes to them again: a hypervisor that walks these tables in software then has no reason to.
//!
//! Source: Intel SDM volume 3A, 4.5 "4-level paging".

use crate::lab::maps::Region;

/// Guest-physical address of the tables; the level-4 table comes first.
pub(crate) const TABLES_GPA: u64 = 0x10_0000;

pub(crate) const PAGE: u64 = 4096;

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
const ACCESSED: u64 = 1 << 5;
const DIRTY: u64 = 1 << 6;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

type Table = [u64; 512];

#[derive(Debug)]
pub(crate) struct PageTables {
    tables: Vec<Box<Table>>,
}

impl PageTables {
    pub(crate) fn new() -> Self {
        Self { tables: vec![Box::new([0; 512])] }
    }

    /// Maps `region` for user code, page by page, to guest-physical memory from `gpa` on.
    pub(crate) fn map(&mut self, region: &Region, gpa: u64) {
        let mut flags = PRESENT | USER | ACCESSED | DIRTY;
        if region.writable {
            flags |= WRITABLE;
        }
        if !region.executable {
            flags |= NO_EXECUTE;
        }
        for offset in (0..region.len()).step_by(PAGE as usize) {
            *self.leaf(region.start + offset) = (gpa + offset) | flags;
        }
    }

    /// Maps one page that only the processor itself can read: the task state segment.
    pub(crate) fn map_supervisor(&mut self, address: u64, gpa: u64) {
        *self.leaf(address) = gpa | PRESENT | ACCESSED | DIRTY | NO_EXECUTE;
    }

    /// Returns the tables as guest-physical memory from [`TABLES_GPA`] on.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> {
        self.tables.iter().flat_map(|table| table.iter().copied())
    }

    /// Returns the number of bytes that [`words`](Self::words) yields.
    pub(crate) fn len(&self) -> u64 {
        self.tables.len() as u64 * PAGE
    }

    /// Returns the level-1 entry of `address`; makes the tables above it if they are missing.
    fn leaf(&mut self, address: u64) -> &mut u64 {
        let mut table = 0;
        for level in [3, 2, 1] {
            let slot = index(address, level);
            if self.tables[table][slot] == 0 {
                let gpa = TABLES_GPA + self.len();
                self.tables.push(Box::new([0; 512]));
                self.tables[table][slot] = gpa | PRESENT | WRITABLE | USER | ACCESSED;
            }
            table = (((self.tables[table][slot] & ADDRESS) - TABLES_GPA) / PAGE) as usize;
        }
        &mut self.tables[table][index(address, 0)]
    }
}

/// Returns the index of the entry that translates `address` in a table at `level` (0 is the last).
fn index(address: u64, level: u32) -> usize {
    ((address >> (12 + 9 * level)) & 0x1ff) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Walks the finished tables as the processor would.
    fn walk(tables: &PageTables, address: u64) -> Option<u64> {
        let words: Vec<u64> = tables.words().collect();
        let mut table = TABLES_GPA;
        for level in (0..4).rev() {
            let entry = words[((table - TABLES_GPA) / 8) as usize + index(address, level)];
            if entry & PRESENT == 0 {
                return None;
            }
            table = entry & ADDRESS;
        }
        Some(table | (address & (PAGE - 1)))
    }

    #[test]
    fn translation_finds_every_page_and_no_other() {
        let mut tables = PageTables::new();
        let region = Region {
            start: 0x7fff_ffdf_e000, // the next page begins another level-1 and level-2 table
            end: 0x7fff_ffe0_2000,
            writable: true,
            executable: false,
        };
        let gpa = 0x1_2345_6000;
        tables.map(&region, gpa);
        for offset in (0..region.len()).step_by(0x800) {
            assert_eq!(walk(&tables, region.start + offset), Some(gpa + offset));
        }
        assert_eq!(walk(&tables, region.start - 1), None);
        assert_eq!(walk(&tables, region.end), None);
    }
}
