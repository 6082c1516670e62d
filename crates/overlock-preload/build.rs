//! Compiles what must be C, and makes the linker give the exported names their versions.

use std::path::{Path, PathBuf};

include!("fingerprint.rs");

fn main() {
    println!("cargo:rerun-if-changed=src");
    println!("cargo:rerun-if-changed=versions.map");
    println!("cargo:rerun-if-changed=../overlock/src");
    println!("cargo:rerun-if-env-changed=OVERLOCK_BUILD");
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    // The command that builds a library into itself has hashed the sources already.
    let build = std::env::var("OVERLOCK_BUILD").unwrap_or_else(|_| {
        fingerprint(&Path::new(&folder).join("src"), &Path::new(&folder).join("../overlock/src"))
    });
    println!("cargo:rustc-env=OVERLOCK_BUILD={build}");
    println!(
        "cargo:rustc-env=OVERLOCK_PROFILE={}",
        std::env::var("PROFILE").expect("cargo sets it")
    );
    let link = |argument: &str| println!("cargo:rustc-cdylib-link-arg={argument}");
    // Rust has its own version script, and GNU's linker accepts no second one. LLVM's does: it
    // comes with Rust, and is what Rust uses on x86-64 anyway.
    if let Some(folder) = linkers_of_rust() {
        link(&format!("-B{}", folder.display()));
    }
    link("-fuse-ld=lld");
    link(&format!("-Wl,--version-script={folder}/versions.map"));
    for name in WRAPPED {
        link(&format!("-Wl,--wrap={name}"));
    }
    // No -fexceptions: with it, `pthread_cleanup_push` would only guard call instructions, and a
    // cancellation can arrive between any two.
    cc::Build::new()
        .file("src/block.c")
        .file("src/compat.c")
        .file("src/thread.c")
        .file("src/passed_on.c")
        .file("src/unwind.c")
        .std("gnu11")
        .flag("-fasynchronous-unwind-tables")
        .flag("-fno-exceptions")
        .flag("-fvisibility=hidden")
        .warnings(true)
        .extra_warnings(true)
        .compile("overlock_block");
    link_unwinder();
}

/// Statically links the unwinder that Rust's standard library needs, instead of libgcc_s: that is
/// one library less to load, a third of what preloading costs a process. Nothing here unwinds. If
/// the compiler has no such archive, libgcc_s is used.
fn link_unwinder() {
    let compiler = cc::Build::new().get_compiler();
    let output = compiler.to_command().arg("-print-file-name=libgcc_eh.a").output();
    let path = output.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let path = path.map(|path| std::path::PathBuf::from(path.trim()));
    if let Some(folder) = path.as_deref().filter(|path| path.is_absolute()).and_then(|p| p.parent())
    {
        println!("cargo:rustc-link-search=native={}", folder.display());
        println!("cargo:rustc-link-lib=static:+whole-archive=gcc_eh");
    }
}

/// The functions that `src/compat.c` wraps, and `src/unwind.c`.
const WRAPPED: [&str; 16] = [
    "dlsym",
    "dlvsym",
    "dladdr",
    "dlerror",
    "pthread_condattr_setpshared",
    "pthread_condattr_setclock",
    "pthread_key_create",
    "pthread_key_delete",
    "pthread_getspecific",
    "pthread_setspecific",
    "__pthread_register_cancel",
    "__pthread_unregister_cancel",
    "__pthread_unwind_next",
    "fstat64",
    "stat64",
    "rust_eh_personality",
];

/// Finds where Rust keeps LLVM's linker under the name that a C compiler looks for.
fn linkers_of_rust() -> Option<PathBuf> {
    let rustc = std::env::var_os("RUSTC")?;
    let output = std::process::Command::new(rustc).args(["--print", "sysroot"]).output().ok()?;
    let sysroot = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    let host = std::env::var_os("HOST")?;
    let folder = sysroot.join("lib/rustlib").join(host).join("bin/gcc-ld");
    folder.join("ld.lld").exists().then_some(folder)
}
