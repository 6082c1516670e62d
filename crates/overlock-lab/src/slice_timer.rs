// SPDX-License-Identifier: MIT OR Apache-2.0
//! A timer that brings one thread out of the guest at the end of its slice.
//!
//! The supervisor could send that signal, but it is a thread itself: with every core busy it has to
//! wait for one, and slices of 1 ms became 2.3 ms. A POSIX timer fires from the clock interrupt, on
//! the spot. The supervisor still looks after every slice; so a signal that finds its thread out of
//! the guest may be lost.

use std::io;
use std::ptr;

use crate::Error;

/// A timer of the thread that made it.
#[derive(Debug)]
pub(crate) struct SliceTimer(libc::timer_t);

// SAFETY: the system's number for the timer, which any thread of the process may use.
unsafe impl Send for SliceTimer {}

// SAFETY: as above.
unsafe impl Sync for SliceTimer {}

impl SliceTimer {
    /// A timer that sends `signal` to this thread.
    ///
    /// # Errors
    /// When the system has no timer left.
    pub(crate) fn for_this_thread(signal: i32) -> Result<Self, Error> {
        // SAFETY: all-zero is a valid `sigevent`; what matters is set next.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal;
        // SAFETY: takes no arguments and cannot fail.
        event.sigev_notify_thread_id = unsafe { libc::gettid() };
        let mut timer = ptr::null_mut();
        // SAFETY: both pointers are valid.
        match unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } {
            0 => Ok(Self(timer)),
            _ => Err(Error::Io {
                attempt: "create a timer for a vCPU (is `ulimit -i`, pending signals, low?)",
                source: io::Error::last_os_error(),
            }),
        }
    }

    /// Has the timer fire once, `ns` nanoseconds (at least one) from now.
    pub(crate) fn set(&self, ns: u64) {
        let ns = ns.max(1);
        let once = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_nsec: (ns % 1_000_000_000) as i64,
            },
        };
        // SAFETY: the timer exists until `self` is dropped. It can only fail for a time out of
        // range.
        unsafe { libc::timer_settime(self.0, 0, &raw const once, ptr::null_mut()) };
    }
}

impl Drop for SliceTimer {
    fn drop(&mut self) {
        // SAFETY: made by `for_this_thread` and deleted nowhere else.
        unsafe { libc::timer_delete(self.0) };
    }
}
