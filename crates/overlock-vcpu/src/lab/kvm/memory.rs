//! The memory of a guest: this very process, at its own virtual addresses.
//!
//! Every region of the process keeps its virtual address in the guest and gets guest-physical
//! addresses one after the other from [`FIRST_GPA`] on, because process addresses (47 bits) need
//! not fit the guest-physical width.
//!
//! ```text
//! process (= guest virtual)         guest physical
//!           0x1000 (guest only) ──►         0x1000   task state segment, all zero
//! (not mapped)                            0x10_0000  page tables
//! 0x5555_5540_0000 text         ──► 0x1_0000_0000
//! 0x5555_5560_0000 data         ──► 0x1_0020_0000
//! 0x7fff_f7a0_0000 a stack      ──► 0x1_0024_0000 ...
//! ```

use std::ffi::c_void;
use std::ptr;

use kvm_bindings::kvm_userspace_memory_region;
use kvm_ioctls::VmFd;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use super::paging::{PageTables, TABLES_GPA};
use crate::lab::Error;
use crate::lab::maps::Region;

/// Guest-physical address of the first region: above all fixed addresses of a PC.
const FIRST_GPA: u64 = 1 << 32;

/// Address of the task state segment, guest-virtual and guest-physical. Linux lets no process map
/// this page (`vm.mmap_min_addr`), and page 0 stays unmapped so that a null pointer faults.
pub(crate) const TSS: u64 = 0x1000;

/// Zeroed memory, mapped for as long as this lives.
#[derive(Debug)]
pub(super) struct Pages {
    pub(super) start: *mut c_void,
    bytes: usize,
}

impl Pages {
    pub(super) fn new(bytes: usize, attempt: &'static str) -> Result<Self, Error> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new private mapping at an address of the kernel's choice touches nothing else.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), bytes, access, MapFlags::PRIVATE) };
        Ok(Self { start: start.map_err(Error::io(attempt))?, bytes })
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped by `new` with this length. Nothing uses it any more: every vCPU has ended,
        // and a guest that still used it would find its slot empty and stop with an error.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

/// The memory that only the guest has: task state segment and page tables.
#[derive(Debug)]
pub(crate) struct GuestMemory(#[expect(dead_code, reason = "it is the guest's")] Pages);

impl GuestMemory {
    /// Gives `vm` the process's `regions`, and tables that map them.
    pub(crate) fn install(vm: &VmFd, regions: &[Region]) -> Result<Self, Error> {
        let mut tables = PageTables::new();
        tables.map_supervisor(TSS, TSS);
        let mut gpa = FIRST_GPA;
        for (slot, region) in (1..).zip(regions) {
            tables.map(region, gpa);
            // SAFETY: the region is mapped; KVM survives its being unmapped later.
            unsafe { set_slot(vm, slot, gpa, region.start, region.len()) }?;
            gpa += region.len();
        }
        let bytes = (TABLES_GPA + tables.len()) as usize;
        let memory = Pages::new(bytes, "map memory for the guest's page tables")?;
        let first = (TABLES_GPA / 8) as usize;
        for (at, word) in (first..).zip(tables.words()) {
            // SAFETY: there is room for all words behind `TABLES_GPA`.
            unsafe { memory.start.cast::<u64>().add(at).write(word) };
        }
        // SAFETY: the memory is mapped until `memory` is dropped; see `Drop`.
        unsafe { set_slot(vm, 0, 0, memory.start as u64, bytes as u64) }?;
        Ok(Self(memory))
    }
}

/// Makes `bytes` at `address` of this process the guest-physical memory at `gpa`.
///
/// # Safety
/// The range is mapped. The guest can read and write it, as far as its page tables allow.
unsafe fn set_slot(vm: &VmFd, slot: u32, gpa: u64, address: u64, bytes: u64) -> Result<(), Error> {
    let region = kvm_userspace_memory_region {
        slot,
        flags: 0,
        guest_phys_addr: gpa,
        memory_size: bytes,
        userspace_addr: address,
    };
    // SAFETY: passed on to the caller.
    unsafe { vm.set_user_memory_region(region) }.map_err(Error::io(
        "give the guest a range of this process's memory (KVM_SET_USER_MEMORY_REGION)",
    ))
}
