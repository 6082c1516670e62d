//! The mappings of this process: `/proc/self/maps`.
//!
//! A guest on KVM gets all of them, at the same addresses; the engine uses the list to recognise
//! code.
//!
//! The list is taken when a run starts. Memory that the process maps later is unknown to that guest
//! and faults there; memory that it unmaps later makes `KVM_RUN` fail. Both end the run with an
//! error.

use std::fs;

use crate::lab::Error;

/// A page-aligned range of the process that a guest can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    /// First address, in the process and in the guest alike.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) writable: bool,
    pub(crate) executable: bool,
}

impl Region {
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }
}

/// Lists the present mappings of the process.
pub(crate) fn process_regions() -> Result<Vec<Region>, Error> {
    let maps = fs::read_to_string("/proc/self/maps")
        .map_err(Error::io("read /proc/self/maps (is /proc mounted?)"))?;
    Ok(maps.lines().filter_map(parse_line).collect())
}

/// The executable ranges of the process.
#[derive(Clone, Debug)]
pub(crate) struct Code(Vec<Region>);

impl Code {
    /// Picks the executable ones out of `regions`.
    pub(crate) fn of(regions: &[Region]) -> Self {
        Self(regions.iter().copied().filter(|region| region.executable).collect())
    }

    /// Returns whether `address` can be executed and read.
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.0.iter().any(|region| (region.start..region.end).contains(&address))
    }
}

/// Parses one line of the file; returns nothing if a guest has no use for the mapping.
///
/// It leaves out unreadable ranges (guard pages, reservations), the kernel's own pages (with
/// `[vdso]` and its data, a closure that asks for the time would appear to work) and mapped
/// devices, such as the run pages of the vCPUs themselves.
fn parse_line(line: &str) -> Option<Region> {
    let mut fields = line.split_ascii_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let flags = fields.next()?.as_bytes();
    let name = fields.nth(3).unwrap_or("");
    let kernels_own = name.starts_with("[v") || name.starts_with("anon_inode:");
    if flags.first() != Some(&b'r') || kernels_own || name.starts_with("/dev/") {
        return None;
    }
    Some(Region {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        writable: flags.get(1) == Some(&b'w'),
        executable: flags.get(2) == Some(&b'x'),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_keeps_its_address_and_rights() {
        let region = parse_line("7f00a000-7f00c000 rw-p 00000000 fe:00 32 /lib/x.so").unwrap();
        assert_eq!((region.start, region.len()), (0x7f00_a000, 0x2000));
        assert!(region.writable && !region.executable);
    }

    #[test]
    fn what_the_guest_must_not_have_is_left_out() {
        for line in [
            "7f00a000-7f00c000 ---p 00000000 00:00 0",
            "7f00a000-7f00c000 r-xp 00000000 00:00 0    [vdso]",
            "7f00a000-7f00c000 r--p 00000000 00:00 0    [vvar_vclock]",
            "7f00a000-7f00c000 rw-s 00000000 00:0e 12   anon_inode:kvm-vcpu:0",
        ] {
            assert_eq!(parse_line(line), None, "{line}");
        }
    }

    #[test]
    fn regions_cover_code_and_stack_without_overlap() {
        let regions = process_regions().unwrap();
        let local = 0u8;
        let here = std::ptr::from_ref(&local) as u64;
        let code = parse_line as *const () as u64;
        assert!(regions.iter().any(|r| r.writable && (r.start..r.end).contains(&here)));
        assert!(regions.iter().any(|r| r.executable && (r.start..r.end).contains(&code)));
        assert!(regions.windows(2).all(|w| w[0].end <= w[1].start));
        assert!(Code::of(&regions).contains(code) && !Code::of(&regions).contains(here));
    }
}
