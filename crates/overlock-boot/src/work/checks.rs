// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a check says what it found.

use core::fmt::Display;

use crate::console::Plain;
use crate::say;

/// Says how the check `what` came out, and returns whether it is fine.
pub(super) fn tell(what: impl Display, fine: bool, found: impl Display) -> bool {
    let (what, found) = (Plain(what), Plain(found));
    say!("{{\"kind\":\"check\",\"what\":\"{what}\",\"fine\":{fine},\"found\":\"{found}\"}}");
    fine
}

/// Says which check begins, so that a kernel that hangs has said where.
pub(super) fn begin(what: impl Display) {
    say!("{{\"kind\":\"begin\",\"what\":\"{}\"}}", Plain(what));
}
