//! Detects from the instruction pointer alone that a vCPU spins.
//!
//! A good spin loop contains the processor's pause instruction, and hardly anything else does. So a
//! vCPU that two samples in a row find near the same pause instruction spins, whatever lock it
//! spins on and without its cooperation. Pause-loop exiting does this in hardware, by counting.
//!
//! Code beside a spin loop is mistaken for it if two samples in a row hit it; the cost is a
//! needless yield.

use crate::lab::maps::Code;

/// How far a spin loop can reach from its pause instruction, in bytes: the loops of this project's
/// locks are 10 to 40 bytes long. With twice that, critical sections next to a loop would be taken
/// for it.
const REACH: u64 = 48;

/// The encoding of the pause instruction.
const PAUSE: [u8; 2] = [0xf3, 0x90];

/// Returns the pause instruction nearest to `rip`, if one is in reach: the identity of the loop.
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
    use crate::lab::maps::Region;

    #[test]
    fn a_loop_is_known_by_the_pause_in_reach_and_nothing_else() {
        let mut bytes = [0x90_u8; 512];
        bytes[200..202].copy_from_slice(&PAUSE);
        bytes[220..222].copy_from_slice(&PAUSE);
        bytes[511] = PAUSE[0]; // and the code ends
        let start = bytes.as_ptr() as u64;
        let end = start + bytes.len() as u64;
        let code = Code::of(&[Region { start, end, writable: false, executable: true }]);
        let found = |at: u64| loop_at(&code, start + at).map(|pause| pause - start);
        assert_eq!(found(200 - REACH), Some(200));
        assert_eq!(found(200 - REACH - 1), None);
        assert_eq!((found(209), found(211)), (Some(200), Some(220)));
        assert_eq!(found(220 + REACH), Some(220));
        assert_eq!(found(220 + REACH + 1), None);
        assert_eq!(found(511), None);
        assert_eq!(loop_at(&code, 0), None);
    }
}
