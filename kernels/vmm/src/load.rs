//! The kernel in the machine's memory, and what it is told: by PVH if it is an ELF file, else by
//! Linux's own protocol. Both enter in 32-bit protected mode without paging.
//!
//! Sources: Xen's public headers (`hvm_start_info`); Linux, Documentation/arch/x86/boot.rst (6.12).

use std::fs::{self, File};
use std::io::{Read as _, Seek as _};

use linux_loader::configurator::linux::LinuxBootConfigurator;
use linux_loader::configurator::pvh::PvhBootConfigurator;
use linux_loader::configurator::{BootConfigurator as _, BootParams};
use linux_loader::loader::bootparam::{boot_e820_entry, boot_params};
use linux_loader::loader::bzimage::BzImage;
use linux_loader::loader::elf::start_info::{hvm_memmap_table_entry, hvm_start_info};
use linux_loader::loader::elf::{Elf, PvhBootCapability};
use linux_loader::loader::{Cmdline, KernelLoader as _, load_cmdline};
use vm_memory::{Address as _, Bytes as _, GuestAddress, GuestMemoryMmap};

use crate::options::{Options, Result};
use crate::processors;

/// Where the start information, the map of memory and the command line are put: below the kernel.
const INFO: GuestAddress = GuestAddress(0x6000);
const MEMORY_MAP: GuestAddress = GuestAddress(0x7000);
const COMMAND_LINE: GuestAddress = GuestAddress(0x2_0000);
/// Linux's limit on x86.
const COMMAND_LINE_BYTES: usize = 2048;
/// `XEN_HVM_START_MAGIC_VALUE`, and the version that has a map of memory.
const MAGIC: u32 = 0x336e_c578;
const VERSION: u32 = 1;
/// Memory, in both protocols' maps.
const MEMORY: u32 = 1;
/// What Linux calls a loader without a number.
const OTHER_LOADER: u8 = 0xff;
/// Where the PC's old hardware ends.
const HIGH: u64 = 0x10_0000;
const PAGE: u64 = 4096;

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
    let mut mark = [0; 4];
    image.read_exact(&mut mark)?;
    image.rewind()?;
    match &mark == b"\x7fELF" {
        true => by_pvh(memory, options, image),
        false => as_linux(memory, options, image),
    }
}

fn by_pvh(memory: &GuestMemoryMmap<()>, options: &Options, mut image: File) -> Result<Start> {
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
    let size = options.memory_mib << 20;
    let all = hvm_memmap_table_entry { addr: 0, size, type_: MEMORY, reserved: 0 };
    let mut parameters = BootParams::new(&info, INFO);
    parameters.set_sections(&[all], MEMORY_MAP);
    PvhBootConfigurator::write_bootparams(&parameters, memory)?;
    Ok(Start { entry: entry.raw_value(), info: INFO.raw_value() })
}

fn as_linux(memory: &GuestMemoryMmap<()>, options: &Options, mut image: File) -> Result<Start> {
    let loaded = BzImage::load(memory, None, &mut image, None)?;
    let mut info = boot_params {
        hdr: loaded.setup_header.ok_or("the kernel has no header")?,
        ..Default::default()
    };
    info.hdr.type_of_loader = OTHER_LOADER;
    info.hdr.cmd_line_ptr = u32::try_from(COMMAND_LINE.raw_value())?;
    let end = options.memory_mib << 20;
    if let Some(files) = &options.files {
        let files = fs::read(files)?;
        let at = (end - files.len() as u64) & !(PAGE - 1);
        memory.write_slice(&files, GuestAddress(at))?;
        info.hdr.ramdisk_image = u32::try_from(at)?;
        info.hdr.ramdisk_size = u32::try_from(files.len())?;
    }
    let ranges = [(0, processors::AT), (HIGH, end - HIGH)];
    for (entry, (addr, size)) in info.e820_table.iter_mut().zip(ranges) {
        *entry = boot_e820_entry { addr, size, r#type: MEMORY };
    }
    info.e820_entries = ranges.len() as u8;
    let tables = processors::tables(options.cpus);
    memory.write_slice(&tables, GuestAddress(processors::AT))?;
    info.acpi_rsdp_addr = processors::AT;
    LinuxBootConfigurator::write_bootparams(&BootParams::new(&info, INFO), memory)?;
    Ok(Start { entry: loaded.kernel_load.raw_value(), info: INFO.raw_value() })
}
