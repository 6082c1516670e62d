// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds functions in the code that the kernel maps into every process (the vDSO).
//!
//! The look-up reads the image's own tables: it takes no lock, allocates nothing, and works in
//! statically linked programs. Sources: vdso(7); the ELF-64 object file format, version 1.5.

use core::ffi::CStr;
use core::mem::size_of;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;

/// An entry of the table of symbols.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: u64,
    size: u64,
}

/// Returns the address of a function in an image, if both exist.
///
/// # Safety
/// `image` is null, or the vDSO of this process.
pub(super) unsafe fn function(image: *const u8, wanted: &[u8]) -> Option<*const ()> {
    const IS_64_BIT: u8 = 2;
    // SAFETY: the caller's image has at least a header, whose fifth byte is the class.
    if image.is_null() || unsafe { *image.add(4) } != IS_64_BIT {
        return None;
    }
    // SAFETY: the image is whole, as the kernel has mapped it.
    let tables = unsafe { Tables::of(image) }?;
    // SAFETY: as above; the second word of a DT_HASH table is the number of symbols.
    let count = unsafe { *tables.hash.add(1) } as usize;
    (0..count).find_map(|index| {
        // SAFETY: the table has `count` symbols, and each name is a string of the other table.
        let (symbol, name) = unsafe {
            let symbol = &*tables.symbols.add(index);
            (symbol, CStr::from_ptr(tables.names.add(symbol.name as usize).cast()))
        };
        let is_defined = symbol.section != 0;
        (is_defined && name.to_bytes() == wanted)
            .then(|| image.wrapping_offset(tables.bias + symbol.value as isize).cast())
    })
}

/// The tables of an image.
struct Tables {
    /// The distance from the image's own addresses to offsets from its start.
    bias: isize,
    hash: *const u32,
    names: *const u8,
    symbols: *const Symbol,
}

impl Tables {
    /// # Safety
    /// `image` is a whole ELF-64 image of this machine's byte order, mapped in one piece.
    unsafe fn of(image: *const u8) -> Option<Self> {
        // SAFETY: fields of the header, and then of the tables that it places in the image.
        unsafe {
            let segments = image.add(image.add(0x20).cast::<u64>().read() as usize);
            let size = usize::from(image.add(0x36).cast::<u16>().read());
            let count = usize::from(image.add(0x38).cast::<u16>().read());
            let (mut bias, mut dynamic) = (None, None);
            for segment in (0..count).map(|number| segments.add(number * size)) {
                let offset = segment.add(0x08).cast::<u64>().read() as isize;
                match segment.cast::<u32>().read() {
                    PT_LOAD if bias.is_none() => {
                        bias = Some(offset - segment.add(0x10).cast::<u64>().read() as isize);
                    }
                    PT_DYNAMIC => dynamic = Some(image.offset(offset).cast::<[u64; 2]>()),
                    _ => {}
                }
            }
            let bias = bias?;
            let (mut hash, mut names, mut symbols) = (None, None, None);
            let mut entry = dynamic?;
            loop {
                let [tag, value] = entry.read();
                // The kernel leaves these addresses relative.
                let place = image.wrapping_offset(bias + value as isize);
                match tag {
                    0 => break,
                    DT_HASH => hash = Some(place.cast()),
                    DT_STRTAB => names = Some(place),
                    DT_SYMTAB => symbols = Some(place.cast()),
                    _ => {}
                }
                entry = entry.add(1);
            }
            Some(Self { bias, hash: hash?, names: names?, symbols: symbols? })
        }
    }
}

const _: () = assert!(size_of::<Symbol>() == 24);
