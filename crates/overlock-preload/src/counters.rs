//! What happened in this process, written when it ends.
//!
//! With `OVERLOCK_COUNTERS=FILE` in the environment, a process that ends by `exit` or by returning
//! from `main` appends one line of JSON to FILE, in one `write`, so that the lines of several
//! processes do not mix:
//!
//! ```text
//! {"kind":"process","library":"overlock-preload 0.1.0","lock":"hybrid",
//!  "program":"/usr/bin/xz","pid":4711,
//!  "mutex":{"locks_contended":12,"timed":0,"handed_to_libc":0,"unlocked_free":0,
//!           "longest_stall_ns":81320},
//!  "cond":{"waits":3,"timed":0,"wakes":4,"handed_to_libc":0},
//!  "spin":{"locks_contended":0,"slept":0},
//!  "rwlock":{"waits":0},
//!  "barrier":{"waits":7,"handed_to_libc":0},
//!  "unreplaced":{"semaphore_waits":2},
//!  "events":{"pv_wait_node":5, ...}}
//! ```
//!
//! `unreplaced` counts the waits in what stays libc's (`passed_on.rs`). `events` are those of the
//! lock itself, by Linux's names. A forked child counts from zero and writes its own line. A
//! process that is killed or ends by `_exit` or `exec` writes none: `overlock run` and `compare`
//! read the counters from memory that they share with it instead (`tally.rs`).
//!
//! Only slow paths count: an uncontended lock and unlock leaves no trace.

use core::cell::UnsafeCell;
use core::ffi::CStr;
use core::fmt::{self, Write as _};
use core::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Relaxed};

use overlock::counters::{Class, Event as LockEvent};
use overlock::platform::report;

use crate::tally::{COUNTERS, NAMES, Place};
use crate::text::Text;
use crate::{shared, thread};

/// The class of all locks of this library, which counts their own events.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Preload;

impl Class for Preload {
    #[inline]
    fn count(event: LockEvent) {
        place().add(shard(), NAMES.len() + event as usize, 1);
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// A thread found the mutex taken and queued.
    MutexContended,
    /// The same, with a deadline.
    MutexTimed,
    /// A call to lock a mutex that is libc's.
    MutexHandedToLibc,
    /// A program unlocked a mutex that no thread held.
    UnlockOfFree,
    CondWait,
    /// The same, with a deadline.
    CondTimed,
    /// A signal or broadcast when a thread may have been asleep.
    CondWake,
    /// A wait on a condition variable that is libc's.
    CondHandedToLibc,
    /// A thread found the spin lock taken.
    SpinContended,
    /// A thread spun and yielded in vain, and sleeps.
    SpinSlept,
    /// A thread found a read-write lock taken.
    RwlockWait,
    /// A thread found one taken that processes share, and that is libc's.
    RwlockHandedToLibc,
    /// A thread came to a barrier, and was not the last.
    BarrierWait,
    /// The same, at one that processes share, and that is libc's.
    BarrierHandedToLibc,
    /// A thread found a semaphore at zero.
    SemaphoreWait,
}

const _: () = assert!(Event::SemaphoreWait as usize + 1 == NAMES.len());

/// Where this process counts if it shares no memory with a command.
static OWN: Place = Place::NEW;

/// Where this process counts, if that is elsewhere.
static PLACE: AtomicPtr<Place> = AtomicPtr::new(core::ptr::null_mut());

/// Returns where this process counts.
#[inline]
fn place() -> &'static Place {
    // ORDERING: Acquire ← the Release in `join`: the place is there.
    // SAFETY: null, or a place in memory that stays mapped.
    unsafe { PLACE.load(Acquire).as_ref() }.unwrap_or(&OWN)
}

/// Returns which copy of the counters the calling thread uses.
#[inline]
fn shard() -> usize {
    thread::line() as usize
}

#[inline]
pub(crate) fn add(event: Event) {
    place().add(shard(), event as usize, 1);
}

