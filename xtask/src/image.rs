//! The kernel image of `overlock-boot`: only this file knows how it is compiled.
//!
//! It uses the target `x86_64-unknown-none` if the toolchain has it; else the host's own target,
//! with flags that leave the operating system out.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

mod code;

/// A bare machine.
pub(crate) const NONE: &str = "x86_64-unknown-none";
/// This machine, without its operating system.
pub(crate) const HOSTED: &str = "x86_64-unknown-linux-gnu";

/// Builds the optimised image, and returns its path. Cargo's output goes to standard error.
pub(crate) fn build() -> Result<PathBuf> {
    build_for(if has_target(NONE) { NONE } else { HOSTED })
}

fn build_for(target: &str) -> Result<PathBuf> {
    let folder = crate::root().join("target").join("boot");
    let flags = "--cfg overlock_image -C no-redzone=y -C relocation-model=static -C debuginfo=0";
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "--quiet", "-p", "overlock-boot"]);
    cargo.args(["--bin", "overlock-boot", "--target", target, "--target-dir"]).arg(&folder);
    cargo.env("RUSTFLAGS", flags).env_remove("CARGO_ENCODED_RUSTFLAGS");
    // Nothing unwinds there, and the linker may understand machine code only.
    cargo.env("CARGO_PROFILE_RELEASE_PANIC", "abort").env("CARGO_PROFILE_RELEASE_LTO", "off");
    let status = cargo.current_dir(crate::root()).status().context("cargo did not start")?;
    if !status.success() {
        bail!("the image does not build");
    }
    Ok(folder.join(target).join("release").join("overlock-boot"))
}

/// Builds the image for a target, and starts it in the emulator, where it checks its locks. Returns
/// whether all was fine, or there is no emulator.
pub(crate) fn boots(target: &str) -> Result<bool> {
    let image = build_for(target)?;
    let mut machine = Command::new("timeout");
    machine.args(["300", "qemu-system-x86_64", "-display", "none", "-nodefaults", "-no-reboot"]);
    machine.args(["-accel", "tcg", "-cpu", "max", "-m", "256", "-smp", "2", "-serial", "stdio"]);
    machine.args(["-device", "isa-debug-exit,iobase=0xf4"]);
    machine.args(["-append", "on=bare smp=2 do=conformance"]).arg("-kernel").arg(image);
    println!("+ {machine:?}");
    let ended = machine.stdin(Stdio::null()).output().context("there is no timeout here")?;
    if ended.status.code() == Some(127) {
        println!("skipped: the image for {target} does not boot: there is no qemu-system-x86_64");
        return Ok(true);
    }
    let said = String::from_utf8_lossy(&ended.stdout);
    let is_fine = said.lines().any(|line| line == r#"{"kind":"end","fine":true}"#);
    if !is_fine {
        println!("the image for {target} did not end well; it said:\n{said}");
    }
    Ok(is_fine)
}

/// Builds the monitor of virtual machines, too, and puts it beside the image: static, since it is
/// all that the Linux has which runs it.
pub(crate) fn with_vmm() -> Result<PathBuf> {
    let image = build()?;
    let folder = crate::root().join("target").join("boot");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--locked", "--quiet", "-p", "overlock-vmm"]);
    cargo.args(["--target", HOSTED, "--target-dir"]).arg(&folder);
    cargo.env("RUSTFLAGS", "-C target-feature=+crt-static").env_remove("CARGO_ENCODED_RUSTFLAGS");
    let status = cargo.current_dir(crate::root()).status().context("cargo did not start")?;
    if !status.success() {
        bail!("the monitor of virtual machines does not build");
    }
    let (built, beside) =
        (folder.join(HOSTED).join("release/overlock-vmm"), image.with_file_name("overlock-vmm"));
    if built != beside {
        fs::copy(&built, &beside).context("can't put it beside the image")?;
    }
    Ok(image)
}

/// Builds it, prints how large the locks' verbs are in it, and compares those that are switched off
/// with the native ones. Returns whether they execute the same.
pub(crate) fn code() -> Result<bool> {
    code::check(&build()?)
}

/// Whether the toolchain has the library of a target.
pub(crate) fn has_target(name: &str) -> bool {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    sysroot.is_ok_and(|out| {
        let sysroot = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
        sysroot.join("lib/rustlib").join(name).join("lib").exists()
    })
}
