// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a kernel says what its CPUs are: [`set_platform!`] defines the functions that `linked.rs`
//! declares.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use overlock::platform::Platform;

/// A platform that [`set_platform!`](crate::set_platform) takes: it has the cells of this machine,
/// and kicks a CPU by its number.
pub trait Kernels: Platform<Byte = AtomicU8, Half = AtomicU16, Word = AtomicU32> {
    /// Fails to compile where a kick goes to an address.
    const CHECKED: () = assert!(!Self::KICKS_BY_ADDRESS, "this platform kicks by address");
}

impl<P: Platform<Byte = AtomicU8, Half = AtomicU16, Word = AtomicU32>> Kernels for P {}

/// Says what the CPUs are under all locks of this crate: a type that implements
/// [`Platform`](crate::platform::Platform). Once in a program; without it, the program does not
/// link. (Not with the feature `threads`, which has its own.)
///
/// ```
/// # #[cfg(not(feature = "threads"))]
/// overlock_spin::set_platform!(overlock_spin::platform::Native);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! set_platform {
    ($platform:ty) => {
        const _: () = {
            use core::option::Option;
            use core::sync::atomic::AtomicU32;
            use $crate::platform::{Bucket, Costs, Cpu, Platform, Slot};

            const _: () = <$platform as $crate::Kernels>::CHECKED;

            #[unsafe(no_mangle)]
            fn _overlock_spin_costs() -> Costs {
                <$platform as Platform>::costs()
            }
            #[unsafe(no_mangle)]
            fn _overlock_spin_waits() -> bool {
                <$platform as Platform>::WAITS && <$platform as Platform>::waits()
            }
            #[unsafe(no_mangle)]
            fn _overlock_spin_relax() {
                <$platform as Platform>::relax()
            }
            #[unsafe(no_mangle)]
            fn _overlock_spin_nap(ns: u64) {
                <$platform as Platform>::nap(ns)
            }
            #[unsafe(no_mangle)]
            fn _overlock_spin_cpu() -> Option<Cpu> {
                <$platform as Platform>::cpu()
            }
            #[unsafe(no_mangle)]
            fn _overlock_spin_slot(cpu: Cpu) -> &'static Slot<AtomicU32> {
                <$platform as Platform>::slot(cpu)
            }
            #[unsafe(no_mangle)]
            fn _overlock_spin_waiters() -> &'static [Bucket<AtomicU32>] {
                <$platform as Platform>::waiters()
            }
            #[unsafe(no_mangle)]
            fn _overlock_spin_wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
                <$platform as Platform>::wait(word, expected, deadline_ns)
            }
            #[unsafe(no_mangle)]
            fn _overlock_spin_kick(word: *const AtomicU32, cpu: Cpu) {
                <$platform as Platform>::kick(word, cpu)
            }
            #[unsafe(no_mangle)]
            fn _overlock_spin_now_ns() -> u64 {
                <$platform as Platform>::now_ns()
            }
        };
    };
}
