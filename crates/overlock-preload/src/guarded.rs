//! The outermost frame of a wait, by which the wait is found again, and which notices when it is
//! unwound: its personality is in unwind.c.

use libc::c_int;

use crate::mutex::Mutex;

/// Defines [`overlock_guarded`] by the given code.
macro_rules! guarded {
    ($($code:literal),*) => {
        core::arch::global_asm!(
            ".pushsection .text.overlock_guarded, \"ax\", @progbits",
            ".hidden overlock_guarded",
            ".globl overlock_guarded",
            ".type overlock_guarded, @function",
            "overlock_guarded:",
            ".cfi_startproc",
            // The address of the personality, relative and by way of a pointer.
            ".cfi_personality 0x9b, overlock_personality_address",
            $($code,)*
            "ret",
            ".cfi_endproc",
            ".size overlock_guarded, . - overlock_guarded",
            ".popsection",
            ".pushsection .data.rel.ro.overlock_personality_address, \"aw\", @progbits",
            ".p2align 3",
            "overlock_personality_address:",
            ".quad overlock_personality",
            ".popsection"
        );
    };
}

#[cfg(target_arch = "x86_64")]
guarded!("sub rsp, 8", ".cfi_def_cfa_offset 16", "call rdx", "add rsp, 8", ".cfi_def_cfa_offset 8");

#[cfg(target_arch = "aarch64")]
guarded!(
    "stp x29, x30, [sp, -16]!",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset 29, -16",
    ".cfi_offset 30, -8",
    "blr x2",
    "ldp x29, x30, [sp], 16",
    ".cfi_def_cfa_offset 0",
    ".cfi_restore 29",
    ".cfi_restore 30"
);

unsafe extern "C-unwind" {
    /// Calls `wait`, which may wait for the mutex.
    pub(crate) fn overlock_guarded(
        mutex: &Mutex,
        deadline_ns: u64,
        wait: extern "C-unwind" fn(&Mutex, u64) -> c_int,
    ) -> c_int;
}
