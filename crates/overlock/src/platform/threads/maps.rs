//! Which memory a forked child may write to: memory that is mapped there, and that the parent does
//! not see.
//!
//! A lock that a thread of the parent waited for may lie in memory that both processes share, where
//! the parent's waiters are still in its queue; or in memory that the child does not have
//! (`MADV_DONTFORK`). `/proc/self/maps` tells the two apart (Linux,
//! Documentation/filesystems/proc.rst). A child may be unable to open it: `/proc` may not be
//! mounted, a sandbox may forbid it, or the process may have all the files that it can have. Then
//! two other calls tell, and where they fail, the memory counts as shared: the child's copy of a
//! lock may then stay locked, but the parent's lock is never written to.
//!
//! Everything here is async-signal-safe: the child of a multithreaded program runs it before
//! anything else.

use core::ffi::{CStr, c_int};

use super::syscall::{self, syscall};

/// The kernel's list of a process's mappings.
const MAPS: &CStr = c"/proc/self/maps";

/// Whether the page at `address` is mapped and private to this process. False if neither the list
/// nor the kernel's calls can say.
pub fn is_private(address: usize) -> bool {
    find(address).unwrap_or_else(|| probe(address))
}

/// Whether `address` lies in a private mapping, or `None` if the kernel can't say.
fn find(address: usize) -> Option<bool> {
    let flags = (libc::O_RDONLY | libc::O_CLOEXEC) as usize;
    let path = [libc::AT_FDCWD as usize, MAPS.as_ptr().expose_provenance(), flags, 0, 0, 0];
    // SAFETY: the path is a C string.
    let file = syscall::result(unsafe { syscall(libc::SYS_openat, path) }).ok()?;
    let mut search = Search::new(address);
    let mut buffer = [0_u8; 1024];
    let found = loop {
        let into = [file, buffer.as_mut_ptr().expose_provenance(), buffer.len(), 0, 0, 0];
        // SAFETY: the buffer can be written to for its length, and `file` is open.
        match syscall::result(unsafe { syscall(libc::SYS_read, into) }) {
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
    unsafe { syscall(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
    found
}

/// [`is_private`] without a file.
///
/// mremap(2) makes a second mapping of a shared page if the old size is zero, and refuses to do so
/// for a private one (Linux 4.14; older kernels comply, so that the page counts as shared). It
/// refuses in the same way where a mapping consists of huge pages (`MAP_HUGETLB`), shared or not.
/// Those can't be split, so that madvise(2) refuses advice about a small page of them. The advice
/// is one that this page can't have had: otherwise the child would not have the page.
fn probe(address: usize) -> bool {
    /// Not in libc's crate for Android.
    const MREMAP_MAYMOVE: usize = 1;

    // SAFETY: reads a value that the kernel has passed.
    let size = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    let page = address & !(size - 1);
    let again = [page, 0, size, MREMAP_MAYMOVE, 0, 0];
    // SAFETY: nothing is unmapped: the old size is zero, and the kernel chooses the new place.
    match syscall::result(unsafe { syscall(libc::SYS_mremap, again) }) {
        Ok(second) => {
            // SAFETY: the mapping was just made, and nothing uses it.
            unsafe { syscall(libc::SYS_munmap, [second, size, 0, 0, 0, 0]) };
            false
        }
        Err(libc::EINVAL) => {
            let advise = |advice: c_int| {
                let advice = [page, size, advice as usize, 0, 0, 0];
                // SAFETY: the first advice concerns only children of this process, and the second
                // undoes it.
                unsafe { syscall(libc::SYS_madvise, advice) == 0 }
            };
            advise(libc::MADV_DONTFORK) && advise(libc::MADV_DOFORK)
        }
        Err(_) => false,
    }
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
    extern crate std;

    use super::*;
    use core::ptr;
    use core::sync::atomic::AtomicU32;

    /// Memory that comes from a file of the program.
    static DATA: AtomicU32 = AtomicU32::new(1);

    /// A new mapping, which nothing else uses, if the kernel makes one. Huge pages need not exist,
    /// as long as they are not accessed.
    fn mapped(flags: i32) -> Option<usize> {
        let flags = flags | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: the kernel chooses the place.
        let page = unsafe {
            libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        (page != libc::MAP_FAILED).then(|| page.addr())
    }

    #[test]
    fn private_shared_and_absent_memory_are_told_apart() {
        let (private, shared) =
            (mapped(libc::MAP_PRIVATE).unwrap(), mapped(libc::MAP_SHARED).unwrap());
        let on_stack = 0_u8;
        for (address, is_ours) in [
            (private, true),
            (private + 4095, true),
            (shared, false),
            ((&raw const on_stack).addr(), true),
            ((&raw const DATA).addr(), true),
            (4096, false),
        ] {
            assert_eq!(find(address), Some(is_ours), "{address:#x}");
            assert_eq!(probe(address), is_ours, "{address:#x}");
        }
    }

    #[test]
    fn huge_pages_count_as_shared_without_the_list() {
        let Some(shared) = mapped(libc::MAP_SHARED | libc::MAP_HUGETLB) else {
            // Past the test harness, which would hide it.
            let skip = b"skipped: no mappings of huge pages here\n";
            return std::io::Write::write_all(&mut std::io::stderr(), skip).unwrap();
        };
        assert_eq!(find(shared), Some(false));
        assert!(!probe(shared));
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
