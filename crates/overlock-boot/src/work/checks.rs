// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reports of checks.

use core::fmt::Display;

use crate::console::Plain;
use crate::say;

/// Reports the result of the check `what`, and returns whether it is fine.
pub(super) fn tell(what: impl Display, fine: bool, found: impl Display) -> bool {
    let (what, found) = (Plain(what), Plain(found));
    say!("{{\"kind\":\"check\",\"what\":\"{what}\",\"fine\":{fine},\"found\":\"{found}\"}}");
    fine
}

/// Reports that a check begins, so that the last line of a kernel that hangs says where.
pub(super) fn begin(what: impl Display) {
    say!("{{\"kind\":\"begin\",\"what\":\"{}\"}}", Plain(what));
}
