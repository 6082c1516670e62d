//! The emulated machine: what is needed for it, and how to start it.

use super::linux::{Linux, read};
use crate::build::{self, VMM};
use anyhow::{Context, Result, bail};
use overlock_programs::{Finished, finish, interrupt};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const QEMU: &str = "qemu-system-x86_64";
/// Names the image, where it is not to be built.
const IMAGE: &str = "OVERLOCK_IMAGE";
/// Names Xen, where it is not in /boot.
const XEN: &str = "OVERLOCK_XEN";

/// Processors under a hypervisor, which schedules more vCPUs than that.
pub(super) const PCPUS: u32 = 2;

/// Which of Xen's schedulers runs the vCPUs: its default one. An idle processor must not leave a
/// vCPU to another processor, which may be idle too, and stay so: docs/kernels.md, Limits.
const SCHEDULER: &str = "sched=credit2 sched_credit2_migrate_resist=0";

/// The machine of a Xen whose guest has virtual hardware. The processor that QEMU emulates
/// virtualisation for is AMD's. Xen's idle loop faults on what QEMU emulates of `mwait`, and Xen's
/// first domain needs a controller of its devices' memory.
const XEN_MACHINE: [&str; 8] =
    ["-machine", "q35", "-device", "amd-iommu", "-cpu", "EPYC,+svm,-monitor", "-m", "768"];

/// What every machine is: emulated, each of its CPUs by a thread, and without devices.
const ALWAYS: [&str; 6] =
    ["-display", "none", "-nodefaults", "-no-reboot", "-accel", "tcg,thread=multi"];

/// A machine that is ready to start.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) qemu: Command,
    /// The kernel's host, by name and version.
    pub(super) under: String,
    /// Files that QEMU needs until it exits.
    _files: TempDir,
}

/// The image for `world`: named, or built in the source tree that this program is from. Nothing if
/// Ctrl-C came while it was built.
pub(super) fn image(world: &str) -> Result<Option<PathBuf>> {
    match named()? {
        Some(path) => Ok(Some(path)),
        None if world == "kvm-guest" => build::with_vmm(),
        None => build::image(),
    }
}

/// The image that is not to be built, if one is named.
fn named() -> Result<Option<PathBuf>> {
    let Some(path) = std::env::var_os(IMAGE).map(PathBuf::from) else { return Ok(None) };
    let found = path.canonicalize().map(Some);
    found.with_context(|| format!("{IMAGE} names {}, which can't be read", path.display()))
}

/// Says what is missing for `world`, if anything is, once the Linux of `kvm-guest` is fetched.
pub(super) fn look_for(world: &str) -> Result<()> {
    missing(world)?;
    if world == "kvm-guest" { Linux::find().map(drop) } else { Ok(()) }
}

/// Says what is missing for `world`, if anything is. The Linux of `kvm-guest` is fetched when that
/// world is opened.
pub fn missing(world: &str) -> Result<()> {
    qemu_version()?;
    if named()?.is_none() {
        build::source()?;
    }
    match world {
        "xen" => find_xen().map(drop),
        _ => Ok(()),
    }
}

