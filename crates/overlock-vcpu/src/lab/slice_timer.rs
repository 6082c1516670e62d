//! A timer that brings one thread out of the guest at the end of its slice.
//!
//! The supervisor could send that signal, but it is a thread itself: with every core busy it has to
//! wait for one, and slices of 1 ms became 2.3 ms. A POSIX timer fires directly from the clock
//! interrupt. The supervisor still checks after every slice, so a signal that finds its thread out
//! of the guest can be lost.

use std::io;
use std::ptr;

use crate::lab::{Error, signal};

/// A timer of the thread that made it.
#[derive(Debug)]
pub(crate) struct SliceTimer(libc::timer_t);

// SAFETY: the system's number of the timer, which any thread of the process can use.
unsafe impl Send for SliceTimer {}

// SAFETY: as above.
unsafe impl Sync for SliceTimer {}

impl SliceTimer {
    /// Makes a timer that sends this thread the signal to leave the guest.
    pub(crate) fn for_this_thread() -> Result<Self, Error> {
        // SAFETY: all-zero is a valid `sigevent`; the fields that matter are set next.
        let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal::number();
        event.sigev_notify_thread_id = rustix::thread::gettid().as_raw_pid();
        let mut timer = ptr::null_mut();
        // SAFETY: both pointers are valid.
        match unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) } {
            0 => Ok(Self(timer)),
            _ => Err(Error::io(
                "create a timer for a vCPU (is `ulimit -i`, pending signals, low?)",
            )(io::Error::last_os_error())),
        }
    }

    /// Sets the timer to fire once, `ns` nanoseconds (at least one) from now.
    pub(crate) fn set(&self, ns: u64) {
        let ns = ns.max(1);
        let once = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: libc::timespec {
                tv_sec: (ns / 1_000_000_000) as i64,
                tv_nsec: (ns % 1_000_000_000) as i64,
            },
        };
        // SAFETY: the timer exists until `self` is dropped. The call can only fail for a time out
        // of range.
        unsafe { libc::timer_settime(self.0, 0, &raw const once, ptr::null_mut()) };
    }
}

impl Drop for SliceTimer {
    fn drop(&mut self) {
        // SAFETY: created by `for_this_thread` and deleted nowhere else.
        unsafe { libc::timer_delete(self.0) };
    }
}
