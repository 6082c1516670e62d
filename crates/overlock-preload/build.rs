// SPDX-License-Identifier: MIT OR Apache-2.0
//! Compiles the one frame that must be C: the wait that a thread may be cancelled in.

fn main() {
    println!("cargo:rerun-if-changed=src/block.c");
    // No -fexceptions: with it, `pthread_cleanup_push` would only guard call instructions, and a
    // cancellation may arrive between any two.
    cc::Build::new()
        .file("src/block.c")
        .std("gnu11")
        .flag("-fasynchronous-unwind-tables")
        .flag("-fno-exceptions")
        .flag("-fvisibility=hidden")
        .warnings(true)
        .extra_warnings(true)
        .compile("overlock_block");
}
