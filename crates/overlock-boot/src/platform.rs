// SPDX-License-Identifier: MIT OR Apache-2.0
//! The platforms, one world a file, each answering the clauses of the contract one by one.
//!
//! Beside each stands its native twin, on which the same locks only ever spin: what a kernel
//! without paravirtual locks has.

mod bare;
mod kvm;
mod xen;

pub use bare::{Bare, NativeBare};
pub use kvm::{Features, Kvm, Mode, NativeKvm, decide};
pub use xen::{NativeXen, Xen};

/// Buckets of a table of halted CPUs, 16 entries each: four waits for each of 32 CPUs, four times
/// over. 2 KiB.
pub const BUCKETS: usize = 32;

/// Defines the platform `$native` that has the CPUs and the clock of `$aware`, and never waits.
macro_rules! native {
    ($native:ident of $aware:ident) => {
        #[doc = concat!("[`", stringify!($aware), "`], on which locks only ever spin.")]
        #[derive(Clone, Copy, Debug)]
        pub struct $native;

        $crate::platform::tables!($native);

        // SAFETY: P1 to P4 and P10: it never waits. P5 to P9: as its twin, with tables of its own.
        unsafe impl overlock::Platform for $native {
            type Byte = core::sync::atomic::AtomicU8;
            type Half = core::sync::atomic::AtomicU16;
            type Word = core::sync::atomic::AtomicU32;
            type Release = overlock::platform::ReadModifyWrite;
            const WAITS: bool = false;

            #[inline(always)]
            fn fence(order: core::sync::atomic::Ordering) {
                core::sync::atomic::fence(order);
            }
            #[inline(always)]
            fn relax() {
                core::hint::spin_loop();
            }
            #[inline]
            fn cpu() -> Option<overlock::Cpu> {
                <$aware as overlock::Platform>::cpu()
            }
            fn slot(cpu: overlock::Cpu) -> &'static overlock::Slot<Self> {
                &$native::SLOTS[cpu.index()]
            }
            fn waiters() -> &'static [overlock::Bucket<Self>] {
                $native::BUCKETS
            }
            fn wait(_word: &Self::Word, _expected: u32, _deadline_ns: Option<u64>) {}
            fn kick(_word: *const Self::Word, _cpu: overlock::Cpu) {}
            fn now_ns() -> u64 {
                <$aware as overlock::Platform>::now_ns()
            }
        }
    };
}

/// Defines the slots and the table of halted CPUs of `$platform`.
macro_rules! tables {
    ($platform:ident) => {
        impl $platform {
            const SLOTS: &'static [overlock::Slot<Self>; $crate::cpus::MAX] = {
                static SLOTS: [overlock::Slot<$platform>; $crate::cpus::MAX] =
                    [const { overlock::Slot::new() }; $crate::cpus::MAX];
                &SLOTS
            };
            const BUCKETS: &'static [overlock::Bucket<Self>] = {
                static BUCKETS: [overlock::Bucket<$platform>; $crate::platform::BUCKETS] =
                    [const { overlock::Bucket::new() }; $crate::platform::BUCKETS];
                &BUCKETS
            };
        }
    };
}

use {native, tables};
