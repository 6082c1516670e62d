//! Sets the shared library's soname, and keeps the library loaded.
//!
//! The header's inline code knows the bits of the lock words, so a program works only with the
//! version of the library that it was compiled for: the soname carries the minor version as long as
//! the major one is zero.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = |part| std::env::var(format!("CARGO_PKG_VERSION_{part}")).expect("set by cargo");
    let soname = format!("liboverlock.so.{}.{}", version("MAJOR"), version("MINOR"));
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,{soname}");
    // Threads that have used a lock run a destructor of this library when they exit.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
