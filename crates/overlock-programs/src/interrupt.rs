//! Ctrl-C: remembered, so that the results so far can still be printed; children are asked to end.
//! A second one ends the process at once, and leaves nothing behind: no child, no file, no
//! progress bar.

use crate::groups::{end_all, kill_all};
use std::ffi::{CString, c_char};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicPtr};

static SEEN: AtomicBool = AtomicBool::new(false);

// What the second Ctrl-C has to clear away. The one thread that measures writes these; a signal
// handler that ends the process reads them.
static FILE: AtomicPtr<c_char> = AtomicPtr::new(null_mut());
static FOLDER: AtomicPtr<c_char> = AtomicPtr::new(null_mut());
static LINE: AtomicBool = AtomicBool::new(false);

pub fn watch() -> io::Result<()> {
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: `came` makes only async-signal-safe calls.
        unsafe { signal_hook::low_level::register(signal, came) }?;
    }
    Ok(())
}

fn came() {
    if !SEEN.swap(true, Relaxed) {
        end_all();
        return;
    }
    kill_all();
    let file = FILE.load(Relaxed);
    if !file.is_null() {
        // SAFETY: a C string that is never freed.
        unsafe { libc::unlink(file) };
    }
    let folder = FOLDER.load(Relaxed);
    if !folder.is_null() {
        // SAFETY: as above.
        unsafe { libc::rmdir(folder) };
    }
    if LINE.load(Relaxed) {
        let clear = b"\r\x1b[K";
        // SAFETY: the bytes are readable. A failure could not be reported anywhere.
        unsafe { libc::write(libc::STDERR_FILENO, clear.as_ptr().cast(), clear.len()) };
    }
    // SAFETY: ends the process at once.
    unsafe { libc::_exit(130) }
}

/// While this lives, a second Ctrl-C removes a file and then its folder.
#[derive(Debug)]
pub struct FileWatch(());

impl FileWatch {
    pub fn new(folder: &Path, file: &str) -> Self {
        let name = |path: &Path| CString::new(path.as_os_str().as_bytes()).unwrap_or_default();
        // Leaked, because the handler can hold them at any time: a few bytes, once in a run.
        FILE.store(name(&folder.join(file)).into_raw(), Relaxed);
        FOLDER.store(name(folder).into_raw(), Relaxed);
        FileWatch(())
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        FILE.store(null_mut(), Relaxed);
        FOLDER.store(null_mut(), Relaxed);
    }
}

/// Sets whether a second Ctrl-C has to clear the line of the progress bar.
pub fn clear_line(is_needed: bool) {
    LINE.store(is_needed, Relaxed);
}

pub fn seen() -> bool {
    SEEN.load(Relaxed)
}

pub fn flag() -> &'static AtomicBool {
    &SEEN
}
