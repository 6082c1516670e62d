//! The kernel in the machine's memory, and how it starts: by PVH, which enters in 32-bit protected
//! mode without paging.
//!
//! Source: Xen's public headers (`hvm_start_info`).

use std::fs::File;

use linux_loader::configurator::pvh::PvhBootConfigurator;
use linux_loader::configurator::{BootConfigurator as _, BootParams};
use linux_loader::loader::elf::start_info::{hvm_memmap_table_entry, hvm_start_info};
use linux_loader::loader::elf::{Elf, PvhBootCapability};
use linux_loader::loader::{Cmdline, KernelLoader as _, load_cmdline};
use vm_memory::{Address as _, GuestAddress, GuestMemoryMmap};

use crate::machine::BYTES;
use crate::options::{Options, Result};

/// Where the start information, the map of memory and the command line are put: below the kernel.
const INFO: GuestAddress = GuestAddress(0x6000);
const MEMORY_MAP: GuestAddress = GuestAddress(0x7000);
const COMMAND_LINE: GuestAddress = GuestAddress(0x2_0000);
/// Linux's limit on x86.
const COMMAND_LINE_BYTES: usize = 2048;
/// `XEN_HVM_START_MAGIC_VALUE`, and the version that has a map of memory.
const MAGIC: u32 = 0x336e_c578;
const VERSION: u32 = 1;
/// Memory, in the map.
const MEMORY: u32 = 1;

/// Where a kernel begins, and where the information for it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) entry: u64,
    pub(crate) info: u64,
}

/// Loads the kernel, and what it is told.
pub(crate) fn load(memory: &GuestMemoryMmap<()>, options: &Options) -> Result<Start> {
    let mut line = Cmdline::new(COMMAND_LINE_BYTES)?;
    line.insert_str(&options.line)?;
    load_cmdline(memory, COMMAND_LINE, &line)?;
    let mut image = File::open(&options.image)?;
    let loaded = Elf::load(memory, None, &mut image, None)?;
    let PvhBootCapability::PvhEntryPresent(entry) = loaded.pvh_boot_cap else {
        return Err("the kernel has no PVH entry".into());
    };
    let info = hvm_start_info {
        magic: MAGIC,
        version: VERSION,
        cmdline_paddr: COMMAND_LINE.raw_value(),
        memmap_paddr: MEMORY_MAP.raw_value(),
        memmap_entries: 1,
        ..Default::default()
    };
    let size = BYTES;
    let all = hvm_memmap_table_entry { addr: 0, size, type_: MEMORY, reserved: 0 };
    let mut parameters = BootParams::new(&info, INFO);
    parameters.set_sections(&[all], MEMORY_MAP);
    PvhBootConfigurator::write_bootparams(&parameters, memory)?;
    Ok(Start { entry: entry.raw_value(), info: INFO.raw_value() })
}
