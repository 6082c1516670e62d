// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cells of locks on a vCPU: real memory, accessed in the order that the lock asks for, or in a
//! stronger one.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use overlock::atomic::ConstAtomic;
use overlock_bench::Sequential;

pub trait Cells: Copy + Debug + Send + Sync + 'static {
    /// 8 bits.
    type Byte: ConstAtomic<u8>;
    /// 16 bits.
    type Half: ConstAtomic<u16>;
    /// 32 bits.
    type Word: ConstAtomic<u32>;

    const FULL: bool;

    /// Returns the memory of a word.
    fn memory(word: &Self::Word) -> &AtomicU32;
}

#[derive(Clone, Copy, Debug)]
pub struct Real;

impl Cells for Real {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;

    const FULL: bool = false;

    #[inline(always)]
    fn memory(word: &AtomicU32) -> &AtomicU32 {
        word
    }
}

/// Read-modify-writes are sequentially consistent: S3's comparator.
#[derive(Clone, Copy, Debug)]
pub struct Full;

impl Cells for Full {
    type Byte = Sequential<AtomicU8>;
    type Half = Sequential<AtomicU16>;
    type Word = Sequential<AtomicU32>;

    const FULL: bool = true;

    #[inline(always)]
    fn memory(word: &Self::Word) -> &AtomicU32 {
        &word.0
    }
}
