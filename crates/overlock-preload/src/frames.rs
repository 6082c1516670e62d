//! Which waits of the calling thread lie between it and a frame, told by its frames.
//!
//! A thread can have several stacks: its own, one for signal handlers, and those of its coroutines,
//! in any order in memory. So the frames are followed from caller to caller, also through a signal
//! handler to what it has interrupted on another stack, by the tables that describe them for
//! exceptions. Each wait has one frame of a function known here, [`overlock_guarded`].

use core::ffi::{c_int, c_void};

use crate::guarded::overlock_guarded;

/// The frames from here to a stack pointer.
pub(crate) struct Frames {
    /// Where the stack pointer of the frame of interest was when it called `setjmp`.
    target: usize,
    /// The stack pointers of the waits' outermost frames, innermost first.
    waits: [usize; MOST],
    count: usize,
    /// The stack pointer of the last frame seen.
    last: usize,
    pub(crate) has_met_target: bool,
}

/// The number of waits that can have interrupted each other.
const MOST: usize = 16;

/// A wait needs less of its stack than this.
const DEPTH: usize = 16 << 10;

const GOES_ON: c_int = 0;
const ENDS: c_int = 4;

unsafe extern "C" {
    fn _Unwind_Backtrace(
        each: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        frames: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetCFA(frame: *mut c_void) -> usize;
    fn _Unwind_GetIPInfo(frame: *mut c_void, is_interrupted: *mut c_int) -> usize;
    fn _Unwind_GetRegionStart(frame: *mut c_void) -> usize;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

impl Frames {
    /// Follows the frames of the calling thread to the one that contains `target`, or to the end of
    /// what the tables describe.
    pub(crate) fn to(target: usize) -> Self {
        let mut frames =
            Self { target, waits: [0; MOST], count: 0, last: usize::MAX, has_met_target: false };
        walk(|frame| frames.note(frame));
        frames
    }

    /// Notes a frame. Returns whether it is another than the one that contains the target.
    fn note(&mut self, frame: *mut c_void) -> bool {
        let mut is_interrupted = 0;
        // SAFETY: the unwinder's frame.
        let (pointer, start) = unsafe {
            _Unwind_GetIPInfo(frame, &raw mut is_interrupted);
            (_Unwind_GetCFA(frame), _Unwind_GetRegionStart(frame))
        };
        // The frame before reaches from its own stack pointer to this one's, unless it is the
        // kernel's: that of a signal, which can be on another stack than what the signal has
        // interrupted.
        if is_interrupted == 0 && (self.last..pointer).contains(&self.target) {
            self.has_met_target = true;
            return false;
        }
        self.last = pointer;
        if start == (overlock_guarded as *const ()).addr() && self.count < MOST {
            self.waits[self.count] = pointer;
            self.count += 1;
        }
        true
    }

    /// Whether the wait at this place of a stack is one of those passed.
    pub(crate) fn contains(&self, at: usize) -> bool {
        self.waits[..self.count].iter().any(|outermost| is_wait_of(*outermost, at))
    }
}

/// Returns where a frame has made its call: before the address to which that returns.
pub(crate) fn call_of(frame: *mut c_void) -> usize {
    // SAFETY: the unwinder's frame.
    unsafe { _Unwind_GetIP(frame) - 1 }
}

/// Whether the wait at this place of a stack is the one whose outermost frame has this stack
/// pointer.
pub(crate) fn is_wait_of(outermost: usize, at: usize) -> bool {
    at < outermost && outermost - at < DEPTH
}

/// Calls `each` with the frames of the calling thread, innermost first, as long as it returns true.
pub(crate) fn walk<F: FnMut(*mut c_void) -> bool>(mut each: F) {
    unsafe extern "C" fn one<F: FnMut(*mut c_void) -> bool>(
        frame: *mut c_void,
        each: *mut c_void,
    ) -> c_int {
        // SAFETY: the closure of `walk`, which has not returned.
        let each = unsafe { &mut *each.cast::<F>() };
        if each(frame) { GOES_ON } else { ENDS }
    }
    // SAFETY: `one` is called with `each`, before the call returns.
    unsafe { _Unwind_Backtrace(one::<F>, (&raw mut each).cast()) };
}
