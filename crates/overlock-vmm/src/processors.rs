// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table from which a system learns of its processors and interrupts, where there is no ACPI.
//!
//! Source: Intel, *MultiProcessor Specification*, 1.4, chapter 4.

/// Where systems look for it: the last KiB below 640 KiB.
pub(crate) const AT: u64 = 0x9_fc00;

const APICS: u32 = 0xfee0_0000;
const IO_APIC: u32 = 0xfec0_0000;
/// Version of the APICs that KVM emulates.
const APIC_VERSION: u8 = 0x14;
const IO_APIC_VERSION: u8 = 0x11;
/// The lines of the old interrupt controllers.
const LINES: u8 = 16;
/// All APICs.
const ALL: u8 = 0xff;

/// What is to be added for the bytes to have the sum 0.
fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg()
}

/// The pointer to the table, and behind it the table.
pub(crate) fn table(cpus: u8) -> Vec<u8> {
    let mut entries: Vec<Vec<u8>> = Vec::new();
    for cpu in 0..cpus {
        // It is usable; the first one starts the others.
        let flags = if cpu == 0 { 3 } else { 1 };
        // Its family is 6; it has an FPU and an APIC.
        let mut entry = vec![0, cpu, APIC_VERSION, flags, 0, 6, 0, 0, 1, 2, 0, 0];
        entry.resize(20, 0);
        entries.push(entry);
    }
    entries.push([&[1, 0], &b"ISA   "[..]].concat());
    entries.push([&[2, cpus, IO_APIC_VERSION, 1][..], &IO_APIC.to_le_bytes()].concat());
    entries.extend((0..LINES).map(|line| vec![3, 0, 0, 0, 0, line, cpus, line]));
    // Of each processor: the old controllers' interrupt, and the non-maskable one.
    entries.push(vec![4, 3, 0, 0, 0, 0, ALL, 0]);
    entries.push(vec![4, 1, 0, 0, 0, 0, ALL, 1]);

    let count = entries.len() as u16;
    let entries = entries.concat();
    let mut table = b"PCMP\0\0\x04\0OVERLOCKMACHINE     \0\0\0\0\0\0".to_vec();
    table.extend(count.to_le_bytes());
    table.extend(APICS.to_le_bytes());
    table.extend([0; 4]);
    let length = (table.len() + entries.len()) as u16;
    table[4..6].copy_from_slice(&length.to_le_bytes());
    table.extend(entries);
    table[7] = checksum(&table);

    let mut pointer = b"_MP_".to_vec();
    pointer.extend((AT as u32 + 16).to_le_bytes());
    pointer.extend([1, 4, 0, 0, 0, 0, 0, 0]);
    pointer[10] = checksum(&pointer);
    [pointer, table].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_as_long_as_it_says_and_sums_are_zero() {
        let all = table(8);
        let (pointer, table) = all.split_at(16);
        assert_eq!(checksum(pointer), 0);
        assert_eq!(checksum(table), 0);
        assert_eq!(usize::from(u16::from_le_bytes([table[4], table[5]])), table.len());
        // The header, eight processors of 20 bytes, and the other entries of 8.
        assert_eq!(table.len(), 44 + 8 * 20 + (1 + 1 + 16 + 2) * 8);
        assert_eq!(u16::from_le_bytes([table[34], table[35]]), 8 + 20);
        assert_eq!(table[36..40], APICS.to_le_bytes());
    }
}
