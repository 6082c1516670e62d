//! How wide a ticket is, and so how many waiters can hold one.

use crate::atomic::Atomic;
use crate::platform::{CheapRelease, Platform};
use crate::raw::word::ticket::rmw;

/// How wide a ticket is.
pub trait Width: sealed::Sealed + Send + Sync + 'static {
    /// The integer that holds a ticket.
    type Int: Copy;
    /// The cell of a platform that holds such an integer.
    type Cell<P: Platform>: Atomic<Self::Int>;
    /// How many different tickets there are.
    const TICKETS: usize;
    /// Keeps the low bits of `bits`.
    fn cut(bits: u32) -> Self::Int;
    /// The integer, zero-extended.
    fn bits(int: Self::Int) -> u32;
    /// Whether [`advance`](Self::advance) ever stores, on a platform with a cheap release.
    const ADVANCES: bool = false;
    /// `(h,0) -> (h+2,0)`, by a cheap release: see [`CheapRelease::add_half`].
    #[inline(always)]
    fn advance<P: Platform>(_head: &Self::Cell<P>) -> bool {
        false
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Wide {}
    impl Sealed for super::Narrow {}
}

/// 16-bit tickets, a lock of 4 bytes: every CPU with a number draws one at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wide;

/// 8-bit tickets, a lock of 2 bytes. At most 64 are out at a time; further waiters wait for one, in
/// no order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Narrow;

impl Width for Wide {
    const TICKETS: usize = 32_768;
    type Int = u16;
    type Cell<P: Platform> = P::Half;
    const ADVANCES: bool = true;
    #[inline(always)]
    fn cut(bits: u32) -> u16 {
        bits as u16
    }
    #[inline(always)]
    fn bits(int: u16) -> u32 {
        u32::from(int)
    }
    #[inline(always)]
    fn advance<P: Platform>(head: &P::Half) -> bool {
        P::Release::add_half(head, rmw::RELEASE as u16, rmw::SLOW as u16)
    }
}

impl Width for Narrow {
    const TICKETS: usize = 128;
    type Int = u8;
    type Cell<P: Platform> = P::Byte;
    #[inline(always)]
    fn cut(bits: u32) -> u8 {
        bits as u8
    }
    #[inline(always)]
    fn bits(int: u8) -> u32 {
        u32::from(int)
    }
}
