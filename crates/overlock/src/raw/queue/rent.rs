// SPDX-License-Identifier: MIT OR Apache-2.0
//! What each mechanism brings: `cargo xtask ablate` builds the lock without one at a time, and
//! `docs/hybrid.md` has what came out.

/// Whether this build has a mechanism: all have all, except one that was compiled with
/// `OVERLOCK_WITHOUT` set to the mechanism's name.
pub(super) const fn has(mechanism: &str) -> bool {
    let Some(without) = option_env!("OVERLOCK_WITHOUT") else { return true };
    let (name, without) = (mechanism.as_bytes(), without.as_bytes());
    let mut i = 0;
    while i < name.len() && i < without.len() && name[i] == without[i] {
        i += 1;
    }
    i < name.len() || i < without.len()
}
