//! A compiler for aarch64: the installed one if it has that target's standard library, else
//! Debian's, unpacked into a folder.
//!
//! Debian's compiler is never installed: it would bring a second `rustc` into the search path, and
//! a foreign architecture into the package manager's lists. Its packages are fetched with separate
//! lists and unpacked beside the build, which needs no privilege either.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::TARGET;

/// A compiler that can build for [`TARGET`].
pub(super) struct Toolchain {
    /// The folder of Debian's unpacked packages, if it is Debian's compiler.
    debian: Option<PathBuf>,
    target_dir: PathBuf,
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.debian {
            None => write!(f, "the installed one"),
            Some(root) => write!(f, "Debian's rustc-web, in {}", root.display()),
        }
    }
}

impl Toolchain {
    /// Finds a compiler, or gets one into `folder`.
    pub(super) fn find(folder: &Path) -> Result<Self> {
        let target_dir = folder.join("build");
        let installed = Self { debian: None, target_dir };
        if installed.works() {
            return Ok(installed);
        }
        let root = folder.join("debian");
        let debian = Self { debian: Some(root.clone()), ..installed };
        if !debian.works() {
            unpack(&root).context(format!(
                "no standard library for {TARGET} (rustup target add {TARGET}), and Debian's \
                 compiler can't be had"
            ))?;
        }
        ensure!(debian.works(), "the compiler that was unpacked into {} fails", root.display());
        let version = debian.version()?;
        let needed = env!("CARGO_PKG_RUST_VERSION");
        ensure!(minor(&version) >= minor(needed), "Debian's compiler is {version}, not {needed}");
        Ok(debian)
    }

    pub(super) fn target_dir(&self) -> &Path {
        &self.target_dir
    }

    pub(super) fn rustc(&self) -> Command {
        let installed = std::env::var_os("RUSTC").map_or("rustc".into(), PathBuf::from);
        let mut rustc = Command::new(self.debian.as_deref().map_or(installed, compiler));
        self.set_library_path(&mut rustc);
        rustc
    }

    pub(super) fn cargo(&self) -> Command {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.env("CARGO_TARGET_DIR", &self.target_dir);
        // The probes are linked by hand, by a linker that only accepts machine code.
        cargo.env("CARGO_PROFILE_RELEASE_LTO", "off");
        if let Some(root) = &self.debian {
            cargo.env("RUSTC", compiler(root));
            self.set_library_path(&mut cargo);
        }
        cargo
    }

    fn set_library_path(&self, command: &mut Command) {
        if let Some(root) = &self.debian {
            command.env("LD_LIBRARY_PATH", root.join("usr/lib/x86_64-linux-gnu"));
        }
    }

    /// Returns whether the compiler runs and has the target's standard library.
    fn works(&self) -> bool {
        let mut asked = self.rustc();
        asked.args(["--print", "target-libdir", "--target", TARGET]).stderr(Stdio::null());
        asked.output().is_ok_and(|out| {
            out.status.success() && Path::new(String::from_utf8_lossy(&out.stdout).trim()).is_dir()
        })
    }

    fn version(&self) -> Result<String> {
        let said = String::from_utf8(self.rustc().arg("--version").output()?.stdout)?;
        Ok(said.split(' ').nth(1).unwrap_or_default().to_owned())
    }
}

/// Returns Debian's `rustc` among its unpacked packages.
fn compiler(root: &Path) -> PathBuf {
    root.join("usr/bin/rustc")
}

/// Returns the middle number of a version.
fn minor(version: &str) -> Option<u32> {
    version.split('.').nth(1)?.parse().ok()
}

/// Fetches Debian's compiler with the standard libraries of both machines, and unpacks them: all of
/// them or, if something fails, none.
fn unpack(root: &Path) -> Result<()> {
    ensure!(cfg!(target_arch = "x86_64"), "it is fetched for x86-64 only");
    let fetched = root.with_extension("fetched");
    let archives = fetched.join("archives");
    let lists = fetched.join("lists");
    let unpacked = fetched.join("root");
    for folder in [&unpacked, &archives.join("partial"), &lists.join("partial")] {
        fs::create_dir_all(folder)?;
    }
    let apt = || {
        let mut apt = Command::new("apt-get");
        apt.args(["-q", "-y", "-o", "Debug::NoLocking=1"]);
        apt.args(["-o", "APT::Architectures::=amd64", "-o", "APT::Architectures::=arm64"]);
        apt.arg("-o").arg(format!("Dir::State::lists={}", lists.display()));
        apt.arg("-o").arg(format!("Dir::Cache={}", fetched.display()));
        apt.current_dir(&archives);
        apt
    };
    succeeds(apt().arg("update"))?;
    succeeds(apt().args(["install", "--download-only", "--no-install-recommends", "rustc-web"]))?;
    succeeds(apt().args(["download", "libstd-rust-web-dev:arm64"]))?;
    for entry in fs::read_dir(&archives)? {
        let package = entry?.path();
        if package.extension().is_some_and(|extension| extension == "deb") {
            succeeds(Command::new("dpkg-deb").arg("-x").arg(package).arg(&unpacked))?;
        }
    }
    fs::rename(unpacked, root)?;
    Ok(fs::remove_dir_all(&fetched)?)
}

/// Runs a command quietly; its complaints become the error.
pub(super) fn succeeds(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_owned();
    let out = command.output().with_context(|| format!("{} did not start", name.display()))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        let is_error = |line: &&str| line.starts_with("E: ") || line.starts_with("error");
        let error = said.lines().find(is_error).or(said.lines().last());
        bail!("{}: {}", name.display(), error.unwrap_or("failed"));
    }
    Ok(())
}
