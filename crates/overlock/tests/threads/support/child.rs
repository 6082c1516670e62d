//! Forked children that do something and end.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A forked child, which is killed if it hangs.
pub(crate) struct Child(libc::pid_t);

impl Child {
    pub(crate) fn new(body: impl FnOnce()) -> Self {
        Self::limited(120, body)
    }

    /// The same, with another number of seconds after which it is killed.
    pub(crate) fn limited(limit_s: u32, body: impl FnOnce()) -> Self {
        // SAFETY: the child's code takes no lock but Overlock's, and leaves by _exit.
        match unsafe { libc::fork() } {
            -1 => panic!("fork failed"),
            0 => {
                // SAFETY: the only argument is a number of seconds.
                unsafe { libc::alarm(limit_s) };
                let is_well = catch_unwind(AssertUnwindSafe(body)).is_ok();
                // SAFETY: ends the child without running the parent's exit handlers.
                unsafe { libc::_exit(i32::from(!is_well)) };
            }
            pid => Self(pid),
        }
    }

    /// Waits for its end; returns whether it has neither panicked nor hung.
    pub(crate) fn ends_well(self) -> bool {
        let mut status = 0;
        // SAFETY: `status` is valid to write to, and the child was not waited for.
        let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
        (waited, status) == (self.0, 0)
    }
}

/// Does `body` in a child, which must not panic or hang.
pub(crate) fn in_child(body: impl FnOnce()) {
    assert!(Child::new(body).ends_well(), "the child hung or failed");
}
