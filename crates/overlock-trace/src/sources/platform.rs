//! The system calls of `trace`: perf events and their rings, tracefs, another process's memory.

use anyhow::{Context, Result};
use perf_event_open_sys as sys;
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

pub(crate) use sys::bindings::perf_event_attr as Attr;

/// Opens an event of one processor, or of one thread on all processors.
/// It counts the records that its ring had no room for, where the kernel can do so (Linux 6.0).
pub(crate) fn open(attr: &mut Attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    attr.read_format = u64::from(sys::bindings::PERF_FORMAT_LOST);
    match open_as_told(attr, pid, cpu) {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attr.read_format = 0;
            open_as_told(attr, pid, cpu)
        }
        opened => opened,
    }
}

fn open_as_told(attr: &mut Attr, pid: i32, cpu: i32) -> io::Result<OwnedFd> {
    attr.size = u32::try_from(size_of::<Attr>()).unwrap_or(0);
    let close_on_exec = libc::c_ulong::from(sys::bindings::PERF_FLAG_FD_CLOEXEC);
    // SAFETY: the attributes are initialised plain data, and the call writes at most their size.
    let fd = unsafe { sys::perf_event_open(attr, pid, cpu, -1, close_on_exec) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call has just made this descriptor, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes an event write into another event's ring.
pub(crate) fn share_ring(event: &OwnedFd, ring: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes two descriptors and touches no memory.
    check(unsafe { sys::ioctls::SET_OUTPUT(event.as_raw_fd(), ring.as_raw_fd()) })
}

/// Sets the kernel's filter of a tracepoint.
pub(crate) fn filter(event: &OwnedFd, text: &str) -> io::Result<()> {
    let mut text = CString::new(text).map_err(io::Error::other)?.into_bytes_with_nul();
    // SAFETY: the text ends in a nul and is only read.
    check(unsafe { sys::ioctls::SET_FILTER(event.as_raw_fd(), text.as_mut_ptr().cast()) })
}

pub(crate) fn enable(event: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes a descriptor and touches no memory.
    check(unsafe { sys::ioctls::ENABLE(event.as_raw_fd(), 0) })
}

/// Lets an event, and those that threads have inherited from it, record or not. Events of threads
/// that have ended do neither.
pub(crate) fn turn(event: &OwnedFd, is_on: bool) {
    let change = if is_on { sys::ioctls::ENABLE } else { sys::ioctls::DISABLE };
    // SAFETY: takes a descriptor and touches no memory.
    unsafe { change(event.as_raw_fd(), 0) };
}

/// Returns the number by which an event's records name it.
pub(crate) fn id(event: &OwnedFd) -> io::Result<u64> {
    let mut id = 0;
    // SAFETY: the call writes one u64.
    check(unsafe { sys::ioctls::ID(event.as_raw_fd(), &raw mut id) })?;
    Ok(id)
}

/// Returns how many records an event has lost, if the kernel counts them.
pub(crate) fn lost(event: &OwnedFd) -> Option<u64> {
    let mut value_and_lost = [0_u64; 2];
    let size = size_of_val(&value_and_lost);
    // SAFETY: the call writes at most the size of the array.
    let read = unsafe { libc::read(event.as_raw_fd(), value_and_lost.as_mut_ptr().cast(), size) };
    (read == size.cast_signed()).then_some(value_and_lost[1])
}

fn check(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The part of a ring that is filled, by the kernel's count of bytes.
#[derive(Debug)]
pub(crate) struct Filled {
    start: u64,
    end: u64,
}

impl Filled {
    pub(crate) fn length(&self) -> usize {
        self.end.saturating_sub(self.start) as usize
    }
}

/// The ring into which the kernel writes records.
#[derive(Debug)]
pub(crate) struct Ring {
    base: *mut u8,
    page: usize,
    size: usize,
}

// SAFETY: the memory belongs to this value alone, on whichever thread it is.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event; `size` is a power of two, and at least a page.
    pub(crate) fn new(event: &OwnedFd, size: usize) -> io::Result<Self> {
        // SAFETY: asks for a number and touches no memory.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(io::Error::other)?;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice.
        let base = unsafe {
            libc::mmap(null_mut(), page + size, access, libc::MAP_SHARED, event.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { base: base.cast(), page, size })
    }

    /// Returns the head, which the kernel moves, and the tail.
    fn words(&self) -> (&AtomicU64, &AtomicU64) {
        let header = self.base.cast::<sys::bindings::perf_event_mmap_page>();
        // SAFETY: the first page is this structure, and lasts as long as `self`. All accesses to
        // both words, by the kernel too, are atomic.
        unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*header).data_head),
                AtomicU64::from_ptr(&raw mut (*header).data_tail),
            )
        }
    }

    /// Returns what the kernel has written and was not drained yet.
    pub(crate) fn filled(&self) -> Filled {
        let (head, tail) = self.words();
        // ORDERING: pairs with the kernel's barrier between a record and the head behind it.
        let end = head.load(Acquire);
        Filled { start: tail.load(Relaxed), end }
    }

    /// Returns whether there may soon be no more room.
    #[cfg(test)]
    pub(crate) fn is_half_full(&self) -> bool {
        self.filled().length() > self.size / 2
    }

    /// Appends what this ring was filled with to `bytes`, and makes room for as much.
    pub(crate) fn drain(&mut self, part: Filled, bytes: &mut Vec<u8>) {
        let (from, length) = (part.start as usize & (self.size - 1), part.length());
        let first = length.min(self.size - from);
        // SAFETY: both ranges lie in the ring behind the first page, and the kernel writes only
        // beyond the head until the tail moves.
        unsafe {
            let data = self.base.add(self.page);
            bytes.extend_from_slice(std::slice::from_raw_parts(data.add(from), first));
            bytes.extend_from_slice(std::slice::from_raw_parts(data, length - first));
        }
        // ORDERING: pairs with the kernel's load of the tail: the bytes are read before it moves.
        self.words().1.store(part.end, Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made; no reference to it is left.
        unsafe { libc::munmap(self.base.cast(), self.page + self.size) };
    }
}

