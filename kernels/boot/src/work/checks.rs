//! Reports of checks.

use core::fmt::Display;

use crate::console::{Plain, SILENCE_NS};
use crate::machine::clock;
use crate::say;

/// Reports the result of the check `what`, and returns whether it is fine.
pub(super) fn tell(what: impl Display, fine: bool, found: impl Display) -> bool {
    let (what, found) = (Plain(what), Plain(found));
    say!("{{\"kind\":\"check\",\"what\":\"{what}\",\"fine\":{fine},\"found\":\"{found}\"}}");
    fine
}

/// Reports that a check begins, so that the last line of a kernel that hangs says where.
pub(super) fn begin(what: impl Display) {
    say!("{{\"kind\":\"begin\",\"what\":\"{}\"}}", Plain(what));
}

/// Reports from time to time that a long check is under way. One CPU's, which says it for all.
pub(super) struct Alive {
    speak_ns: u64,
}

impl Alive {
    pub(super) fn begin() -> Self {
        Self { speak_ns: clock::now_ns() + SILENCE_NS }
    }

    /// Reports how far the check is, if it is time.
    pub(super) fn at(&mut self, ops: u64) {
        let now = clock::now_ns();
        if now >= self.speak_ns {
            self.speak_ns = now + SILENCE_NS;
            say!("{{\"kind\":\"alive\",\"ops\":{ops}}}");
        }
    }
}

/// The steps of a long check on CPU `cpu`; the first CPU reports how far it is.
pub(super) fn steps(cpu: usize, steps: u64) -> impl Iterator<Item = u64> {
    let mut alive = (cpu == 0).then(Alive::begin);
    (0..steps).inspect(move |step| alive.iter_mut().for_each(|alive| alive.at(*step)))
}
