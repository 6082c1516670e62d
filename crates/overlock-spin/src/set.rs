//! How a kernel says what its CPUs are: [`set_platform!`] defines the table that `linked.rs`
//! declares.

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32};

use overlock::platform::{Bucket, Costs, Cpu, Platform, Slot};

/// A platform that [`set_platform!`](crate::set_platform) takes: it has the cells of this machine,
/// and kicks a CPU by its number.
pub trait Kernels: Platform<Byte = AtomicU8, Half = AtomicU16, Word = AtomicU32> {
    /// Fails to compile where a kick goes to an address.
    const CHECKED: () = assert!(!Self::KICKS_BY_ADDRESS, "this platform kicks by address");
}

impl<P: Platform<Byte = AtomicU8, Half = AtomicU16, Word = AtomicU32>> Kernels for P {}

/// Says what the CPUs are under all locks of this crate: a type that implements
/// [`Platform`](crate::platform::Platform). Once in a program; without it, the linker misses
/// `overlock_spin_0_1_needs_set_platform_or_the_feature_threads`. (With the feature
/// `threads`, which brings a platform, it is not used.)
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
            const _: () = <$platform as $crate::Kernels>::CHECKED;

            #[unsafe(no_mangle)]
            #[allow(non_upper_case_globals)]
            static overlock_spin_0_1_needs_set_platform_or_the_feature_threads: $crate::Table =
                $crate::Table::of::<$platform>();
        };
    };
}

/// The functions of the platform that a program has set.
#[doc(hidden)]
#[derive(Debug)]
#[cfg_attr(feature = "threads", allow(dead_code, reason = "threads are the platform"))]
pub struct Table {
    pub(crate) costs: fn() -> Costs,
    pub(crate) waits: fn() -> bool,
    pub(crate) relax: fn(),
    pub(crate) nap: fn(u64),
    pub(crate) cpu: fn() -> Option<Cpu>,
    pub(crate) slot: fn(Cpu) -> &'static Slot<AtomicU32>,
    pub(crate) waiters: fn() -> &'static [Bucket<AtomicU32>],
    pub(crate) wait: fn(&AtomicU32, u32, Option<u64>),
    pub(crate) kick: fn(*const AtomicU32, Cpu),
    pub(crate) now_ns: fn() -> u64,
}

impl Table {
    /// Those of `P`.
    pub const fn of<P: Kernels>() -> Self {
        Self {
            costs: P::costs,
            waits: || P::WAITS && P::waits(),
            relax: P::relax,
            nap: P::nap,
            cpu: P::cpu,
            slot: P::slot,
            waiters: P::waiters,
            wait: P::wait,
            kick: P::kick,
            now_ns: P::now_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    /// Two versions of this crate are two sets of locks, and each asks for its platform.
    #[test]
    fn the_name_of_the_table_has_the_version() {
        let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
        let name = std::format!("static overlock_spin_{major}_{minor}_needs_");
        assert!(include_str!("set.rs").contains(&name), "{name}");
    }
}
