//! What a kernel writes to use Overlock's locks: one platform, and a lock that keeps handlers out.
//!
//! The functions of [`arch`] belong to the kernel; here they are the minimum that compiles on
//! x86-64. `docs/kernels.md` explains each line, and `kernels/boot` has three platforms
//! that boot.

#![no_std]

pub mod arch;
pub mod platform;

use overlock::refresh::Refresh;
use overlock::{Hybrid, Mutex, RwLock};
use platform::Cores;

/// The kernel's mutex: 4 bytes beside the data.
pub type SpinMutex<T> = Mutex<T, Hybrid<Cores>>;

/// Data that tasks share.
pub static RUN_QUEUE: SpinMutex<u32> = SpinMutex::new(0);

/// Data that interrupt handlers use too: its lock is only ever held with interrupts off.
pub static TIMERS: SpinMutex<u32> = SpinMutex::new(0);

/// Uses `data` with interrupts off, so that no handler of this CPU can ask for it meanwhile.
pub fn with_interrupts_off<T, R>(data: &SpinMutex<T>, work: impl FnOnce(&mut T) -> R) -> R {
    let before = arch::interrupts_off();
    let result = work(&mut data.lock());
    arch::restore(before);
    result
}

/// An example of a task's work.
pub fn schedule() {
    *RUN_QUEUE.lock() += 1;
    with_interrupts_off(&TIMERS, |timers| *timers += 1);
}

/// What the handler of a non-maskable interrupt may do: try the lock (F22).
pub fn in_nmi() -> bool {
    RUN_QUEUE.try_lock().is_some()
}

/// A table that every packet reads and few write: its readers share the lock.
pub static ROUTES: RwLock<[u32; 4], Cores> = RwLock::new([0; 4]);

/// Looks a route up, and replaces it if it is not there. A reader that may have to write asks for
/// the right to upgrade, which one CPU at a time has.
pub fn route(network: usize, gateway: u32) -> u32 {
    if let Some(known) = ROUTES.read().get(network).copied().filter(|known| *known != 0) {
        return known;
    }
    let routes = ROUTES.upgradable_read();
    if routes[network] == 0 {
        overlock::RwLockUpgradableGuard::upgrade(routes)[network] = gateway;
    }
    gateway
}

/// The time of day, which is costly to read from the host.
pub static WALL_CLOCK: Refresh<u64, Cores> = Refresh::zeroed();

/// Returns the time: one CPU reads the host's clock, and those that come meanwhile share what it
/// reads.
pub fn wall_clock() -> u64 {
    WALL_CLOCK.join(arch::read_hosts_clock)
}

/// What this kernel's CPUs are under the locks of crates that use `spin`: its dependency on these
/// is `spin = { package = "overlock-spin" }`.
mod spins {
    spin::set_platform!(crate::platform::Cores);

    /// As such a crate has it.
    pub static HEAP: spin::Mutex<u32> = spin::Mutex::new(0);
}

/// Takes a lock of `spin`'s shape.
pub fn allocate() {
    *spins::HEAP.lock() += 1;
}
