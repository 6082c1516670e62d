//! The console: a serial line, or Xen's.
//!
//! One CPU writes at a time: the first, the holder of the lock that is measured, or one that
//! panics.

use core::fmt::{self, Write};
use core::mem;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::machine::io;

/// Writes bytes to the console.
pub type Output = fn(&[u8]);

/// How long a run stays silent before it reports that it is alive.
pub const SILENCE_NS: u64 = 5_000_000_000;

static OUTPUT: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

/// Sends all further lines to `output`.
pub fn set(output: Output) {
    OUTPUT.store(output as *mut (), Relaxed);
}

/// Writes a line, with interrupts off: the compiled `core` of a hosted target formats text with a
/// red zone below its stack pointer, which an interrupt on the same stack would overwrite.
pub fn line(text: fmt::Arguments<'_>) {
    if OUTPUT.load(Relaxed).is_null() {
        return;
    }
    io::without_interrupts(|| {
        // Writing to the console never fails.
        let _ = writeln!(Console, "{text}");
    });
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

/// Text for a JSON string: quotes, backslashes and control characters become blanks.
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

/// Writes a line to the console.
#[macro_export]
macro_rules! say {
    ($($arg:tt)*) => {
        $crate::console::line(format_args!($($arg)*))
    };
}