/// Takes one back that was counted too early.
pub(crate) fn take_back(event: Event) {
    place().add(shard(), event as usize, u64::MAX);
}

pub(crate) fn add_stall(ns: u64) {
    let longest = &place().longest_ns;
    // Relaxed: it is read after the threads have ended, or shows some earlier moment.
    if ns > longest.load(Relaxed) {
        longest.fetch_max(ns, Relaxed);
    }
}

/// Starts again from zero, in a forked child, whose parent reports its own events itself. It uses
/// the lock of that number.
pub(crate) fn reset(lock: u32) {
    if !PLACE.load(Relaxed).is_null() {
        return shared::join_again(lock, program().to_bytes(), &PLACE);
    }
    for counter in 0..COUNTERS {
        OWN.clear(counter);
    }
    OWN.longest_ns.store(0, Relaxed);
}

/// Appends the line to the file that the environment named at the start, if it named one. The
/// process uses the lock of that name.
pub(crate) fn report(lock: &str) {
    let Some(path) = FILE.get() else { return };
    let mut line = Text::<8192>::new();
    if write_line(&mut line, lock).is_err() {
        return report::write(&[
            b"overlock: the counters do not fit into their buffer; none were written\n",
        ]);
    }
    if let Err(why) = append(path, line.written()) {
        report::write(&[
            b"overlock: can't write the counters to ",
            path.to_bytes(),
            b" (OVERLOCK_COUNTERS): ",
            why.as_bytes(),
            b"\n",
        ]);
    }
}

/// The name of the file. It is a copy, because servers clear their environment (nginx) and write
/// their title over its memory (nginx, PostgreSQL), and then still end.
static FILE: FileName = FileName(UnsafeCell::new([0; LONGEST_NAME + 2]));

/// The longest name in bytes that the kernel takes, without the terminator.
const LONGEST_NAME: usize = libc::PATH_MAX as usize - 1;

struct FileName(UnsafeCell<[u8; LONGEST_NAME + 2]>);

// SAFETY: only `set` writes it, and its callers exclude readers.
unsafe impl Sync for FileName {}

impl FileName {
    /// # Safety
    /// No thread is in `set` or `get`, nor has what `get` has returned.
    unsafe fn set(&self, name: &CStr) {
        // SAFETY: as the caller guarantees.
        let place = unsafe { &mut *self.0.get() };
        // A name that has to be cut is still longer than what the kernel takes.
        let bytes = name.to_bytes();
        let length = bytes.len().min(place.len() - 1);
        place[..length].copy_from_slice(&bytes[..length]);
    }

    fn get(&self) -> Option<&CStr> {
        // SAFETY: the callers of `set` exclude that it runs now.
        let place = unsafe { &*self.0.get() };
        CStr::from_bytes_until_nul(place).ok().filter(|name| !name.is_empty())
    }
}

/// Remembers where the user wants the process to count, which uses the lock of that number. Returns
/// whether that is anywhere.
///
/// # Safety
/// No thread is in `note_start` or `report`.
pub(crate) unsafe fn note_start(lock: u32) -> bool {
    let file = report::environment(c"OVERLOCK_COUNTERS");
    if let Some(name) = file {
        // SAFETY: only `note_start` and `report` use it.
        unsafe { FILE.set(name) };
    }
    let memory = report::environment(shared::VARIABLE);
    let joins = memory
        .is_some_and(|named| shared::join(named.to_bytes(), lock, program().to_bytes(), &PLACE));
    file.is_some() || joins
}

