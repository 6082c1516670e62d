//! Links the binary as a kernel where it is built as one (`--cfg overlock_image`).

fn main() {
    println!("cargo::rustc-check-cfg=cfg(overlock_image)");
    println!("cargo::rerun-if-changed=image.ld");
    if std::env::var_os("CARGO_CFG_OVERLOCK_IMAGE").is_none() {
        return;
    }
    // The linker itself links for a target without an operating system, the compiler for the
    // host's.
    let is_bare = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "none");
    let to_linker = if is_bare { "" } else { "-Wl," };
    if !is_bare {
        for arg in ["-nostartfiles", "-nostdlib", "-static"] {
            println!("cargo::rustc-link-arg-bins={arg}");
        }
    }
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let script = format!("--script={here}/image.ld");
    for arg in ["-no-pie", "--build-id=none", "-znoseparate-code", "-znorelro", &script] {
        println!("cargo::rustc-link-arg-bins={to_linker}{arg}");
    }
}
