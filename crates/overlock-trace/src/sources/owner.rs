// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking a lock's own memory for its holder: the GNU C library's mutexes keep it.

use crate::analysis::{Holder, SHARED};
use crate::sources::platform;
use std::collections::HashMap;

/// The value that a waiter of the C library's mutex expects: locked, with waiters.
const CONTENDED: u64 = 2;
/// Where that mutex has its holder, in bytes behind the word that threads wait on.
const OWNER: usize = 8;

/// Returns whether a wait may be for such a mutex, by the operation and the value it expects.
pub(crate) fn is_mutex(is_plain: bool, value: u64) -> bool {
    is_plain && value == CONTENDED
}

/// Returns whether such a mutex of a process is free, if its memory can be read.
pub(crate) fn is_free(process: u32, lock: u64) -> Option<bool> {
    let mut bytes = [1; 4];
    let read = platform::read_memory(process, lock & !SHARED, &mut bytes);
    (read == bytes.len()).then(|| u32::from_ne_bytes(bytes) == 0)
}

/// Asks a mutex of the GNU C library that a thread waits for for its holder, which is a thread of
/// the same process unless processes share it.
pub(crate) fn holder(threads: &HashMap<u32, u32>, waiter: u32, lock: u64) -> Holder {
    let mut bytes = [0; OWNER + 4];
    if platform::read_memory(waiter, lock & !SHARED, &mut bytes) != bytes.len() {
        return Holder::Unknown;
    }
    let word =
        |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let owner = word(OWNER);
    match word(0) {
        0 => Holder::Nobody,
        _ if threads.contains_key(&owner)
            && (lock & SHARED != 0 || threads.get(&owner) == threads.get(&waiter)) =>
        {
            Holder::Thread(owner)
        }
        _ => Holder::Unknown,
    }
}
