//! What a library without Rust's standard library has to define itself.

/// Ends the process: only a bug in Overlock panics. The standard library would say where, but its
/// means to do so are twenty times the size of this library.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    const MESSAGE: &[u8] = b"overlock: a bug in Overlock ends the process\n";
    // SAFETY: the bytes are valid to read.
    unsafe { libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len()) };
    // SAFETY: it has no preconditions.
    unsafe { libc::abort() }
}

/// Named by the unwind tables of the core library, which was compiled to unwind. Nothing here does.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {
    // SAFETY: it has no preconditions.
    unsafe { libc::abort() }
}
