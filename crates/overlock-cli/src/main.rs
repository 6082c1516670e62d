//! The `overlock` command.
fn main() {}
