//! What a timer must remember while its guest does not run, and its form in a file.
//!
//! ```text
//!  byte   0        1       2        3       4 .. 7     8 .. 15
//!       version  width   status   enable     zero    elapsed (ns, little-endian)
//! ```

use core::fmt;

use super::{Width, start_of, ticks};
use crate::host::Nanos;

/// Everything that a timer must remember while its guest does not run. To continue, pass it to
/// [`PmTimer::restore`](super::PmTimer::restore).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct State {
    /// How many bits the guest sees.
    pub width: Width,
    /// The guest's time.
    pub elapsed: Nanos,
    /// `TMR_STS`.
    pub status: bool,
    /// `TMR_EN`.
    pub enable: bool,
}

/// Why bytes are not a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StateError {
    /// They have this version, which this crate does not know.
    Version(u8),
    /// They hold values that no timer can have.
    Garbled,
}

impl fmt::Display for StateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => {
                let known = State::VERSION;
                write!(f, "the PM timer's state is of version {version}; {known} is known here")
            }
            Self::Garbled => write!(f, "the PM timer's state holds values that no timer can have"),
        }
    }
}

impl core::error::Error for StateError {}

impl State {
    /// The version of [`to_bytes`](Self::to_bytes). It changes with the format, not with the crate.
    pub const VERSION: u8 = 1;

    /// The state of a timer that has not counted yet.
    #[must_use]
    pub const fn new(width: Width) -> Self {
        Self { width, elapsed: Nanos::ZERO, status: false, enable: false }
    }

    /// The state as bytes, the same on every machine.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 16] {
        let width = match self.width {
            Width::Bits24 => 24,
            Width::Bits32 => 32,
        };
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&[Self::VERSION, width, self.status.into(), self.enable.into()]);
        bytes[8..].copy_from_slice(&self.elapsed.0.to_le_bytes());
        bytes
    }

    /// The state that `bytes` encode.
    ///
    /// # Errors
    /// If the bytes have another version, or describe no possible timer.
    pub fn from_bytes(bytes: &[u8; 16]) -> Result<Self, StateError> {
        let [version, width, status, enable, zero @ .., _, _, _, _, _, _, _, _] = bytes;
        if *version != Self::VERSION {
            return Err(StateError::Version(*version));
        }
        let width = match width {
            24 => Width::Bits24,
            32 => Width::Bits32,
            _ => return Err(StateError::Garbled),
        };
        if zero.iter().any(|&byte| byte != 0) || (status | enable) > 1 {
            return Err(StateError::Garbled);
        }
        let elapsed = u64::from_le_bytes(core::array::from_fn(|at| bytes[8 + at]));
        // Near the end of time the count's highest bit would never change again.
        let next = (ticks(Nanos(elapsed)) >> width.msb()) + 1;
        if start_of(next << width.msb()).is_none() {
            return Err(StateError::Garbled);
        }
        let (status, enable) = (*status != 0, *enable != 0);
        Ok(Self { width, elapsed: Nanos(elapsed), status, enable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_its_bytes_and_nothing_else_is_one() {
        let state = State {
            elapsed: Nanos(0x0123_4567_89ab_cdef),
            status: true,
            ..State::new(Width::Bits32)
        };
        let bytes = state.to_bytes();
        assert_eq!(State::from_bytes(&bytes), Ok(state));
        for width in [Width::Bits24, Width::Bits32] {
            let dead = State { elapsed: Nanos::MAX, ..State::new(width) };
            assert_eq!(State::from_bytes(&dead.to_bytes()), Err(StateError::Garbled));
        }
        for at in 0..8 {
            let mut wrong = bytes;
            wrong[at] = 7;
            let error = if at == 0 { StateError::Version(7) } else { StateError::Garbled };
            assert_eq!(State::from_bytes(&wrong), Err(error), "byte {at}");
        }
    }
}
