//! Compiles the library that traced programs preload, which this crate contains.

use std::path::PathBuf;

/// Shared libraries that threads are traced by have no other dependency than the C library.
const FLAGS: [&str; 12] = [
    "-std=gnu11",
    "-O2",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    // The thread's variables are at a fixed distance: the library is there from the start.
    "-ftls-model=initial-exec",
    "-fasynchronous-unwind-tables",
    "-Wall",
    "-Wextra",
    "-Wl,-z,now",
    "-Wl,-z,noexecstack",
    "-Wl,--version-script=preload/versions.map",
];

fn main() {
    println!("cargo::rerun-if-changed=preload");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|is| is == value);
    let library = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it"))
        .join("liboverlock_trace.so");
    if !is("CARGO_CFG_TARGET_ARCH", "x86_64") || !is("CARGO_CFG_TARGET_OS", "linux") {
        return;
    }
    let compiler = cc::Build::new().get_compiler();
    let mut command = std::process::Command::new(compiler.path());
    let sources = ["preload/tell.c", "preload/calls.c", "preload/sleeps.c"];
    command.args(FLAGS).args(sources).arg("-o").arg(&library);
    let status = command.status().expect("a C compiler is needed");
    assert!(status.success(), "the tracing library does not build");
}
