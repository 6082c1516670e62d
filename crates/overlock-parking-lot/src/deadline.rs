//! Deadlines on the clock of the locks.

use std::time::{Duration, Instant};

use overlock::lock_api::Nanos;
use overlock::platform::{Platform, Threads};

/// The time on the locks' clock at which `timeout` has passed from now.
pub(crate) fn after(timeout: Duration) -> Nanos {
    Nanos(Threads::after(timeout))
}

/// The time on the locks' clock that is no earlier than `at`.
///
/// An [`Instant`] does not tell its number, so it is converted by what is left of it. The locks'
/// clock is read last, so what passes between the two readings makes the deadline later.
pub(crate) fn at(at: Instant) -> Nanos {
    after(at.saturating_duration_since(Instant::now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_no_earlier_than_its_instant() {
        for _ in 0..1000 {
            let instant = Instant::now() + Duration::from_micros(50);
            let deadline = at(instant);
            while Threads::now_ns() < deadline.0 {}
            assert!(Instant::now() >= instant);
        }
    }

    #[test]
    fn the_longest_timeout_is_no_deadline_in_the_past() {
        assert_eq!(after(Duration::MAX), Nanos(u64::MAX));
    }
}
