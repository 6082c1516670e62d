//! Joining the memory in which the processes of a command count: see [`tally`](crate::tally).
//!
//! Only system calls of our own are made, and nothing is allocated: this runs in the constructor,
//! and in forked children.

use core::ffi::CStr;
use core::fmt::Write as _;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed, Ordering::Release};

use overlock::platform::syscall::{self, syscall};

use crate::tally::{self, BUILD, PLACES, Place, Tally};
use crate::text::Text;
use crate::thread;

/// [`tally::VARIABLE`], for C.
pub(crate) const VARIABLE: &CStr = c"OVERLOCK_TALLY";

const _: () = assert!(VARIABLE.to_bytes().len() == tally::VARIABLE.len());

/// The memory, once it is mapped. It stays mapped.
static TALLY: AtomicPtr<Tally> = AtomicPtr::new(core::ptr::null_mut());

/// Maps the memory that the variable names, and lets the process, which runs this program and uses
/// the lock of that number, count there. Returns whether it does.
pub(crate) fn join(named: &[u8], lock: u32, program: &[u8], place: &AtomicPtr<Place>) -> bool {
    let Some(tally) = Named::parse(named).and_then(|named| named.map()) else { return false };
    if tally.head.build.load(Relaxed) != BUILD {
        tally.head.strangers.fetch_add(1, Relaxed);
        return false;
    }
    TALLY.store(core::ptr::from_ref(tally).cast_mut(), Relaxed);
    claim(tally, lock, program, place);
    true
}

/// Gives a forked child a place of its own.
pub(crate) fn join_again(lock: u32, program: &[u8], place: &AtomicPtr<Place>) {
    // SAFETY: null, or mapped for ever.
    if let Some(tally) = unsafe { TALLY.load(Relaxed).as_ref() } {
        claim(tally, lock, program, place);
    }
}

fn claim(tally: &'static Tally, lock: u32, program: &[u8], place: &AtomicPtr<Place>) {
    let index = tally.head.claimed.fetch_add(1, Relaxed) as usize;
    let mine = &tally.places[index.min(PLACES - 1)];
    mine.lock.store(lock, Relaxed);
    let mut name = program.chunks(8);
    for word in &mine.program {
        let mut bytes = [0; 8];
        let chunk = name.next().unwrap_or_default();
        bytes[..chunk.len()].copy_from_slice(chunk);
        word.store(u64::from_le_bytes(bytes), Relaxed);
    }
    mine.pid.store(thread::kernels_process() as u32, Relaxed);
    // ORDERING: Release → the Acquire in `counters::place`.
    place.store(core::ptr::from_ref(mine).cast_mut(), Release);
}

struct Named {
    descriptor: usize,
    process: u64,
    token: u64,
}

impl Named {
    fn parse(text: &[u8]) -> Option<Self> {
        let mut numbers = core::str::from_utf8(text).ok()?.split(':');
        let (descriptor, process) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
        Some(Self { descriptor, process, token: numbers.next()?.parse().ok()? })
    }

    /// Maps the memory behind the inherited descriptor, or, if the program has closed it, behind
    /// that of the command. Either may be something else by now: only the token tells.
    fn map(&self) -> Option<&'static Tally> {
        map(self.descriptor, self.token).or_else(|| {
            let mut path = Text::<64>::new();
            write!(path, "/proc/{}/fd/{}\0", self.process, self.descriptor).ok()?;
            let flags = (libc::O_RDWR | libc::O_CLOEXEC) as usize;
            let at = path.written().as_ptr().expose_provenance();
            // SAFETY: the path is a C string.
            let opened =
                unsafe { syscall(libc::SYS_openat, [libc::AT_FDCWD as usize, at, flags, 0, 0, 0]) };
            let file = syscall::result(opened).ok()?;
            let tally = map(file, self.token);
            // SAFETY: opened above.
            unsafe { syscall(libc::SYS_close, [file, 0, 0, 0, 0, 0]) };
            tally
        })
    }
}

/// Maps a file if it is that memory: it has the right size, and begins with the token.
fn map(file: usize, token: u64) -> Option<&'static Tally> {
    let size = size_of::<Tally>();
    let mut first = [0_u8; 8];
    let into = [file, first.as_mut_ptr().expose_provenance(), first.len(), 0, 0, 0];
    // SAFETY: the buffer is writable.
    let read = unsafe { syscall(libc::SYS_pread64, into) };
    if read != 8 || u64::from_le_bytes(first) != token {
        return None;
    }
    // A byte of the last page: a shorter file would raise SIGBUS there.
    let last = [file, first.as_mut_ptr().expose_provenance(), 1, size - 1, 0, 0];
    // SAFETY: as above.
    if unsafe { syscall(libc::SYS_pread64, last) } != 1 {
        return None;
    }
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let args = [0, size, access, libc::MAP_SHARED as usize, file, 0];
    // SAFETY: a new mapping at a place that the kernel chooses.
    let at = syscall::result(unsafe { syscall(libc::SYS_mmap, args) }).ok()?;
    // SAFETY: the whole of it is mapped for ever; it consists of atomic cells, for which any bytes
    // are valid, and a page is better aligned than they need.
    Some(unsafe { &*core::ptr::with_exposed_provenance::<Tally>(at) })
}
