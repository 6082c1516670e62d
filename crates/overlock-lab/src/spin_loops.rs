// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out from the instruction pointer alone that a vCPU spins.
//!
//! A polite spin loop contains the processor's pause instruction, and hardly anything else does. So a
//! vCPU that two samples in a row find near the same pause instruction spins, whatever lock it
//! spins on and without its cooperation. This is what pause-loop exiting does in hardware, by counting.
//!
//! Code beside a spin loop is mistaken for it if two samples in a row hit it; the cost is a
//! needless yield.

use crate::maps::Code;

/// How far from its pause instruction a spin loop may reach, in bytes: the loops of this project's
/// locks are 10 to 40 bytes long. Twice that and critical sections next to a loop would be taken for it.
const REACH: u64 = 48;

/// The encoding of the pause instruction.
const PAUSE: [u8; 2] = [0xf3, 0x90];

/// The pause instruction nearest to `rip`, if one is in reach: the identity of the loop.
pub(crate) fn loop_at(code: &Code, rip: u64) -> Option<u64> {
    (rip.saturating_sub(REACH)..=rip.saturating_add(REACH))
        .filter(|&at| code.contains(at) && code.contains(at.wrapping_add(1)))
        // SAFETY: both bytes are in mapped code.
        .filter(|&at| unsafe { *(at as *const [u8; 2]) } == PAUSE)
        .min_by_key(|at| at.abs_diff(rip))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::process_regions;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    #[inline(never)]
    fn spin(word: &AtomicBool) {
        while word.load(Relaxed) {
            std::hint::spin_loop();
        }
    }

    #[inline(never)]
    fn compute(n: u64) -> u64 {
        (0..n).fold(1, |a, b| a ^ b.wrapping_mul(0x9e37_79b9))
    }

    #[test]
    fn a_loop_is_known_by_its_pause_and_plain_code_is_not() {
        let code = Code::of(&process_regions().unwrap());
        let spinning = loop_at(&code, spin as *const () as u64);
        assert!(spinning.is_some());
        assert_ne!(spinning, loop_at(&code, compute as *const () as u64));
        assert_eq!(loop_at(&code, 0x1000), None);
    }
}
