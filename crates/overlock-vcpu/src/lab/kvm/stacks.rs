//! The stacks of the vCPUs, each above an inaccessible page.

use std::io;
use std::ptr::{self, NonNull};

use super::paging::PAGE;
use crate::lab::Error;

/// Bytes of a stack. Programs don't recurse, but unoptimised ones use plenty of stack.
const STACK: usize = 256 << 10;

/// Bytes from one stack to the next: its guard page comes first.
const STRIDE: usize = STACK + PAGE as usize;

#[derive(Debug)]
pub(crate) struct Stacks {
    start: NonNull<u8>,
    bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    /// The first address that may be used.
    pub(crate) bottom: u64,
    /// The first address behind the stack.
    pub(crate) top: u64,
}

impl Stack {
    /// Returns whether `bytes` from `address` on are on the stack.
    pub(crate) fn contains(&self, address: u64, bytes: u64) -> bool {
        address >= self.bottom && address <= self.top - bytes
    }

    /// Returns whether `address` is in the guard page.
    pub(crate) fn overflown_by(&self, address: u64) -> bool {
        (self.bottom - PAGE..self.bottom).contains(&address)
    }
}

impl Stacks {
    /// Maps stacks for `vcpus` vCPUs.
    pub(crate) fn new(vcpus: u32) -> Result<Self, Error> {
        let error = |attempt| move || Error::Io { attempt, source: io::Error::last_os_error() };
        let bytes = vcpus as usize * STRIDE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(error("map stacks for the vCPUs")());
        }
        let start = NonNull::new(start.cast()).ok_or_else(error("map stacks for the vCPUs"))?;
        let stacks = Self { start, bytes };
        for number in 0..vcpus {
            let guard = stacks.stack(number).bottom - PAGE;
            // SAFETY: the page is part of the mapping just made, and not yet used.
            let result = unsafe { libc::mprotect(guard as *mut _, PAGE as usize, libc::PROT_NONE) };
            if result != 0 {
                return Err(error("protect the guard page of a vCPU's stack")());
            }
        }
        Ok(stacks)
    }

    /// Returns the stack of vCPU `number`, which is below the number of vCPUs in
    /// [`new`](Self::new).
    pub(crate) fn stack(&self, number: u32) -> Stack {
        let first = self.start.as_ptr() as u64 + number as u64 * STRIDE as u64;
        Stack { bottom: first + PAGE, top: first + STRIDE as u64 }
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length; every vCPU has ended.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}
