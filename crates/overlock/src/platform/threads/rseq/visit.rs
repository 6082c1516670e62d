// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cutting sequences off where `membarrier` is forbidden: the thread visits every processor.
//!
//! ```text
//!   reader, on processor n                 writer, on any
//!   S0  sequence = this
//!   S1  BIASED?                            A   word: BIASED -> FOLDING   (locked)
//!   S2  place = lock   (commit)            B   moves to processor 0, 1, ...
//!                                              ... to n: the reader is switched out
//!                                          C   looks at the place
//! ```
//!
//! A thread can run on a processor only when the kernel has taken the thread that ran there off it.
//! That cuts a sequence off as any preemption does, and a switch of threads is a full fence. So a
//! sequence that had begun before the visit has stored by then, on the processor on which C looks
//! afterwards, or never stores. One that begins on that processor later comes after the switch, and
//! sees A. A reader that avoids a visit by moving to a processor that was visited before has been
//! switched out itself.
//!
//! Hence readers inside are seen: each has made its note, and C finds it, or it has been cut off,
//! and goes to the word.
//!
//! The kernel says how many processors there can be, and refuses those that are off, or that the
//! group of the process may not use (cpusets). Threads of the process in another group than this
//! thread's, on processors that this one may not use, are not visited.

use super::super::syscall::syscall;

/// Processors that a mask has bits for. Linux has 8,192 at the most.
const MOST: usize = 8192;
const BITS: usize = usize::BITS as usize;
type Mask = [usize; MOST / BITS];

/// Cuts off the sequences of the other threads of this process. Returns false if the system forbids
/// that, too. It takes some scheduling latencies.
#[cold]
pub(super) fn visit_all() -> bool {
    let mut before: Mask = [0; MOST / BITS];
    // SAFETY: the kernel writes at most so many bytes. 0 is this thread.
    let bytes = unsafe {
        let args = [0, size_of::<Mask>(), (&raw mut before).expose_provenance(), 0, 0, 0];
        syscall(libc::SYS_sched_getaffinity, args)
    };
    let Ok(bytes) = usize::try_from(bytes) else { return false };
    let move_to = |mask: &Mask| {
        // SAFETY: the kernel reads that many bytes, which are there.
        unsafe {
            let args = [0, bytes, (&raw const *mask).expose_provenance(), 0, 0, 0];
            syscall(libc::SYS_sched_setaffinity, args)
        }
    };
    let refused = -libc::EINVAL as isize;
    let visits = (0..bytes * 8).map(|cpu| {
        let mut mask: Mask = [0; MOST / BITS];
        mask[cpu / BITS] = 1 << (cpu % BITS);
        move_to(&mask)
    });
    let mut visited = 0;
    let mut is_allowed = true;
    for result in visits {
        visited += u32::from(result == 0);
        is_allowed &= result == 0 || result == refused;
    }
    move_to(&before);
    is_allowed && visited > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_has_visited_all_processors_may_run_where_it_might_before() {
        let allowed = || {
            let mut mask: Mask = [0; MOST / BITS];
            let args = [0, size_of::<Mask>(), (&raw mut mask).expose_provenance(), 0, 0, 0];
            // SAFETY: as in `visit_all`.
            assert!(unsafe { syscall(libc::SYS_sched_getaffinity, args) } > 0);
            mask
        };
        let before = allowed();
        assert!(visit_all());
        assert_eq!(allowed(), before);
    }
}
