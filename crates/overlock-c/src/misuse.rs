//! Errors of a program that these locks let pass.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use overlock::platform::report::Reports;

static UNLOCKS_OF_FREE: AtomicU64 = AtomicU64::new(0);

/// Records that the program unlocked a lock that no thread held; the lock stays free. Counts it,
/// and reports it once, or with `OVERLOCK_CHECK=1` each time with the place. `errno` is preserved.
///
/// The header's inline code calls this, so the address that it returns to is in the program.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn ol_unlock_of_free() {
    core::arch::naked_asm!("mov rdi, qword ptr [rsp]", "jmp {notice}", notice = sym notice)
}

/// As on x86-64.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub extern "C" fn ol_unlock_of_free() {
    core::arch::naked_asm!("mov x0, x30", "b {notice}", notice = sym notice)
}

/// As on x86-64, but it does not know the place.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[unsafe(no_mangle)]
pub extern "C" fn ol_unlock_of_free() {
    notice(0);
}

extern "C" fn notice(back_to: usize) {
    static REPORTS: Reports = Reports::new();
    UNLOCKS_OF_FREE.fetch_add(1, Relaxed);
    // The call lies before the address to which it returns.
    REPORTS.report(b"unlocked a lock that no thread held", || back_to.saturating_sub(1));
}

/// Returns how often that has happened.
pub(crate) fn unlocks_of_free() -> u64 {
    UNLOCKS_OF_FREE.load(Relaxed)
}
