// SPDX-License-Identifier: MIT OR Apache-2.0
//! What happened in this process, written at its end.
//!
//! With `OVERLOCK_COUNTERS=FILE` in the environment, a process that ends by `exit` or by returning
//! from `main` appends one line of JSON to FILE, in one `write`, so that the lines of several
//! processes do not mix:
//!
//! ```text
//! {"kind":"process","lock":"hybrid","program":"/usr/bin/xz","pid":4711,
//!  "mutex":{"locks_contended":12,"timed":0,"handed_to_libc":0},
//!  "cond":{"waits":3,"timed":0,"wakes":4,"handed_to_libc":0},
//!  "spin":{"locks_contended":0,"slept":0},
//!  "events":{"pv_wait_node":5, ...}}
//! ```
//!
//! `events` are those of the lock itself, by Linux's names. A forked child counts from zero and
//! writes a line of its own. A process that is killed or ends by `_exit` or `exec` writes none.
//!
//! Only what is slow anyway is counted: an uncontended lock and unlock leaves no trace.

use core::ffi::CStr;
use core::fmt::{self, Write as _};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use overlock::counters::Event as LockEvent;

use crate::{choice, message, thread};

overlock::lock_class!(
    /// The class of all locks of this library: where their own events are counted.
    pub(crate) Preload
);

/// What is counted.
#[derive(Clone, Copy)]
pub(crate) enum Event {
    /// A thread found the mutex taken and queued.
    MutexContended,
    /// The same, with a deadline.
    MutexTimed,
    /// A call to lock a mutex that is libc's.
    MutexHandedToLibc,
    /// A wait on a condition variable.
    CondWait,
    /// The same, with a deadline.
    CondTimed,
    /// A signal or broadcast while somebody may have slept.
    CondWake,
    /// A wait on a condition variable that is libc's.
    CondHandedToLibc,
    /// A thread found the spin lock taken.
    SpinContended,
    /// It has spun and yielded in vain, and sleeps.
    SpinSlept,
}

const EVENTS: usize = Event::SpinSlept as usize + 1;

/// How many copies of the counters there are, so that threads seldom write to the same cache line.
const SHARDS: usize = 16;

#[repr(align(64))]
struct Shard([AtomicU64; EVENTS]);

static COUNTS: [Shard; SHARDS] = [const { Shard([const { AtomicU64::new(0) }; EVENTS]) }; SHARDS];

/// What the locks' own events had come to when this process was forked.
static BEFORE_FORK: [AtomicU64; LockEvent::ALL.len()] =
    [const { AtomicU64::new(0) }; LockEvent::ALL.len()];

/// Counts one event.
#[inline]
pub(crate) fn add(event: Event) {
    let shard = &COUNTS[thread::number() as usize % SHARDS];
    shard.0[event as usize].fetch_add(1, Relaxed);
}

fn sum(event: Event) -> u64 {
    COUNTS.iter().map(|shard| shard.0[event as usize].load(Relaxed)).sum()
}

/// Starts again from zero. For a forked child, whose parent reports what it did itself.
pub(crate) fn reset() {
    for count in COUNTS.iter().flat_map(|shard| &shard.0) {
        count.store(0, Relaxed);
    }
    for (before, (_, count)) in BEFORE_FORK.iter().zip(Preload::counters().iter()) {
        before.store(count, Relaxed);
    }
}

/// Appends the line to the file that the environment names, if it names one.
pub(crate) fn report() {
    unsafe extern "C" {
        fn secure_getenv(name: *const libc::c_char) -> *const libc::c_char;
    }
    // SAFETY: the name is a C string. A thread that runs on while the process exits might call
    // `setenv` now: so it might during any exit handler that reads the environment.
    let path = unsafe { secure_getenv(c"OVERLOCK_COUNTERS".as_ptr()) };
    if path.is_null() {
        return;
    }
    let mut line = Line::default();
    if write_line(&mut line).is_err() {
        return message::write(&[
            b"overlock: the counters do not fit their buffer; none written\n",
        ]);
    }
    let flags = libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC;
    // SAFETY: `getenv` returned a C string.
    let file = unsafe { libc::open(path, flags, 0o666) };
    // SAFETY: the bytes are readable; a bad descriptor is refused.
    let written = unsafe { libc::write(file, line.bytes.as_ptr().cast(), line.length) };
    if written != line.length as isize {
        // SAFETY: `getenv` returned a C string.
        let name = unsafe { CStr::from_ptr(path) }.to_bytes();
        message::write(&[
            b"overlock: can't write the counters to ",
            name,
            b" (OVERLOCK_COUNTERS); check the folder and its permissions\n",
        ]);
    }
    // SAFETY: ours, or -1, which is refused.
    unsafe { libc::close(file) };
}

fn write_line(line: &mut Line) -> fmt::Result {
    unsafe extern "C" {
        static program_invocation_name: *const libc::c_char;
    }
    line.write_str("{\"kind\":\"process\"")?;
    write!(line, ",\"lock\":\"{}\",\"program\":\"", choice::operations().name)?;
    // SAFETY: libc sets it before any constructor runs.
    let program = unsafe { program_invocation_name };
    if !program.is_null() {
        // SAFETY: a C string.
        line.write_escaped(unsafe { CStr::from_ptr(program) }.to_bytes())?;
    }
    // SAFETY: always succeeds.
    write!(line, "\",\"pid\":{}", unsafe { libc::getpid() })?;
    write!(
        line,
        ",\"mutex\":{{\"locks_contended\":{},\"timed\":{},\"handed_to_libc\":{}}}",
        sum(Event::MutexContended),
        sum(Event::MutexTimed),
        sum(Event::MutexHandedToLibc)
    )?;
    write!(
        line,
        ",\"cond\":{{\"waits\":{},\"timed\":{},\"wakes\":{},\"handed_to_libc\":{}}}",
        sum(Event::CondWait),
        sum(Event::CondTimed),
        sum(Event::CondWake),
        sum(Event::CondHandedToLibc)
    )?;
    write!(
        line,
        ",\"spin\":{{\"locks_contended\":{},\"slept\":{}}}",
        sum(Event::SpinContended),
        sum(Event::SpinSlept)
    )?;
    line.write_str(",\"events\":{")?;
    for (i, (event, count)) in Preload::counters().iter().enumerate() {
        let comma = if i == 0 { "" } else { "," };
        let count = count - BEFORE_FORK[i].load(Relaxed);
        write!(line, "{comma}\"{}\":{count}", event.name())?;
    }
    line.write_str("}}\n")
}

/// A line of text in a fixed buffer: the end of a process is no time to allocate.
struct Line {
    bytes: [u8; 8192],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 8192], length: 0 }
    }
}

impl Line {
    /// Writes bytes of unknown encoding as the inside of a JSON string: what is not printable ASCII
    /// becomes `?`.
    fn write_escaped(&mut self, bytes: &[u8]) -> fmt::Result {
        for &byte in bytes {
            match byte {
                b'"' | b'\\' => write!(self, "\\{}", char::from(byte))?,
                b' '..=b'~' => self.write_char(char::from(byte))?,
                _ => self.write_char('?')?,
            }
        }
        Ok(())
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
