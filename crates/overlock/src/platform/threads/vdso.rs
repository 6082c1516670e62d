//! Finds functions in the code that the kernel maps into every process (the vDSO).
//!
//! The look-up reads the image's own tables: it takes no lock, allocates nothing, and works in
//! statically linked programs. Sources: vdso(7); elf(5).

use core::ffi::CStr;

#[cfg(target_pointer_width = "32")]
use libc::Elf32_Phdr as Segment;
#[cfg(target_pointer_width = "64")]
use libc::Elf64_Phdr as Segment;
use libc::{PT_DYNAMIC, PT_LOAD};

/// The header of an image of either class. (libc's crate has it for Linux, but not for Android.)
#[repr(C)]
struct Header {
    ident: [u8; 16],
    _kind: [u16; 2],
    _version: u32,
    _entry: usize,
    segments: usize,
    _sections: usize,
    _flags: u32,
    _sizes: [u16; 2],
    count: u16,
}

#[cfg(target_pointer_width = "32")]
#[repr(C)]
struct Symbol {
    name: u32,
    value: usize,
    _size: usize,
    _kind: [u8; 2],
    section: u16,
}

#[cfg(target_pointer_width = "64")]
#[repr(C)]
struct Symbol {
    name: u32,
    _kind: [u8; 2],
    section: u16,
    value: usize,
    _size: usize,
}

/// Where the header says of which class the image is: ours, by the width of addresses.
const EI_CLASS: usize = 4;
const CLASS: u8 = if cfg!(target_pointer_width = "64") { 2 } else { 1 };

/// An entry of the dynamic section: a tag and an address.
type Dynamic = [usize; 2];

const DT_NULL: usize = 0;
const DT_HASH: usize = 4;
const DT_STRTAB: usize = 5;
const DT_SYMTAB: usize = 6;

/// Returns the address of a function in an image, if both exist.
///
/// # Safety
/// `image` is null, or the vDSO of this process.
pub(super) unsafe fn function(image: *const u8, wanted: &[u8]) -> Option<*const ()> {
    // SAFETY: the image begins with a header, whose first bytes are the same for all classes.
    if image.is_null() || unsafe { (*image.cast::<Header>()).ident[EI_CLASS] } != CLASS {
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

struct Tables {
    /// The distance from the image's own addresses to offsets from its start.
    bias: isize,
    hash: *const u32,
    names: *const u8,
    symbols: *const Symbol,
}

impl Tables {
    /// # Safety
    /// `image` is a whole image of this machine's byte order, mapped in one piece.
    unsafe fn of(image: *const u8) -> Option<Self> {
        // SAFETY: the header, and what it places in the image, all of it aligned.
        let (segments, count) = unsafe {
            let header = &*image.cast::<Header>();
            (image.add(header.segments).cast::<Segment>(), header.count)
        };
        let (mut bias, mut dynamic) = (None, None);
        for index in 0..usize::from(count) {
            // SAFETY: one of the segments that the header counts; each has this size.
            let segment = unsafe { &*segments.add(index) };
            match segment.p_type {
                PT_LOAD if bias.is_none() => {
                    bias = Some(segment.p_offset as isize - segment.p_vaddr as isize);
                }
                PT_DYNAMIC => dynamic = Some(image.wrapping_add(segment.p_offset as usize)),
                _ => {}
            }
        }
        let (bias, mut entry) = (bias?, dynamic?.cast::<Dynamic>());
        let (mut hash, mut names, mut symbols) = (None, None, None);
        loop {
            // SAFETY: the entries end with a DT_NULL.
            let [tag, address] = unsafe { *entry };
            // The kernel leaves these addresses relative.
            let place = image.wrapping_offset(bias + address as isize);
            match tag {
                DT_NULL => break,
                DT_HASH => hash = Some(place.cast()),
                DT_STRTAB => names = Some(place),
                DT_SYMTAB => symbols = Some(place.cast()),
                _ => {}
            }
            entry = entry.wrapping_add(1);
        }
        Some(Self { bias, hash: hash?, names: names?, symbols: symbols? })
    }
}
