//! The kernel's entry point, and its panic handler.

mod bare;
mod memory;
mod probes;

use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use overlock_boot::console::Plain;
use overlock_boot::say;

/// Ends the machine of the world that is in use.
static EXIT: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

type Exit = fn(u8) -> !;

fn set_exit(exit: Exit) {
    EXIT.store(exit as *mut (), Relaxed);
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    let line = info.location().map_or(0, core::panic::Location::line);
    let file = info.location().map_or("?", core::panic::Location::file);
    let why = Plain(info.message());
    say!("{{\"kind\":\"panic\",\"why\":\"{why} ({}:{line})\"}}", Plain(file));
    let exit = EXIT.load(Relaxed);
    if !exit.is_null() {
        // SAFETY: `set_exit` stored an `Exit`.
        let exit = unsafe { core::mem::transmute::<*mut (), Exit>(exit) };
        exit(1);
    }
    loop {
        core::hint::spin_loop();
    }
}
