//! The timer as a guest sees it: registers at offsets of a block.
//!
//! # Registers
//! At the offsets of Intel's PIIX4 and ICH9, whose block is usually at port 0x600:
//!
//! | offset | size | register |
//! |---|---|---|
//! | 0 | 2 | PM1 status; writing a one clears |
//! | 2 | 2 | PM1 enable |
//! | 4 | 2 | PM1 control: not this device's |
//! | 8 | 4 | the count; writes are ignored |
//!
//! An unknown register reads as all ones, as on a bus where no device answers, and ignores writes.
//! All registers may be accessed in parts. Parts of the count that are read one after the other may
//! be of different counts, as on hardware.
//!
//! # The other bits of PM1, and the other sources of the SCI
//! Of status and enable, only bit 0 (`TMR`) is here. The others (ACPI 6.5, 4.8.3.1: the global
//! lock, the power and sleep buttons, the RTC, wake) belong to devices of their own, and so does
//! control (`SCI_EN`, `SLP_TYP`, `SLP_EN`). An embedder that has them combines the bytes: it reads
//! here and fills in its own bits where this device returns zeroes; it passes writes on unchanged,
//! because the timer ignores everything but `TMR`. One level-triggered line, the SCI, serves all
//! sources: it is high while *any* of them asks for it. So the timer's [`SciLine`] must be one
//! input of an OR, and not the line itself: keep a bit for each source, and drive the line by
//! whether any bit is set.

use super::event::SciLine;
use super::read::ReadRule;
use super::timer::{HostClock, PmTimer};

const EVENTS_SIZE: u16 = 4;
const COUNT_OFFSET: u16 = 8;
const COUNT_SIZE: u16 = 4;

impl<C: HostClock, R: ReadRule, S: SciLine> PmTimer<C, R, S> {
    /// A guest's read of `data.len()` bytes at `offset` of the block.
    pub fn read(&self, offset: u16, data: &mut [u8]) {
        data.fill(0xff);
        let count = (COUNT_OFFSET..COUNT_OFFSET + COUNT_SIZE).contains(&offset);
        if count {
            let bytes = self.count().to_le_bytes();
            let from = usize::from(offset - COUNT_OFFSET);
            if let Some(bytes) = bytes.get(from..from + data.len()) {
                data.copy_from_slice(bytes);
            }
        } else if let Some(range) = lanes(offset, data.len()) {
            let (status, enable) = (self.status(), self.enable());
            let bytes = (u32::from(enable) << 16 | u32::from(status)).to_le_bytes();
            data.copy_from_slice(&bytes[range]);
        }
    }

    /// A guest's write of `data` at `offset` of the block.
    pub fn write(&self, offset: u16, data: &[u8]) {
        let Some(range) = lanes(offset, data.len()) else { return };
        // The timer's bits are all in the low bytes of their registers.
        let byte = |lane: usize| range.clone().position(|at| at == lane).map(|at| data[at]);
        if let Some(ones) = byte(0) {
            self.clear_status(ones.into());
        }
        if let Some(bits) = byte(2) {
            self.set_enable(bits.into());
        }
    }
}

/// The bytes of status and enable that an access touches, if it is within them.
fn lanes(at: u16, len: usize) -> Option<core::ops::Range<usize>> {
    let end = usize::from(at).checked_add(len)?;
    (end <= usize::from(EVENTS_SIZE)).then_some(usize::from(at)..end)
}
