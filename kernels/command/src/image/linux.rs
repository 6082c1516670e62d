//! Debian's Linux, whose KVM runs the kernel image, on a machine that need not have one: QEMU
//! emulates AMD's virtualisation, which KVM's own code then uses.
//!
//! The package of the kernel is fetched by `apt-get` and unpacked, not installed; what is needed of
//! it is kept below the user's cache folder. Its first and only process is `overlock-vmm`.

use super::cpio::Archive;
use anyhow::{Context, Result, bail, ensure};
use overlock_programs::{Finished, finish, interrupt};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Names the package's file, where it is not to be fetched.
const PACKAGE: &str = "OVERLOCK_LINUX";
/// Depends on the newest of Debian's kernels for virtual machines.
const NEWEST: &str = "linux-image-cloud-amd64";
/// The modules, in the order in which they are loaded, below `lib/modules/RELEASE/kernel`.
const MODULES: [&str; 3] = ["virt/lib/irqbypass", "arch/x86/kvm/kvm", "arch/x86/kvm/kvm-amd"];

#[derive(Clone, Debug)]
pub(super) struct Linux {
    folder: PathBuf,
}

impl Linux {
    /// The one that is named, or kept, or fetched.
    pub(super) fn find() -> Result<Self> {
        let cache = cache()?.join("overlock").join("linux");
        let named = std::env::var_os(PACKAGE).map(PathBuf::from);
        let kept = match &named {
            Some(package) => {
                ensure!(package.is_file(), "{PACKAGE} names {}: no file", package.display());
                cache.join(package.file_stem().context("a package without a name")?)
            }
            None => match newest(&cache) {
                Some(kept) => return Ok(Self { folder: kept }),
                None => PathBuf::new(),
            },
        };
        if kept.is_dir() {
            return Ok(Self { folder: kept });
        }
        fs::create_dir_all(&cache).with_context(|| {
            format!("can't keep a kernel in {}; set XDG_CACHE_HOME", cache.display())
        })?;
        let draft = TempDir::new_in(&cache)?;
        let package = match named {
            Some(package) => package,
            None => fetch(draft.path())?,
        };
        let kept = cache.join(package.file_stem().context("a package without a name")?);
        unpack(&package, draft.path())?;
        // Whoever is first wins; what both have is the same.
        if fs::rename(draft.path().join("kept"), &kept).is_err() && !kept.is_dir() {
            bail!("can't keep a kernel in {}", kept.display());
        }
        Ok(Self { folder: kept })
    }

    /// Its package and version, as the file was named.
    pub(super) fn name(&self) -> String {
        let name = self.folder.file_name().unwrap_or_default().to_string_lossy();
        name.trim_end_matches("_amd64").replace('_', " ")
    }

    pub(super) fn kernel(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// Writes what it starts with: the monitor as its first process, told to run a guest by
    /// `words`, and the files of that guest.
    pub(super) fn write_root(
        &self,
        to: &Path,
        vmm: &Path,
        files: &[(&str, Vec<u8>)],
        words: &[String],
    ) -> Result<()> {
        let mut root = Archive::new(File::create(to)?);
        root.folder("modules")?;
        for number in 0..MODULES.len() {
            let name = format!("{number}.ko");
            root.file(&format!("modules/{name}"), &read(&self.folder.join(&name))?)?;
        }
        root.file("init", &read(vmm)?)?;
        files.iter().try_for_each(|(name, bytes)| root.file(name, bytes))?;
        root.file("guest", words.join("\n").as_bytes())?;
        root.end()?;
        Ok(())
    }
}

pub(super) fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("{} can't be read", path.display()))
}

/// The newest kernel that is kept.
fn newest(cache: &Path) -> Option<PathBuf> {
    let kept = fs::read_dir(cache).ok()?.flatten().map(|entry| entry.path());
    let is_whole = |path: &PathBuf| path.join("vmlinuz").is_file();
    kept.filter(is_whole).max_by_key(|path| path.metadata().and_then(|of| of.modified()).ok())
}

/// Runs a command to its end, and returns what it printed.
fn said(command: &mut Command, remedy: &str) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = finish(command.stdin(Stdio::null()), None, interrupt::flag());
    match done.with_context(|| format!("{name} did not start: {remedy}"))? {
        Finished::Exited { exit, stdout } => {
            ensure!(exit.status.success(), "{name} failed, see above: {remedy}");
            Ok(String::from_utf8_lossy(&stdout).into_owned())
        }
        Finished::Cancelled => bail!("interrupted while the kernel was fetched"),
        _ => bail!("{name} did not end"),
    }
}

fn fetch(folder: &Path) -> Result<PathBuf> {
    let remedy = format!(
        "the kernel of the machine that runs KVM comes from Debian 12 or later; there, \
         `apt-get update`, or elsewhere name a file of its package linux-image-*-cloud-amd64 in \
         {PACKAGE}"
    );
    let shown =
        said(Command::new("apt-cache").args(["show", "--no-all-versions", NEWEST]), &remedy)?;
    let depends = shown.lines().find_map(|line| line.strip_prefix("Depends: "));
    let package = depends.and_then(|line| line.split([' ', ',']).next()).context(remedy.clone())?;
    said(Command::new("apt-get").args(["download", package]).current_dir(folder), &remedy)?;
    let files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let is_package = |path: &PathBuf| path.extension().is_some_and(|end| end == "deb");
    files.into_iter().find(is_package).context(remedy)
}

/// Unpacks `package`, and collects in `kept` beside it what is needed.
fn unpack(package: &Path, folder: &Path) -> Result<()> {
    let (all, kept) = (folder.join("all"), folder.join("kept"));
    let mut unpack = Command::new("dpkg-deb");
    unpack.arg("--extract").arg(package).arg(&all);
    said(&mut unpack, "`apt-get install dpkg` brings it")?;
    fs::create_dir(&kept)?;
    let only = |folder: &Path, start: &str| -> Result<PathBuf> {
        let entries =
            fs::read_dir(folder).with_context(|| format!("{} is no kernel", package.display()))?;
        let named = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(start))
        };
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(named).with_context(|| format!("{} is no kernel", package.display()))
    };
    fs::rename(only(&all.join("boot"), "vmlinuz-")?, kept.join("vmlinuz"))?;
    // Debian 13 has merged /lib into /usr.
    let modules = [all.join("lib/modules"), all.join("usr/lib/modules")];
    let modules = modules.iter().find(|path| path.is_dir()).context("no modules")?;
    let modules = only(modules, "")?.join("kernel");
    for (number, module) in MODULES.iter().enumerate() {
        let (plain, to) = (modules.join(format!("{module}.ko")), kept.join(format!("{number}.ko")));
        if !plain.exists() {
            let mut xz = Command::new("xz");
            xz.arg("-d").arg(modules.join(format!("{module}.ko.xz")));
            said(&mut xz, "`apt-get install xz-utils` brings it")?;
        }
        fs::rename(plain, to)?;
    }
    Ok(())
}

/// The user's cache folder, by the XDG Base Directory Specification.
fn cache() -> Result<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named("XDG_CACHE_HOME")
        .or_else(|| Some(named("HOME")?.join(".cache")))
        .context("neither XDG_CACHE_HOME nor HOME names a folder to keep a kernel in")
}
