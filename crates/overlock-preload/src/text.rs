//! Text in a fixed buffer, for code that must not allocate.

use core::fmt;

pub(crate) struct Text<const SIZE: usize> {
    bytes: [u8; SIZE],
    length: usize,
}

impl<const SIZE: usize> Text<SIZE> {
    pub(crate) fn new() -> Self {
        Self { bytes: [0; SIZE], length: 0 }
    }

    pub(crate) fn written(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Fails where the buffer is full.
impl<const SIZE: usize> fmt::Write for Text<SIZE> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}