/// What QEMU calls itself: `QEMU 7.2.22`.
fn qemu_version() -> Result<String> {
    let mut qemu = Command::new(QEMU);
    qemu.arg("--version").stdin(Stdio::null()).stderr(Stdio::null());
    let said = qemu.output().map_err(not_started)?.stdout;
    let said = String::from_utf8_lossy(&said);
    let version = said.split_ascii_whitespace().skip_while(|word| *word != "version").nth(1);
    Ok(format!("QEMU {}", version.unwrap_or("of an unknown version")))
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
fn xen(found: &Path, into: &Path) -> Result<PathBuf> {
    let plain = into.join("xen");
    let mut gzip = Command::new("gzip");
    let unpacked = finish(gzip.arg("-dcf").arg(found), None, interrupt::flag());
    match unpacked.context("gzip did not start, which unpacks Xen")? {
        Finished::Exited { exit, stdout } if exit.status.success() => {
            std::fs::write(&plain, stdout).context("can't unpack Xen")?;
            Ok(plain)
        }
        _ => bail!("{} can't be unpacked", found.display()),
    }
}

impl Machine {
    /// Prepares the machine of `world` with `smp` CPUs, and `image` told to do `plan`. KVM's
    /// monitor is told `options`, too.
    pub(super) fn new(
        world: &str,
        smp: u32,
        image: &Path,
        plan: &str,
        options: &[&str],
    ) -> Result<Self> {
        let files = TempDir::new().context("no place for temporary files")?;
        let mut qemu = Command::new(QEMU);
        let mut under = qemu_version()?;
        qemu.args(ALWAYS).args(["-serial", "stdio"]);
        match world {
            "xen" => {
                let found = find_xen()?;
                let mut module = OsString::from(image);
                // QEMU takes a comma for the end of a module.
                if module.to_string_lossy().contains(',') {
                    bail!("{} has a comma in its name, which QEMU can't take", image.display());
                }
                module.push(format!(" on=xen smp={smp} {plan}"));
                qemu.args(XEN_MACHINE).args(["-smp", &PCPUS.to_string()]);
                qemu.arg("-kernel").arg(xen(&found, files.path())?).arg("-append").arg(format!(
                    "dom0_mem=128M dom0_max_vcpus={smp} console=com1 com1=115200 loglvl=warning \
                     {SCHEDULER} dom0=pvh cpuidle=0"
                ));
                qemu.arg("-initrd").arg(module);
                let name = found.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                under = format!("{name} on {under}");
            }
            "kvm-guest" => {
                let mut words = vec![format!("--cpus={smp}")];
                words.extend(options.iter().copied().map(String::from));
                words.extend(["/image".into(), format!("on=kvm smp={smp} {plan}")]);
                let files = [("image", read(image)?)];
                return Self::under_kvm(image, &files, &words);
            }
            _ => {
                qemu.args(["-cpu", "max", "-m", "256", "-smp", &smp.to_string()]);
                qemu.args(["-device", "isa-debug-exit,iobase=0xf4"]);
                let line = format!("on=bare smp={smp} {plan}");
                qemu.arg("-kernel").arg(image).arg("-append").arg(line);
            }
        }
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self { qemu, under, _files: files })
    }

    /// The machine in which Linux's KVM runs what `words` tell the monitor, from `files`.
    fn under_kvm(image: &Path, files: &[(&str, Vec<u8>)], words: &[String]) -> Result<Self> {
        let folder = TempDir::new().context("no place for temporary files")?;
        let (linux, root) = (Linux::find()?, folder.path().join("root.cpio"));
        linux
            .write_root(&root, &image.with_file_name(VMM), files, words)
            .context("can't write what KVM's machine starts with")?;
        let mut qemu = Command::new(QEMU);
        // Linux writes to the first port: what it says must not come into the guest's lines.
        qemu.args(ALWAYS).args(["-serial", "file:/dev/stderr", "-serial", "stdio"]);
        // The processor that QEMU emulates virtualisation for is AMD's.
        qemu.args(["-cpu", "EPYC,+svm", "-smp", &PCPUS.to_string()]);
        qemu.args(["-m", "512", "-append", LINUX_HOST_LINE]);
        qemu.arg("-kernel").arg(linux.kernel()).arg("-initrd").arg(root);
        qemu.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let under = format!("kvm_amd of {} on {}", linux.name(), qemu_version()?);
        Ok(Self { qemu, under, _files: folder })
    }
}

/// What the Linux is told that runs KVM. The emulated time stamp counter is one for all processors,
/// which Linux does not believe of a processor of AMD's without a word. It then takes it for
/// unstable, and its KVM sets each vCPU's counter anew whenever the vCPU changes processors: the
/// guest's clock goes backwards (P9). And Linux gives up if ten ticks of its timer don't come while
/// it counts loops, which they may not where the emulator gets no processor: it need not look.
const LINUX_HOST_LINE: &str = "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check";

#[cfg(test)]
impl Machine {
    /// A shell that plays the machine.
    pub(super) fn of_script(script: &str) -> Self {
        let mut qemu = Command::new("sh");
        qemu.args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let _files = TempDir::new().expect("a folder");
        Self { qemu, under: String::new(), _files }
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
