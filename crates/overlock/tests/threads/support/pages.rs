//! Memory of a test's own.

/// Makes room for so many values, all of whose bytes are zero. It is never unmapped.
pub(crate) fn pages<T>(values: usize, flags: i32) -> *mut T {
    let (length, access) = (values * size_of::<T>(), libc::PROT_READ | libc::PROT_WRITE);
    let flags = flags | libc::MAP_ANONYMOUS;
    // SAFETY: a new mapping, at an address that the kernel chooses.
    let pages = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
    assert_ne!(pages, libc::MAP_FAILED);
    pages.cast()
}
