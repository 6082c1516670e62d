//! How the kernel image is built: only this file knows.
//!
//! It uses the target `x86_64-unknown-none` if the toolchain has it; else the host's own target,
//! with flags that leave the operating system out.

use anyhow::{Context, Result, bail};
use overlock_programs::{Finished, finish, interrupt};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const NONE: &str = "x86_64-unknown-none";
/// This machine, without its operating system.
const HOSTED: &str = "x86_64-unknown-linux-gnu";

/// The monitor of virtual machines, beside the image.
pub const VMM: &str = "overlock-vmm";

/// Builds the optimised image, and returns its path; `None` after Ctrl-C. Cargo's output goes to
/// standard error.
pub fn image() -> Result<Option<PathBuf>> {
    image_for(targets()[0])
}

/// Returns the targets for which this toolchain builds the image, the best first.
pub fn targets() -> &'static [&'static str] {
    if has_target(NONE) { &[NONE, HOSTED] } else { &[HOSTED] }
}

pub fn image_for(target: &str) -> Result<Option<PathBuf>> {
    let flags = "--cfg overlock_image -C no-redzone=y -C relocation-model=static -C debuginfo=0";
    let (mut cargo, folder) = cargo("overlock-boot", target, flags)?;
    // Nothing unwinds there, and the linker may understand machine code only.
    cargo.env("CARGO_PROFILE_RELEASE_PANIC", "abort").env("CARGO_PROFILE_RELEASE_LTO", "off");
    let built = run(&mut cargo, "the kernel image")?;
    Ok(built.then(|| folder.join("overlock-boot")))
}

/// Builds the image and the monitor of virtual machines: static, since the monitor is all that the
/// Linux has which runs it.
pub fn with_vmm() -> Result<Option<PathBuf>> {
    let Some(image) = image()? else { return Ok(None) };
    let (mut cargo, folder) = cargo(VMM, HOSTED, "-C target-feature=+crt-static")?;
    if !run(&mut cargo, "the monitor of virtual machines")? {
        return Ok(None);
    }
    let (built, beside) = (folder.join(VMM), image.with_file_name(VMM));
    if built != beside {
        fs::copy(&built, &beside).context("can't put the monitor beside the image")?;
    }
    Ok(Some(image))
}

/// Returns the source tree that this program is from, in which it builds the image.
pub(crate) fn source() -> Result<&'static Path> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("/"));
    if !root.join("boot/image.ld").exists() {
        bail!(
            "the kernel image is built in this program's source tree, which is not on this machine \
             (there is none in {}); build it in one with `cargo run --bin image` and name it in \
             OVERLOCK_IMAGE",
            root.display()
        );
    }
    Ok(root)
}

/// Prepares the build of a package, and returns the folder in which it will be.
fn cargo(package: &str, target: &str, flags: &str) -> Result<(Command, PathBuf)> {
    let root = source()?;
    let folder = root.join("target").join("boot");
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--quiet", "-p", package, "--bin", package]);
    cargo.args(["--target", target, "--target-dir"]).arg(&folder).current_dir(root);
    cargo.env("RUSTFLAGS", flags).env_remove("CARGO_ENCODED_RUSTFLAGS");
    Ok((cargo, folder.join(target).join("release")))
}

/// Runs cargo, unless Ctrl-C comes: then it returns false.
fn run(cargo: &mut Command, what: &str) -> Result<bool> {
    let built = finish(cargo, None, interrupt::flag());
    match built.with_context(|| format!("cargo did not start, which builds {what}"))? {
        Finished::Exited { exit, .. } if exit.status.success() => Ok(true),
        Finished::Cancelled => Ok(false),
        _ => bail!("{what} does not build: see above"),
    }
}

fn has_target(name: &str) -> bool {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output();
    sysroot.is_ok_and(|out| {
        let sysroot = PathBuf::from(String::from_utf8_lossy(&out.stdout).trim());
        sysroot.join("lib/rustlib").join(name).join("lib").exists()
    })
}
