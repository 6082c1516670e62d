//! The tables from which a Linux learns of its processors: ACPI's, of a machine that has nothing
//! else ("hardware-reduced").
//!
//! Source: *Advanced Configuration and Power Interface Specification*, 6.5, chapter 5.

/// Where they are: the last KiB below 640 KiB.
pub(crate) const AT: u64 = 0x9_fc00;

const APICS: u32 = 0xfee0_0000;
const IO_APIC: u32 = 0xfec0_0000;
/// `HW_REDUCED_ACPI`, in the flags of the FADT.
const REDUCED: u32 = 1 << 20;
/// There is no VGA and no clock, in its boot flags.
const NO_DEVICES: u16 = 1 << 2 | 1 << 5;
/// The bytes of the FADT, and of the table's pointer.
const FADT: usize = 276;
const POINTER: usize = 36;

/// What is to be added for the bytes to have the sum 0.
fn checksum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte)).wrapping_neg()
}

/// A table: its header, and what is in it.
fn table(name: &[u8; 4], revision: u8, content: &[u8]) -> Vec<u8> {
    let mut table = name.to_vec();
    table.extend((POINTER as u32 + content.len() as u32).to_le_bytes());
    table.extend([revision, 0]);
    table.extend(b"OVRLCKMACHINE \x01\0\0\0OVRL\x01\0\0\0");
    table.extend(content);
    table[9] = checksum(&table);
    table
}

/// The pointer to all tables, and the tables.
pub(crate) fn tables(cpus: u8) -> Vec<u8> {
    let mut all = vec![0; POINTER];
    let mut add = |table: Vec<u8>| {
        let at = AT + all.len() as u64;
        all.extend(table);
        at.to_le_bytes()
    };
    // Tables of devices, of which there are none.
    let devices = add(table(b"DSDT", 2, &[]));
    let mut content = [0; FADT - POINTER];
    let mut put = |at: usize, bytes: &[u8]| {
        content[at - POINTER..][..bytes.len()].copy_from_slice(bytes);
    };
    put(109, &NO_DEVICES.to_le_bytes());
    put(112, &REDUCED.to_le_bytes());
    put(140, &devices);
    let fixed = add(table(b"FACP", 6, &content));
    let mut content = [APICS.to_le_bytes(), [0; 4]].concat();
    for cpu in 0..cpus {
        content.extend([0, 8, cpu, cpu, 1, 0, 0, 0]);
    }
    content.extend([1, 12, cpus, 0]);
    content.extend([IO_APIC.to_le_bytes(), [0; 4]].concat());
    let processors = add(table(b"APIC", 5, &content));
    let root = add(table(b"XSDT", 1, &[fixed, processors].concat()));

    let mut pointer = b"RSD PTR \0OVRLCK\x02\0\0\0\0".to_vec();
    pointer.extend((POINTER as u32).to_le_bytes());
    pointer.extend(root);
    pointer.extend([0; 4]);
    pointer[8] = checksum(&pointer[..20]);
    pointer[32] = checksum(&pointer);
    all[..POINTER].copy_from_slice(&pointer);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_as_long_as_it_says_and_its_sum_is_zero() {
        let all = tables(32);
        assert!(AT + all.len() as u64 <= 0xa_0000, "{} bytes", all.len());
        let (pointer, mut rest) = all.split_at(POINTER);
        assert_eq!((checksum(&pointer[..20]), checksum(pointer)), (0, 0));
        let mut found = Vec::new();
        while !rest.is_empty() {
            let length = u32::from_le_bytes(rest[4..8].try_into().unwrap()) as usize;
            let (table, others) = rest.split_at(length);
            assert_eq!(checksum(table), 0);
            found.push((table[..4].to_vec(), length));
            rest = others;
        }
        let wanted = [("DSDT", 36), ("FACP", 276), ("APIC", 44 + 32 * 8 + 12), ("XSDT", 52)];
        assert_eq!(found, wanted.map(|(name, length)| (name.as_bytes().to_vec(), length)));
    }
}
