//! The page that the guest shares with the host's scheduler (docs/host.md). The guest says in it
//! who holds and who waits; the monitor says which thread of the host each vCPU is.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use crate::options::Result;

/// Where the guest finds it: above all memory, below the interrupt controllers.
pub(crate) const AT: u64 = 0xd000_0000;
pub(crate) const BYTES: usize = 4096;

const MAGIC_AND_VERSION: [u32; 2] = [u32::from_le_bytes(*b"OVLK"), 1];
const GENERATION: usize = 3;
const RECORDS: usize = 63;
/// Words of the header, and of a record, whose first word is the thread.
const RECORD: usize = 16;

/// The page, and the first of this machine's records, plus one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page {
    words: &'static [AtomicU32; BYTES / 4],
    pub(crate) first: usize,
    cpus: usize,
}

impl Page {
    /// Maps the page that the scheduler has put at `path`, and takes a record for each vCPU.
    pub(crate) fn open(path: &Path, cpus: u8) -> Result<Self> {
        let failed = |error: io::Error| format!("the page {}: {error}", path.display());
        let at = map(path).map_err(failed)?;
        // SAFETY: a page, aligned, never unmapped; all of it is atomic integers.
        let words = unsafe { &*at.cast::<[AtomicU32; BYTES / 4]>() };
        if [0, 1].map(|n| words[n].load(Relaxed)) != MAGIC_AND_VERSION {
            return Err(format!("{} is no page of version 1", path.display()).into());
        }
        let cpus = cpus.into();
        let first =
            (1..=(RECORDS + 1).saturating_sub(cpus)).find(|&first| take(words, first, cpus));
        let first = first.ok_or_else(|| format!("the page has no {cpus} free records in a row"))?;
        Ok(Self { words, first, cpus })
    }

    pub(crate) fn address(&self) -> u64 {
        self.words.as_ptr() as u64
    }

    /// The calling thread is this vCPU.
    pub(crate) fn runs(&self, number: u8) {
        // SAFETY: no arguments.
        let own = unsafe { libc::gettid() } as u32;
        self.words[(self.first + usize::from(number)) * RECORD].store(own, Relaxed);
        self.words[GENERATION].fetch_add(1, Relaxed);
    }

    /// Gives the records back.
    pub(crate) fn leave(&self) {
        let own = self.first * RECORD..(self.first + self.cpus) * RECORD;
        self.words[own].iter().rev().for_each(|word| word.store(0, Relaxed));
        self.words[GENERATION].fetch_add(1, Relaxed);
    }
}

/// Takes `cpus` records from `first` on, or none.
fn take(words: &[AtomicU32; BYTES / 4], first: usize, cpus: usize) -> bool {
    let own = std::process::id();
    let thread = |n: usize| &words[(first + n) * RECORD];
    let free = |&n: &usize| thread(n).compare_exchange(0, own, Relaxed, Relaxed).is_ok();
    let taken = (0..cpus).take_while(free).count();
    if taken < cpus {
        (0..taken).for_each(|n| thread(n).store(0, Relaxed));
    }
    taken == cpus
}

/// Maps a map of BPF's that is pinned at `path`.
fn map(path: &Path) -> io::Result<*mut libc::c_void> {
    #[repr(C)]
    struct Attributes {
        path: u64,
        fd: u32,
        flags: u32,
    }
    const BPF_OBJ_GET: libc::c_int = 7;
    let name = CString::new(path.as_os_str().as_bytes())?;
    let mut wanted = Attributes { path: name.as_ptr() as u64, fd: 0, flags: 0 };
    let size = size_of::<Attributes>();
    // SAFETY: the attributes of this command, and a string that outlives the call.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, BPF_OBJ_GET, &raw mut wanted, size) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    let (fd, both) = (fd as libc::c_int, libc::PROT_READ | libc::PROT_WRITE);
    // SAFETY: a new mapping of an open file, which needs the descriptor no more when it is there.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), BYTES, both, libc::MAP_SHARED, fd, 0);
        let error = io::Error::last_os_error();
        libc::close(fd);
        if at == libc::MAP_FAILED { Err(error) } else { Ok(at) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_takes_records_in_a_row_or_none() {
        let words = Box::leak(Box::new([const { AtomicU32::new(0) }; BYTES / 4]));
        words[2 * RECORD].store(7, Relaxed);
        assert!(!take(words, 1, 2), "the second is another's");
        assert_eq!(words[RECORD].load(Relaxed), 0, "so the first is free again");
        let page = Page { words, first: 3, cpus: 61 };
        assert!(take(words, page.first, page.cpus));
        page.runs(60);
        let last = &words[63 * RECORD];
        assert!(![0, std::process::id()].contains(&last.load(Relaxed)));
        page.leave();
        assert_eq!(last.load(Relaxed), 0);
        assert_eq!((words[2 * RECORD].load(Relaxed), words[GENERATION].load(Relaxed)), (7, 2));
    }

    #[test]
    fn what_is_not_pinned_is_named() {
        let said = Page::open(Path::new("/none"), 1).unwrap_err().to_string();
        assert!(said.starts_with("the page /none: "), "{said}");
    }
}