/// Waits for events whose rings are filled to their watermarks.
pub(crate) struct Poll(Vec<libc::pollfd>);

impl Poll {
    /// The events have to stay open for as long as this is used.
    pub(crate) fn new(events: &[OwnedFd]) -> Self {
        let entry =
            |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        Poll(events.iter().map(entry).collect())
    }

    /// Waits until there is one, or for some milliseconds.
    pub(crate) fn wait(&mut self, milliseconds: i32) {
        let count = self.0.len() as libc::nfds_t;
        // SAFETY: the entries are valid, and their number is right.
        unsafe { libc::poll(self.0.as_mut_ptr(), count, milliseconds) };
        // The threads of an event may be gone, which would end each wait at once.
        for entry in &mut self.0 {
            if entry.revents & !libc::POLLIN != 0 {
                entry.fd = -1;
            }
        }
    }
}

/// Lets this thread run before all that have no real-time priority, or at least before others of
/// its session.
pub(crate) fn come_first() {
    const PRIORITY: i32 = 10;
    // SAFETY: plain data.
    let mut parameters: libc::sched_param = unsafe { std::mem::zeroed() };
    parameters.sched_priority = PRIORITY;
    let policy = libc::SCHED_RR | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the parameters are only read.
    if unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) } < 0 {
        hurry();
    }
}

/// Lets this thread run before others, so that the rings don't fill up on a busy machine. It is no
/// error if that is not allowed.
pub(crate) fn hurry() {
    // SAFETY: takes integers and touches no memory.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

/// Lets this process have as many open files as it may: each thread that was there before takes
/// some.
pub(crate) fn allow_more_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the first call writes the limit, and the second reads it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// Returns the monotonic clock, which stamps all records.
pub(crate) fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// Returns the processor time of this process, in nanoseconds.
pub(crate) fn cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// The folder of the kernel's tracepoints. If it is not mounted, it is opened without a place in
/// the tree of files, so that nothing is left behind.
#[derive(Debug)]
pub(crate) struct Tracefs(File);

impl Tracefs {
    pub(crate) fn open() -> Result<Self> {
        for mounted in ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"] {
            if let Ok(folder) = File::open(mounted) {
                return Ok(Tracefs(folder));
            }
        }
        let detached = detached_tracefs().context("tracefs is not mounted, and can't be")?;
        let events = File::open(format!("/proc/self/fd/{}/events", detached.as_raw_fd()));
        Ok(Tracefs(events.context("tracefs has no events")?))
    }

    /// Reads a small file, such as `sched/sched_switch/id`.
    pub(crate) fn read(&self, path: &str) -> Result<String> {
        std::fs::read_to_string(format!("/proc/self/fd/{}/{path}", self.0.as_raw_fd()))
            .with_context(|| format!("the kernel's tracepoint {path} can't be read"))
    }
}

fn detached_tracefs() -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 1;
    const CREATE: libc::c_ulong = 6;
    let name = c"tracefs";
    // SAFETY: the name ends in a nul.
    let context = unsafe { libc::syscall(libc::SYS_fsopen, name.as_ptr(), CLOSE_ON_EXEC) };
    let context = descriptor(context)?;
    let fd = context.as_raw_fd();
    let (none, zero) = (null_mut::<libc::c_void>(), 0_usize);
    // SAFETY: this command takes no key, no value and no number.
    let made = unsafe { libc::syscall(libc::SYS_fsconfig, fd, CREATE, none, none, zero) };
    if made < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: takes a descriptor and two numbers.
    descriptor(unsafe { libc::syscall(libc::SYS_fsmount, fd, CLOSE_ON_EXEC, zero) })
}

fn descriptor(fd: i64) -> io::Result<OwnedFd> {
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(io::Error::last_os_error)?;
    // SAFETY: a call has just made this descriptor, and no other code knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Reads a part of another process's memory; returns how many bytes could be read.
pub(crate) fn read_memory(pid: u32, address: u64, bytes: &mut [u8]) -> usize {
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let there = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    let Ok(pid) = i32::try_from(pid) else { return 0 };
    // SAFETY: writes at most the length of `bytes` into it; the other address is only the other
    // process's.
    let read = unsafe { libc::process_vm_readv(pid, &raw const here, 1, &raw const there, 1, 0) };
    usize::try_from(read).unwrap_or(0)
}
