// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the kernel says how it came out: a serial line, or Xen's console.
//!
//! One CPU speaks at a time: the first, or one that panics.

use core::fmt::{self, Write};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Writes bytes to whoever listens.
pub type Output = fn(&[u8]);

static OUTPUT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// From here on everything goes to `output`.
pub fn set(output: Output) {
    OUTPUT.store(output as *mut (), Relaxed);
}

/// The console, for [`write!`].
#[derive(Clone, Copy, Debug)]
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let output = OUTPUT.load(Relaxed);
        if output.is_null() {
            return Ok(());
        }
        // SAFETY: `set` stored an `Output`, and pointers to functions and to data are alike here.
        let output = unsafe { mem::transmute::<*mut (), Output>(output) };
        output(text.as_bytes());
        Ok(())
    }
}

/// Text inside a JSON string: what would end or bend it becomes a blank.
#[derive(Clone, Copy, Debug)]
pub struct Plain<T>(pub T);

impl<T: fmt::Display> fmt::Display for Plain<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        struct Blanked<'a, 'b>(&'a mut fmt::Formatter<'b>);
        impl Write for Blanked<'_, '_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                text.chars().try_for_each(|c| {
                    self.0.write_char(if c == '"' || c == '\\' || c.is_control() { ' ' } else { c })
                })
            }
        }
        write!(Blanked(f), "{}", self.0)
    }
}

/// Says a line.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => {{
        use core::fmt::Write as _;
        // The console takes everything.
        let _ = writeln!($crate::console::Console, $($arg)*);
    }};
}
