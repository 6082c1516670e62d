//! The two cells of a ticket lock.
//!
//! ```text
//!            head                          tail
//!  15                1   0       15                1   0
//! +-------------------+---+     +-------------------+---+
//! |   ticket served   | S |     |    next ticket    | 0 |
//! +-------------------+---+     +-------------------+---+
//! ```
//!
//! Tickets count by two, so that bit 0 of `head` is free for `S`: a waiter has halted, or is about
//! to.

/// The head of a ticket lock, zero-extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head(u32);
bits!(Head);

const HALTED: u32 = 1;
/// The step from one ticket to the next.
pub(crate) const ONE: u32 = 2;

impl Head {
    #[inline(always)]
    pub(crate) const fn served(self) -> u32 {
        self.0 & !HALTED
    }

    /// `(h,s) -> (h+2,s)`: the head after the release.
    #[inline(always)]
    pub(crate) const fn released(self) -> u32 {
        self.0.wrapping_add(ONE)
    }

    /// Whether the release has to look for a halted waiter.
    #[inline(always)]
    pub(crate) const fn has_halted(self) -> bool {
        self.0 & HALTED != 0
    }
}

/// The ticket after `ticket`, once truncated to the width of the cells.
#[inline(always)]
pub(crate) const fn after(ticket: u32) -> u32 {
    ticket.wrapping_add(ONE)
}

/// How many tickets lie between two cells, given their difference truncated to their width.
#[inline(always)]
pub(crate) const fn count(difference: u32) -> u32 {
    difference / ONE
}

/// What individual read-modify-writes do to the cells.
pub(crate) mod rmw {
    use super::{HALTED, ONE};

    /// `fetch_add` to the tail: draws a ticket.
    pub(crate) const DRAW: u32 = ONE;
    /// `fetch_add` to the head: the release.
    pub(crate) const RELEASE: u32 = ONE;
    /// `fetch_or` to the head: a waiter is about to halt.
    pub(crate) const SET_HALTED: u32 = HALTED;
    /// `fetch_and` to the head: no waiter has halted.
    pub(crate) const CLEAR_HALTED: u32 = !HALTED;
    /// The bit that a release finds in the head if it has to look for a halted waiter.
    pub(crate) const SLOW: u32 = HALTED;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_no_part_of_the_ticket() {
        for ticket in [0, 2, 126, 254, 0xfffe] {
            let (quiet, slow) = (Head::new(ticket), Head::new(ticket | rmw::SET_HALTED));
            assert_eq!((quiet.served(), slow.served()), (ticket, ticket));
            assert!(!quiet.has_halted() && slow.has_halted());
            assert_eq!(slow.released(), quiet.released() | rmw::SLOW);
            assert_eq!(slow.0 & rmw::CLEAR_HALTED, quiet.0);
            assert_eq!(count(after(ticket) - ticket), 1);
        }
        assert_eq!(after(0xfffe) as u16, 0);
        assert_eq!(count(u32::from(0_u16.wrapping_sub(0xfffe))), 1);
    }
}
