//! The kernel: its entries in assembly, and what it does when it panics.
//!
//! It is a kernel only if it is built as one (`--cfg overlock_image`, by the program `image`).
//! Built for the host, it prints a hint.

#![cfg_attr(overlock_image, no_std, no_main)]

#[cfg(all(overlock_image, target_arch = "x86_64"))]
mod image;

#[cfg(not(overlock_image))]
#[expect(clippy::print_stderr, reason = "a hint for people")]
fn main() {
    eprintln!("This is a kernel, not a program: `overlock bench --in tcg` starts it.");
}
