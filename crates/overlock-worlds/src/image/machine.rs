// SPDX-License-Identifier: MIT OR Apache-2.0
//! The emulated machine: what is needed for it, and how to start it.

use anyhow::{Context, Result, bail};
use overlock_process::{Finished, finish, interrupt};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const QEMU: &str = "qemu-system-x86_64";
/// Names the image, where it is not to be built.
const IMAGE: &str = "OVERLOCK_IMAGE";
/// Names Xen, where it is not in /boot.
const XEN: &str = "OVERLOCK_XEN";

/// Processors under Xen, which schedules more vCPUs than that.
pub(super) const XEN_PCPUS: u32 = 2;

/// Which of Xen's schedulers runs the vCPUs.
const SCHEDULER: &str = "sched=credit";

/// A machine that is ready to start.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) qemu: Command,
    /// Whether the kernel plays KVM itself.
    pub(super) stand_in: bool,
    /// Files that QEMU needs until it exits.
    _files: TempDir,
}

/// The image: named, or built in the source tree that this program is from. Nothing if Ctrl-C came
/// while it was built.
pub(super) fn image() -> Result<Option<PathBuf>> {
    if let Some(path) = std::env::var_os(IMAGE) {
        let path = PathBuf::from(path);
        return path
            .canonicalize()
            .map(Some)
            .with_context(|| format!("{IMAGE} names {}, which can't be read", path.display()));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("/"));
    if !root.join("crates/overlock-boot/image.ld").exists() {
        bail!(
            "the kernel image is built in this program's source tree, which is not on this machine \
             (there is none in {}); build it in one with `cargo xtask image` and name it in {IMAGE}",
            root.display()
        );
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["xtask", "image"]).current_dir(root).stdout(Stdio::piped());
    let built = finish(&mut cargo, None, interrupt::flag());
    match built.context("cargo did not start, which builds the kernel image")? {
        Finished::Exited { exit, stdout, .. } if exit.status.success() => {
            Ok(Some(PathBuf::from(String::from_utf8_lossy(&stdout).trim())))
        }
        Finished::Cancelled => Ok(None),
        _ => bail!("the kernel image does not build: see above"),
    }
}

/// Says what is missing for `world`, if anything is.
pub(super) fn look_for(world: &str) -> Result<()> {
    let mut qemu = Command::new(QEMU);
    qemu.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    qemu.status().map_err(not_started)?;
    if world == "xen" { find_xen().map(drop) } else { Ok(()) }
}

fn find_xen() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(XEN) {
        return Ok(PathBuf::from(path));
    }
    let files = std::fs::read_dir("/boot").into_iter().flatten();
    files
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.to_string_lossy().contains("/xen-"))
        .find(|path| path.extension().is_some_and(|end| end == "gz"))
        .with_context(|| {
            format!(
                "there is no Xen in /boot; `apt-get install xen-hypervisor-4.17-amd64` brings it, \
                 or name it in {XEN}"
            )
        })
}

/// Xen as QEMU can load it: not compressed.
fn xen(into: &Path) -> Result<PathBuf> {
    let found = find_xen()?;
    let plain = into.join("xen");
    let file = File::create(&plain).context("can't unpack Xen")?;
    let mut gzip = Command::new("gzip");
    gzip.arg("-dcf").arg(&found).stdout(file);
    let unpacked = finish(&mut gzip, None, interrupt::flag());
    match unpacked.context("gzip did not start, which unpacks Xen")? {
        Finished::Exited { exit, .. } if exit.status.success() => Ok(plain),
        _ => bail!("{} can't be unpacked", found.display()),
    }
}

/// Whether there is a KVM that this process may use.
fn has_kvm() -> bool {
    File::options().read(true).write(true).open("/dev/kvm").is_ok()
}

impl Machine {
    /// Prepares the machine of `world` with `smp` CPUs, and `image` told to do `plan`.
    pub(super) fn new(world: &str, smp: u32, image: &Path, plan: &str) -> Result<Self> {
        let files = TempDir::new().context("no place for temporary files")?;
        let stand_in = world == "kvm-guest" && !has_kvm();
        let mut qemu = Command::new(QEMU);
        qemu.args(["-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio"]);
        let (accel, cpu) = match (world, stand_in) {
            ("kvm-guest", false) => ("kvm", "host"),
            _ => ("tcg,thread=multi", "max"),
        };
        qemu.args(["-accel", accel, "-cpu", cpu]);
        if world == "xen" {
            let mut module = OsString::from(image);
            // QEMU takes a comma for the end of a module.
            if module.to_string_lossy().contains(',') {
                bail!("{} has a comma in its name, which QEMU can't take", image.display());
            }
            module.push(format!(" smp={smp} {plan}"));
            qemu.args(["-m", "512", "-smp", &XEN_PCPUS.to_string()]);
            qemu.arg("-kernel").arg(xen(files.path())?).arg("-append").arg(format!(
                "dom0_mem=128M dom0_max_vcpus={smp} console=com1 com1=115200 loglvl=warning \
                 {SCHEDULER}"
            ));
            qemu.arg("-initrd").arg(module);
        } else {
            let on = match (world, stand_in) {
                ("kvm-guest", true) => "kvm-stand-in",
                ("kvm-guest", false) => "kvm",
                _ => "bare",
            };
            qemu.args(["-m", "256", "-smp", &smp.to_string()]);
            qemu.args(["-device", "isa-debug-exit,iobase=0xf4"]);
            qemu.arg("-kernel").arg(image).arg("-append").arg(format!("on={on} smp={smp} {plan}"));
        }
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self { qemu, stand_in, _files: files })
    }
}

#[cfg(test)]
impl Machine {
    /// A shell that plays the machine.
    pub(super) fn of_script(script: &str) -> Self {
        let mut qemu = Command::new("sh");
        qemu.args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Self { qemu, stand_in: false, _files: TempDir::new().expect("a folder") }
    }
}

/// Says that QEMU could not be started, and why.
pub(super) fn not_started(error: std::io::Error) -> anyhow::Error {
    let missing = error.kind() == std::io::ErrorKind::NotFound;
    let error = anyhow::Error::new(error);
    if missing {
        error.context(format!("there is no {QEMU}; `apt-get install qemu-system-x86` brings it"))
    } else {
        error.context(format!("{QEMU} did not start"))
    }
}
