// SPDX-License-Identifier: MIT OR Apache-2.0
//! A line on standard error, without locks, buffers or allocation.

/// Writes the parts, one after the other, to standard error with one system call.
pub(crate) fn write(parts: &[&[u8]]) {
    const PARTS: usize = 12;
    let mut vectors = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
    let count = parts.len().min(PARTS);
    for (vector, part) in vectors.iter_mut().zip(parts) {
        *vector = libc::iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
    }
    // SAFETY: `count` vectors describe live slices, which `writev` only reads. A failure could not
    // be reported anywhere.
    unsafe { libc::writev(libc::STDERR_FILENO, vectors.as_ptr(), count as libc::c_int) };
}
