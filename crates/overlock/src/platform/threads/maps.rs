// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which memory a forked child may write to: memory that is mapped there, and that the parent does
//! not see.
//!
//! A lock that a thread of the parent waited for may lie in memory that both processes share, where
//! the parent's waiters are still in its queue; or in memory that the child does not have
//! (`MADV_DONTFORK`). `/proc/self/maps` tells the two apart (Linux,
//! Documentation/filesystems/proc.rst).
//!
//! Everything here is async-signal-safe: the child of a multithreaded program runs it before
//! anything else.

use core::ffi::CStr;

/// The kernel's list of a process's mappings.
const MAPS: &CStr = c"/proc/self/maps";

/// Whether the page at `address` is mapped and private to this process. Where `/proc` is not
/// mounted, whether it is mapped.
pub(super) fn is_private(address: usize) -> bool {
    find(address).unwrap_or_else(|| is_mapped(address))
}

/// Whether `address` lies in a private mapping, or `None` if the kernel can't say.
fn find(address: usize) -> Option<bool> {
    // SAFETY: the path is a C string. The call is async-signal-safe, as are those below.
    let file = unsafe { libc::open(MAPS.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC) };
    if file < 0 {
        return None;
    }
    let mut search = Search::new(address);
    let mut buffer = [0_u8; 1024];
    let found = loop {
        // SAFETY: the buffer can be written to for its length, and `file` is open.
        let got = unsafe { libc::read(file, buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(got) {
            Ok(0) => break Some(false),
            Ok(got) => {
                if let Some(is_private) = buffer[..got].iter().find_map(|byte| search.read(*byte)) {
                    break Some(is_private);
                }
            }
            Err(_) => break None,
        }
    };
    // SAFETY: opened above, and closed once.
    unsafe { libc::close(file) };
    found
}

/// Whether a page is mapped, private or not.
fn is_mapped(address: usize) -> bool {
    // SAFETY: the call has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = address & !(page - 1);
    let mut resident = 0;
    // SAFETY: the kernel writes one byte, for one page, and fails if the page is not there.
    unsafe { libc::mincore(core::ptr::without_provenance_mut(start), page, &raw mut resident) == 0 }
}

/// A search of the list for one address, byte by byte. A line begins `55d0-55f0 rw-p `.
#[derive(Debug)]
struct Search {
    address: usize,
    field: Field,
    number: usize,
    start: usize,
}

/// Which field of a line the search is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Start,
    End,
    /// The permissions of the mapping that contains the address, and how many of them have been
    /// read.
    Permissions(u8),
    Rest,
}

impl Search {
    fn new(address: usize) -> Self {
        Self { address, field: Field::Start, number: 0, start: 0 }
    }

    /// Reads the next byte of the list. Returns whether the mapping is private, once that is known.
    fn read(&mut self, byte: u8) -> Option<bool> {
        match (self.field, byte) {
            (_, b'\n') => {
                *self = Self::new(self.address);
            }
            (Field::Start, b'-') => {
                self.start = core::mem::take(&mut self.number);
                self.field = Field::End;
            }
            (Field::End, b' ') => {
                let has_it = (self.start..self.number).contains(&self.address);
                self.field = if has_it { Field::Permissions(0) } else { Field::Rest };
            }
            (Field::Start | Field::End, digit) => {
                let digit = char::from(digit).to_digit(16).unwrap_or(0) as usize;
                self.number = self.number << 4 | digit;
            }
            (Field::Permissions(3), permission) => return Some(permission == b'p'),
            (Field::Permissions(read), _) => self.field = Field::Permissions(read + 1),
            (Field::Rest, _) => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr;

    fn mapped(flags: i32) -> usize {
        // SAFETY: this makes a new mapping, which nothing else uses.
        let page = unsafe {
            libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        assert_ne!(page, libc::MAP_FAILED);
        page.addr()
    }

    #[test]
    fn private_shared_and_absent_memory_are_told_apart() {
        let private = mapped(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        let shared = mapped(libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        let on_stack = 0_u8;
        for (address, is_there, is_ours) in [
            (private, true, true),
            (private + 4095, true, true),
            (shared, true, false),
            ((&raw const on_stack).addr(), true, true),
            (4096, false, false),
        ] {
            assert_eq!(find(address), Some(is_ours), "{address:#x}");
            assert_eq!(is_private(address), is_ours);
            assert_eq!(is_mapped(address), is_there, "{address:#x}");
        }
    }

    #[test]
    fn a_search_reads_lines_that_come_in_pieces() {
        let list = b"1000-3000 r-xp 00000000 08:01 77 /a-b p\n3000-4000 rw-s 0 0:0 0\n";
        let found = |address| {
            let mut search = Search::new(address);
            list.iter().find_map(|byte| search.read(*byte))
        };
        assert_eq!(found(0xfff), None);
        assert_eq!(found(0x1000), Some(true));
        assert_eq!(found(0x2fff), Some(true));
        assert_eq!(found(0x3000), Some(false));
        assert_eq!(found(0x4000), None);
    }
}
