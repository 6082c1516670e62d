//! The page that a program, or a guest, and the host both map: who holds, who is next, who may be
//! preempted. Its layout is docs/host.md's, and that of `bpf/page.h`.

#![expect(unsafe_code, reason = "memory that is shared with the host")]

use anyhow::{Context, Result, bail, ensure};
use std::fs::{File, OpenOptions};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// "OVLK", as the page begins.
pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"OVLK");
pub(crate) const VERSION: u32 = 1;
pub(crate) const RECORDS: usize = 63;
pub(crate) const BYTES: usize = 4096;

#[repr(C)]
#[derive(Debug)]
struct Layout {
    magic: AtomicU32,
    version: AtomicU32,
    records: AtomicU32,
    /// Rises whenever a record changes its thread.
    generation: AtomicU32,
    reserved: [AtomicU32; 12],
    all: [Record; RECORDS],
}

/// What one thread, or virtual CPU, says of itself.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Record {
    /// The thread's number in the host; 0 is a free record.
    thread: AtomicU32,
    /// How many locks it holds. While it is not 0, the host may extend a slice of its.
    pub(crate) holds: AtomicU32,
    /// The record of the thread that it waits for, plus one.
    pub(crate) holder: AtomicU32,
    /// The records of those that are before it in line, plus one.
    next: [AtomicU32; 4],
    /// The host sets it when it extends a slice; the thread clears it, and yields after its
    /// release.
    pub(crate) granted: AtomicU32,
    reserved: [AtomicU32; 8],
}

const _: () = assert!(size_of::<Layout>() == BYTES && size_of::<Record>() == 64);

#[derive(Debug)]
pub(crate) struct Page(&'static Layout);

impl Page {
    /// Maps the page that the scheduler has put at `path` in a file system of BPF's, or a plain
    /// file.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let open = || format!("can't open the page {}", path.display());
        let file = match pinned(path) {
            Some(fd) => fd,
            None => OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .map(File::into)
                .with_context(open)?,
        };
        // SAFETY: a new mapping of an open file; the kernel refuses what it can't map.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if at == libc::MAP_FAILED {
            bail!("can't map {}: {}", path.display(), std::io::Error::last_os_error());
        }
        // SAFETY: a page of this size, aligned, never unmapped; all of it is atomic integers.
        let layout = unsafe { &*at.cast::<Layout>() };
        let found = (layout.magic.load(Relaxed), layout.version.load(Relaxed));
        ensure!(
            found == (MAGIC, VERSION),
            "{} is no page of version {VERSION}: it begins with {:#x}, {}",
            path.display(),
            found.0,
            found.1
        );
        Ok(Self(layout))
    }

    /// Takes a record for the calling thread; its number, and the record.
    pub(crate) fn join(&self) -> Result<(usize, &'static Record)> {
        // SAFETY: no arguments.
        let own = unsafe { libc::gettid() } as u32;
        let free = |record: &&'static Record| {
            record.thread.compare_exchange(0, own, Relaxed, Relaxed).is_ok()
        };
        let layout = self.0;
        let place = layout.all.iter().position(|record| free(&record));
        let place =
            place.with_context(|| format!("all {RECORDS} records of the page are taken"))?;
        layout.generation.fetch_add(1, Relaxed);
        Ok((place, &layout.all[place]))
    }
}

impl Record {
    /// Gives the record back.
    pub(crate) fn leave(&self) {
        [&self.holds, &self.holder, &self.granted].iter().for_each(|of| of.store(0, Relaxed));
        self.thread.store(0, Relaxed);
    }
}

/// Opens a map that is pinned at `path`.
fn pinned(path: &Path) -> Option<OwnedFd> {
    #[repr(C)]
    struct Attributes {
        path: u64,
        fd: u32,
        flags: u32,
    }
    const BPF_OBJ_GET: libc::c_int = 7;
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
    let mut attributes = Attributes { path: name.as_ptr() as u64, fd: 0, flags: 0 };
    // SAFETY: the attributes of this command, and a string that outlives the call.
    let fd = unsafe {
        let size = size_of::<Attributes>();
        libc::syscall(libc::SYS_bpf, BPF_OBJ_GET, &raw mut attributes, size)
    };
    let fd = i32::try_from(fd).ok().filter(|&fd| fd >= 0)?;
    // SAFETY: a descriptor that the kernel has just made, and nobody else has.
    Some(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(words: [u32; 2]) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut bytes = words.map(u32::to_ne_bytes).concat();
        bytes.resize(BYTES, 0);
        std::fs::write(file.path(), bytes).unwrap();
        file
    }

    #[test]
    fn a_page_has_records_for_so_many_threads_and_no_more() {
        let file = file([MAGIC, VERSION]);
        let page = Page::open(file.path()).unwrap();
        let taken: Vec<_> = (0..RECORDS).map(|_| page.join().unwrap()).collect();
        assert!(taken.iter().enumerate().all(|(place, (own, _))| *own == place));
        assert!(page.join().unwrap_err().to_string().contains("all 63 records"));
        taken[7].1.holds.store(1, Relaxed);
        taken[7].1.leave();
        let (place, record) = page.join().unwrap();
        assert_eq!((place, record.holds.load(Relaxed)), (7, 0));
        assert_eq!(page.0.generation.load(Relaxed), RECORDS as u32 + 1);
    }

    #[test]
    fn what_is_no_page_of_this_version_is_refused() {
        for words in [[0, 0], [MAGIC, VERSION + 1], [MAGIC + 1, VERSION]] {
            let file = file(words);
            let said = Page::open(file.path()).unwrap_err().to_string();
            assert!(said.contains("is no page of version 1"), "{said}");
        }
        let said = Page::open(Path::new("/none")).unwrap_err();
        assert!(said.to_string().contains("can't open the page /none"));
    }
}