/// Appends to a regular file that is not behind a link, because anybody may have chosen its name.
/// Never waits. An error says what is wrong with the file.
fn append(path: &CStr, line: &[u8]) -> Result<(), &'static str> {
    let flags = libc::O_WRONLY
        | libc::O_CREAT
        | libc::O_APPEND
        | libc::O_CLOEXEC
        | libc::O_NOFOLLOW
        | libc::O_NONBLOCK
        | libc::O_NOCTTY;
    // SAFETY: a C string.
    let file = unsafe { libc::open(path.as_ptr(), flags, 0o666) };
    if file < 0 {
        // SAFETY: the calling thread's own.
        return Err(match unsafe { *libc::__errno_location() } {
            libc::ELOOP => "it is a symbolic link",
            libc::ENXIO | libc::EISDIR => NOT_REGULAR,
            _ => "check that its folder exists and that this user may write there",
        });
    }
    let mut about = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: `about` is writable, and on these machines has the kernel's layout. (Not every glibc
    // has the function.)
    let error = unsafe { libc::syscall(libc::SYS_fstat, file, about.as_mut_ptr()) };
    // SAFETY: zeros are a valid value, and so is what the kernel stored.
    let mode = unsafe { about.assume_init() }.st_mode;
    let is_regular = error == 0 && mode & libc::S_IFMT == libc::S_IFREG;
    // SAFETY: the bytes are readable.
    let written = || unsafe { libc::write(file, line.as_ptr().cast(), line.len()) };
    let result = match is_regular {
        false => Err(NOT_REGULAR),
        true if usize::try_from(written()) == Ok(line.len()) => Ok(()),
        true => Err("the line was not written whole: the disk is full, or a limit is reached"),
    };
    // SAFETY: the descriptor is ours.
    unsafe { libc::close(file) };
    result
}

const NOT_REGULAR: &str = "it is not a regular file";

/// The bytes by which the command recognises the library's file: its version and its build.
macro_rules! library_mark {
    () => {
        concat!(
            "overlock-preload ",
            env!("CARGO_PKG_VERSION"),
            " ",
            env!("OVERLOCK_BUILD"),
            " ",
            env!("OVERLOCK_PROFILE")
        )
    };
}

/// Returns the file of this process's program, as it was called.
fn program() -> &'static CStr {
    unsafe extern "C" {
        static program_invocation_name: *const libc::c_char;
    }
    // SAFETY: libc sets it before any constructor runs.
    let program = unsafe { program_invocation_name };
    // SAFETY: null, or a C string.
    if program.is_null() { c"" } else { unsafe { CStr::from_ptr(program) } }
}

fn write_line(line: &mut Text<8192>, lock: &str) -> fmt::Result {
    line.write_str(concat!("{\"kind\":\"process\",\"library\":\"", library_mark!(), "\""))?;
    write!(line, ",\"lock\":\"{lock}\",\"program\":\"")?;
    write_escaped(line, program().to_bytes())?;
    write!(line, "\",\"pid\":{}", thread::kernels_process())?;
    let mut last = "";
    for (counter, name) in NAMES.iter().enumerate() {
        let (group, name) = name.split_once('.').unwrap_or(("", name));
        match (group == last, last) {
            (true, _) => line.write_char(',')?,
            (_, "") => write!(line, ",\"{group}\":{{")?,
            (_, "mutex") => write!(
                line,
                ",\"longest_stall_ns\":{}}},\"{group}\":{{",
                place().longest_ns.load(Relaxed)
            )?,
            _ => write!(line, "}},\"{group}\":{{")?,
        }
        write!(line, "\"{name}\":{}", place().sum(counter))?;
        last = group;
    }
    line.write_str("},\"events\":{")?;
    for (i, event) in LockEvent::ALL.iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        write!(line, "{comma}\"{}\":{}", event.name(), place().sum(NAMES.len() + i))?;
    }
    line.write_str("}}\n")
}

/// Writes bytes of unknown encoding as the inside of a JSON string; bytes that are not printable
/// ASCII become `?`.
fn write_escaped(line: &mut Text<8192>, bytes: &[u8]) -> fmt::Result {
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => write!(line, "\\{}", char::from(byte))?,
            b' '..=b'~' => line.write_char(char::from(byte))?,
            _ => line.write_char('?')?,
        }
    }
    Ok(())
}
