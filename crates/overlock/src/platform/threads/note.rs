// SPDX-License-Identifier: MIT OR Apache-2.0
//! The note of a thread: for which lock it has had to wait of late.
//!
//! One access must do, because each uncontended release looks whether there is a note of its lock
//! ([`rseq`](super::rseq)). So the note is thread-local memory at a constant offset from the thread
//! pointer (*initial exec*). Neither the language nor `libc` offers a library without `std` such
//! memory, but the assembler does.
//!
//! The note takes no part in any lock's protocol. It may be lost, and may be of another lock that
//! has the same name.

pub(super) use by_thread::{arm, count, is_of, set};

/// How many releases a note is good for. A locked access costs an uncontended release 2 to 3 ns
/// more, and a sequence costs a contended one another transfer of the line, of 20 to 170 ns. So if
/// the other CPUs have gone, the note costs about as much as one short transfer. (With 1, 8 and 64,
/// nine points of parking_lot's benchmark had 1.07, 1.08 and 1.09 times the throughput. With 4, 16
/// and 64, empty critical sections with pauses of 64 ns on average had 0.98, 0.92 and 0.90 of it,
/// when each wait still took a note. docs/results.md, 2026-11-26.)
const RELEASES: u32 = 8;

#[cfg(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    not(any(miri, overlock_portable, overlock_no_notes))
))]
mod by_thread {
    use core::arch::asm;
    use core::sync::atomic::{AtomicIsize, AtomicU32, Ordering::Relaxed};

    use super::RELEASES;

    /// The offset of a thread's note from its thread pointer; zero until it is known. At offset
    /// zero the C library keeps a pointer, which may be read.
    static OFFSET: AtomicIsize = AtomicIsize::new(0);

    /// Makes [`OFFSET`] known. Until then no note is kept.
    #[expect(named_asm_labels, reason = "a thread-local symbol can't be a local label")]
    #[inline(never)]
    pub(in super::super) fn arm() {
        let offset;
        // SAFETY: loads an entry that the linker makes and the loader fills. If the compiler copies
        // this code, the condition keeps the first definition.
        unsafe {
            asm!(
                ".ifndef overlock_note",
                ".pushsection .tbss.overlock_note, \"awT\", @nobits",
                ".balign 8",
                "overlock_note: .zero 8",
                ".popsection",
                ".endif",
                "mov {offset}, qword ptr [rip + overlock_note@GOTTPOFF]",
                offset = out(reg) offset,
                options(nostack, pure, readonly, preserves_flags),
            );
        }
        OFFSET.store(offset, Relaxed);
    }

    /// The lower half of a lock's address, which names it.
    #[inline(always)]
    fn name(cell: &AtomicU32) -> u32 {
        core::ptr::from_ref(cell).addr() as u32
    }

    /// Notes that this thread has to wait for `cell`.
    #[inline]
    pub(in super::super) fn set(cell: &AtomicU32) {
        write(name(cell), RELEASES);
    }

    /// Whether the note is of `cell`.
    #[inline(always)]
    pub(in super::super) fn is_of(cell: &AtomicU32) -> bool {
        // SAFETY: `OFFSET` is that of this thread's note, or zero; both may be read.
        unsafe {
            asm!(
                "cmp dword ptr fs:[{offset}], {name:e}",
                "je {is_of}",
                offset = in(reg) OFFSET.load(Relaxed),
                name = in(reg) name(cell),
                is_of = label { return true },
                options(nostack, readonly),
            );
        }
        false
    }

    /// Counts a release of the lock that the note is of. (If a signal handler takes a note in
    /// between, that note is lost.)
    pub(in super::super) fn count() {
        let note: u64;
        // SAFETY: as in `is_of`.
        unsafe {
            asm!(
                "mov {note}, qword ptr fs:[{offset}]",
                offset = in(reg) OFFSET.load(Relaxed),
                note = out(reg) note,
                options(nostack, readonly, preserves_flags),
            );
        }
        match (note >> 32) as u32 {
            left @ 2.. => write(note as u32, left - 1),
            _ => write(0, 0),
        }
    }

    #[inline]
    fn write(name: u32, left: u32) {
        let offset = OFFSET.load(Relaxed);
        if offset == 0 {
            return;
        }
        // SAFETY: `offset` is that of this thread's note.
        unsafe {
            asm!(
                "mov qword ptr fs:[{offset}], {note}",
                offset = in(reg) offset,
                note = in(reg) u64::from(left) << 32 | u64::from(name),
                options(nostack, preserves_flags),
            );
        }
    }

    #[cfg(test)]
    mod tests {
        extern crate std;

        use std::thread;

        use super::*;
        use crate::platform::Threads;

        static LOCKS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

        fn noted() -> [bool; 2] {
            [0, 1].map(|lock| is_of(&LOCKS[lock]))
        }

        #[test]
        fn a_note_is_of_one_lock_and_good_for_some_releases() {
            let kept = Threads::has_restartable_sequences();
            assert_eq!(noted(), [false, false]);
            set(&LOCKS[0]);
            assert_eq!(noted(), [kept, false]);
            set(&LOCKS[1]);
            for _ in 0..RELEASES {
                assert_eq!(noted(), [false, kept]);
                count();
            }
            assert_eq!(noted(), [false, false]);
            count();
            assert_eq!(noted(), [false, false], "there is nothing to count");
        }

        #[test]
        fn each_thread_has_its_own_note() {
            let kept = Threads::has_restartable_sequences();
            set(&LOCKS[0]);
            let other = thread::spawn(|| {
                let before = noted();
                set(&LOCKS[1]);
                (before, noted())
            });
            assert_eq!(other.join().unwrap(), ([false, false], [false, kept]));
            assert_eq!(noted(), [kept, false]);
        }
    }
}

#[cfg(not(all(
    target_arch = "x86_64",
    target_pointer_width = "64",
    target_os = "linux",
    target_env = "gnu",
    not(any(miri, overlock_portable, overlock_no_notes))
)))]
mod by_thread {
    use core::sync::atomic::AtomicU32;

    pub(in super::super) fn arm() {}

    pub(in super::super) fn set(_cell: &AtomicU32) {}

    #[inline(always)]
    pub(in super::super) fn is_of(_cell: &AtomicU32) -> bool {
        false
    }

    pub(in super::super) fn count() {}
}
