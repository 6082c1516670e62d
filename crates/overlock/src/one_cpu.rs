//! A platform in virtual time, for tests of what a CPU does while no other does anything.

/// A platform of one CPU, on which a pause takes 10 ns. The static is the time; it is followed by
/// what happens while the CPU halts, which ends at once, and perhaps by its releases.
macro_rules! one_cpu {
    ($name:ident, $now:ident, $halts:expr) => {
        crate::one_cpu::one_cpu!($name, $now, $halts, crate::platform::ReadModifyWrite);
    };
    ($name:ident, $now:ident, $halts:expr, $release:ty) => {
        #[derive(Debug)]
        struct $name;

        static $now: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(0);

        // SAFETY: the cells are those of `core` (P0). The only CPU never waits for long, is never
        // kicked and has no interrupts (P1 to P6, P10, P11), has the only slot and the table for
        // itself (P7, P8), and its clock never goes back (P9).
        unsafe impl crate::platform::Platform for $name {
            type Byte = core::sync::atomic::AtomicU8;
            type Half = core::sync::atomic::AtomicU16;
            type Word = core::sync::atomic::AtomicU32;
            type Release = $release;

            const WAITS: bool = true;

            fn relax() {
                $now.fetch_add(10, core::sync::atomic::Ordering::Relaxed);
            }
            fn cpu() -> Option<crate::platform::Cpu> {
                crate::platform::Cpu::new(0)
            }
            fn slot(_: crate::platform::Cpu) -> &'static crate::platform::Slot<Self::Word> {
                static SLOT: crate::platform::Slot<core::sync::atomic::AtomicU32> =
                    crate::platform::Slot::new();
                &SLOT
            }
            fn in_vain() -> Option<&'static Self::Word> {
                Some(Self::slot(Self::cpu()?).in_vain())
            }
            fn waiters() -> &'static [crate::platform::Bucket<Self::Word>] {
                static BUCKETS: [crate::platform::Bucket<core::sync::atomic::AtomicU32>; 2] =
                    [const { crate::platform::Bucket::new() }; 2];
                &BUCKETS
            }
            fn wait(_: &Self::Word, _: u32, _: Option<u64>) {
                $halts();
            }
            fn kick(_: *const Self::Word, _: crate::platform::Cpu) {}
            fn now_ns() -> u64 {
                $now.load(core::sync::atomic::Ordering::Relaxed)
            }
        }
    };
}
pub(crate) use one_cpu;
