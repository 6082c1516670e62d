//! The stacks of the vCPUs, each above an inaccessible page.

use rustix::mm::{MprotectFlags, mprotect};

use super::memory::Pages;
use super::paging::PAGE;
use crate::lab::Error;

/// Bytes of a stack. Programs don't recurse, but unoptimised ones use plenty of stack.
const STACK: usize = 256 << 10;

/// Bytes from one stack to the next: its guard page comes first.
const STRIDE: usize = STACK + PAGE as usize;

#[derive(Debug)]
pub(crate) struct Stacks(Pages);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack {
    /// The first address that may be used.
    pub(crate) bottom: u64,
    /// The first address behind the stack.
    pub(crate) top: u64,
}

impl Stack {
    pub(crate) fn contains(&self, address: u64, bytes: u64) -> bool {
        address >= self.bottom && address <= self.top - bytes
    }

    pub(crate) fn overflown_by(&self, address: u64) -> bool {
        (self.bottom - PAGE..self.bottom).contains(&address)
    }
}

impl Stacks {
    pub(crate) fn new(vcpus: u32) -> Result<Self, Error> {
        let stacks = Self(Pages::new(vcpus as usize * STRIDE, "map stacks for the vCPUs")?);
        for number in 0..vcpus {
            let guard = stacks.stack(number).bottom - PAGE;
            // SAFETY: the page is part of the mapping just made, and not yet used.
            unsafe { mprotect(guard as *mut _, PAGE as usize, MprotectFlags::empty()) }
                .map_err(Error::io("protect the guard page of a vCPU's stack"))?;
        }
        Ok(stacks)
    }

    /// Returns the stack of vCPU `number`, which is below the number of vCPUs in
    /// [`new`](Self::new).
    pub(crate) fn stack(&self, number: u32) -> Stack {
        let first = self.0.start as u64 + number as u64 * STRIDE as u64;
        Stack { bottom: first + PAGE, top: first + STRIDE as u64 }
    }
}
