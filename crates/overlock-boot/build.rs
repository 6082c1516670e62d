//! Links the binary as a kernel where it is built as one (`--cfg overlock_image`).

fn main() {
    println!("cargo::rustc-check-cfg=cfg(overlock_image)");
    println!("cargo::rerun-if-changed=image.ld");
    if std::env::var_os("CARGO_CFG_OVERLOCK_IMAGE").is_none() {
        return;
    }
    let here = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let script = format!("-Wl,-T,{here}/image.ld");
    let quiet = ["-Wl,--build-id=none", "-Wl,-z,noseparate-code", "-Wl,-z,norelro"];
    for arg in ["-nostartfiles", "-nostdlib", "-static", "-no-pie", &script].iter().chain(&quiet) {
        println!("cargo::rustc-link-arg-bins={arg}");
    }
}
