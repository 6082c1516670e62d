//! Compiles the scheduler for BPF, and its decisions as plain code for a test.

use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-env-changed=CLANG");
    if std::env::var_os("CARGO_FEATURE_SCHEDULER").is_none() {
        return;
    }
    let object = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets it")).join("bpf.o");
    let clang = std::env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets it");
    let flags = "-O2 -g -Wall -Werror -Wno-unused-function -target bpf -mcpu=v3 -c";
    let mut compile = Command::new(&clang);
    compile.args(flags.split(' ')).arg(format!("-I/usr/include/{arch}-linux-gnu"));
    match compile.arg("bpf/overlock.bpf.c").arg("-o").arg(object).status() {
        Ok(status) => assert!(status.success(), "{clang} can't compile bpf/overlock.bpf.c"),
        Err(error) => panic!(
            "{clang} did not start ({error}): `apt-get install clang libelf-dev`, or build without \
             the scheduler: --no-default-features"
        ),
    }
    cc::Build::new().file("bpf/native.c").warnings(true).compile("overlock_native");
}
