//! What the kernel writes to its serial line.

use std::io::{self, Write as _};
use std::mem;

use crate::counters::Counters;

/// What the kernel's record of a run contains, and what the one before it.
const RUN: &[u8] = br#""kind":"sample""#;
const BEGIN: &[u8] = br#""kind":"begin""#;

/// Passes on whole lines, and after each run what KVM has counted during it.
#[derive(Debug)]
pub(crate) struct Console {
    line: Vec<u8>,
    counters: Counters,
    /// Whether anything came since this was last asked.
    heard: bool,
}

impl Console {
    pub(crate) fn new(counters: Counters) -> Self {
        Self { line: Vec::new(), counters, heard: false }
    }

    /// Takes bytes from a vCPU, which does not go on meanwhile: what is counted is that run's.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.heard = true;
        self.line.extend(bytes);
        if !self.line.ends_with(b"\n") {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(&self.line)?;
        let is = |kind: &[u8]| self.line.windows(kind.len()).any(|at| at == kind);
        if (is(RUN) || is(BEGIN))
            && let Some(counted) = self.counters.since()
            && is(RUN)
        {
            writeln!(out, "{counted}")?;
        }
        self.line.clear();
        out.flush()
    }

    /// Whether anything came since the last call.
    pub(crate) fn was_heard(&mut self) -> bool {
        mem::take(&mut self.heard)
    }
}
