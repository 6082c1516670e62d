//! The archive that a Linux starts with.
//!
//! Sources: Linux 6.1, Documentation/driver-api/early-userspace/buffer-format.rst.

use std::io::{self, Write};

/// An archive that is being written: cpio, "newc".
#[derive(Debug)]
pub(super) struct Archive<W> {
    to: W,
    entries: u32,
}

const FOLDER: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;

impl<W: Write> Archive<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, entries: 0 }
    }

    /// A folder. What is in it comes later.
    pub(super) fn folder(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, FOLDER, &[])
    }

    /// A file that can be executed.
    pub(super) fn file(&mut self, path: &str, bytes: &[u8]) -> io::Result<()> {
        self.entry(path, PROGRAM, bytes)
    }

    pub(super) fn end(mut self) -> io::Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        Ok(self.to)
    }

    fn entry(&mut self, path: &str, mode: u32, bytes: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let size = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        let name = path.len() as u32 + 1;
        // Number, mode, owner, group, links, time, size, device, device of a device, name, sum.
        let fields = [self.entries, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name, 0];
        write!(self.to, "070701")?;
        fields.iter().try_for_each(|field| write!(self.to, "{field:08x}"))?;
        write!(self.to, "{path}\0")?;
        self.pad(6 + fields.len() * 8 + path.len() + 1)?;
        self.to.write_all(bytes)?;
        self.pad(bytes.len())
    }

    /// Fills up to four bytes.
    fn pad(&mut self, bytes: usize) -> io::Result<()> {
        self.to.write_all(&[0; 3][..bytes.next_multiple_of(4) - bytes])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_begin_at_multiples_of_four() {
        let mut archive = Archive::new(Vec::new());
        archive.folder("a").unwrap();
        archive.file("a/b", b"hello").unwrap();
        let bytes = archive.end().unwrap();
        let starts: Vec<usize> =
            (0..bytes.len() - 6).filter(|at| bytes[*at..].starts_with(b"070701")).collect();
        assert_eq!(starts.len(), 3);
        assert!(starts.iter().all(|start| start % 4 == 0), "{starts:?}");
        let size = &bytes[starts[1] + 6 + 6 * 8..][..8];
        assert_eq!(size, b"00000005");
        assert_eq!(&bytes[starts[1] + 110..][..4], b"a/b\0");
    }
}
