//! Everything that can be installed: an archive of files under one prefix, and a Debian package.
//!
//! ```text
//! PREFIX/bin/overlock                        the command
//!        lib/overlock/                       the preload library
//!        lib/, include/, lib/pkgconfig/      the C library, by crates/overlock-c/Makefile
//!        share/man/man1/                     a page for each verb
//!        share/{bash-completion,zsh,fish}/   completions
//!        share/doc/overlock/                 documents, experiments, licences, a test
//! ```

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::debian::clear;
use crate::{root, target};

mod notices;
mod package;
mod trial;

pub(crate) use trial::{check as check_in_roots, check_installed};

/// The licences, those of the crates that are linked among them.
const NOTICES: &str = "LICENSES";

const LIBRARY: &str = "liboverlock_preload.so";

const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "share/bash-completion/completions/overlock"),
    ("zsh", "share/zsh/site-functions/_overlock"),
    ("fish", "share/fish/vendor_completions.d/overlock.fish"),
];

const DOCUMENTS: [(&str, &str); 5] = [
    ("README.md", "README.md"),
    ("crates/overlock-cli/reference.md", "reference.md"),
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("packaging/test.sh", "test.sh"),
];

/// Builds everything, and writes the archive and the package to `target/dist`.
pub(crate) fn dist() -> Result<bool> {
    let built = build()?;
    let out = target()?.join("dist");
    let name = format!("overlock-{}-{}", version(), std::env::consts::ARCH);
    let stage = out.join(&name);
    clear(&stage)?;
    Layout { prefix: stage.clone(), pretended: "/usr/local".into(), libdir: "lib".into() }
        .install(&built)?;
    let archive = out.join(format!("{name}.tar.xz"));
    let mut tar = Command::new("tar");
    tar.args(["--owner=0", "--group=0", "--numeric-owner", "--sort=name", "--mode=go=rX"]);
    tar.arg(format!("--mtime=@{}", epoch()?)).env("XZ_OPT", "-T1").arg("-cJf").arg(&archive);
    succeeds(tar.arg("-C").arg(&out).arg(&name))?;
    println!("{}", archive.display());
    let package = package::package(&built, &out)?;
    println!("{}", package.display());
    Ok(true)
}

struct Layout {
    prefix: PathBuf,
    /// The prefix as installed files name it.
    pretended: String,
    /// The folder of libraries for the linker, below the prefix.
    libdir: String,
}

impl Layout {
    /// Copies all files from cargo's folder `built`.
    fn install(&self, built: &Path) -> Result<()> {
        let overlock = built.join("overlock");
        self.program(&overlock, "bin/overlock")?;
        self.preload_library(&overlock)?;
        self.c_library(&built.with_file_name("small"))?;
        let pages = self.prefix.join("share/man/man1");
        succeeds(Command::new(&overlock).arg("man-pages").arg(&pages))?;
        for (shell, file) in COMPLETIONS {
            let output = Command::new(&overlock).args(["completions", shell]).output()?;
            ensure!(output.status.success(), "overlock completions {shell} failed");
            write(&self.prefix.join(file), &output.stdout)?;
        }
        for (from, name) in DOCUMENTS {
            let to = self.prefix.join("share/doc/overlock").join(name);
            copy(&root().join(from), &to, 0o644)?;
        }
        let notices = self.prefix.join("share/doc/overlock").join(NOTICES);
        write(&notices, notices::notices()?.as_bytes())?;
        self.experiments()
    }

    /// The files of the experiments that are built in, as models for the user's own.
    fn experiments(&self) -> Result<()> {
        for file in files(&root().join("experiments"))? {
            if file.ends_with(".toml") {
                let to = self.prefix.join("share/doc/overlock/experiments").join(&file);
                copy(&root().join("experiments").join(&file), &to, 0o644)?;
            }
        }
        Ok(())
    }

    fn program(&self, from: &Path, name: &str) -> Result<()> {
        let to = self.prefix.join(name);
        copy(from, &to, 0o755)?;
        // The names of functions stay: the laboratory uses them to show where a guest has failed.
        strip(&to, "--strip-debug")
    }

    /// Writes the library that the command contains, for it uses no other: doctor looks for an
    /// installed one, and unpacks its own into the user's cache.
    fn preload_library(&self, overlock: &Path) -> Result<()> {
        let scratch = tempfile::tempdir()?;
        let mut doctor = Command::new(overlock);
        doctor.arg("doctor").env("XDG_CACHE_HOME", scratch.path()).env_remove("OVERLOCK_PRELOAD");
        let said = doctor.output().context("can't run the command that was built")?;
        ensure!(said.status.success(), "failed: {doctor:?}");
        let unpacked = scratch.path().join("overlock").join(version()).join(LIBRARY);
        copy(&unpacked, &self.prefix.join("lib/overlock").join(LIBRARY), 0o644)
    }

    fn c_library(&self, built: &Path) -> Result<()> {
        let libs = self.prefix.join(&self.libdir);
        // `make` writes to DESTDIR/PREFIX; a link makes that our folder.
        let scratch = tempfile::tempdir()?;
        let destination = scratch.path().join("d");
        let pretended = destination.join(self.pretended.trim_start_matches('/'));
        fs::create_dir_all(pretended.parent().context("a prefix is a folder")?)?;
        fs::create_dir_all(&self.prefix)?;
        symlink(&self.prefix, &pretended)?;
        let mut make = Command::new("make");
        make.arg("-C").arg(root().join("crates/overlock-c")).args(["--quiet", "install"]);
        make.arg(format!("PREFIX={}", self.pretended));
        make.arg(format!("LIBDIR={}/{}", self.pretended, self.libdir));
        make.arg(format!("DESTDIR={}", destination.display()));
        make.arg(format!("BUILT={}", built.display())).arg(format!("CARGO={}", env!("CARGO")));
        succeeds(&mut make)?;
        strip(&libs.join("liboverlock.a"), "--strip-debug")?;
        strip(&libs.join(format!("liboverlock.so.{}", version())), "--strip-unneeded")
    }
}

/// Builds the packages to install; returns the folder that they are in.
fn build() -> Result<PathBuf> {
    let program = ["--release", "-p", "overlock-cli"];
    let c_library = ["--profile", "small", "--no-default-features", "-p", "overlock-c"];
    for packages in [&program[..], &c_library] {
        let mut cargo = Command::new(env!("CARGO"));
        succeeds(cargo.args(["build", "--locked"]).args(packages).current_dir(root()))?;
    }
    Ok(target()?.join("release"))
}

/// The time that all packed files have, so that the same source makes the same bytes: the last
/// commit's, unless `SOURCE_DATE_EPOCH` names another.
fn epoch() -> Result<String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let mut git = Command::new("git");
    let said = git.args(["log", "-1", "--format=%ct"]).current_dir(root()).output()?;
    ensure!(said.status.success(), "this is no clone: set SOURCE_DATE_EPOCH to a time");
    Ok(String::from_utf8(said.stdout)?.trim().to_owned())
}

fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

/// Returns all files and links below a folder, by their paths from it.
fn files(folder: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                found.push(path.strip_prefix(folder)?.display().to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    let bytes = fs::read(from).with_context(|| format!("can't read {}", from.display()))?;
    // Not over the old file, because a program may run it.
    let _ = fs::remove_file(to);
    write(to, &bytes)?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode))?;
    Ok(())
}

fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    fs::create_dir_all(to.parent().context("a file is in a folder")?)
        .and_then(|()| fs::write(to, bytes))
        .with_context(|| format!("can't write {}", to.display()))
}

fn strip(file: &Path, how: &str) -> Result<()> {
    succeeds(Command::new("strip").arg(how).arg(file))
}

fn succeeds(command: &mut Command) -> Result<()> {
    let name = command.get_program().display().to_string();
    let status = command.status().with_context(|| format!("can't run {name}; is it installed?"))?;
    ensure!(status.success(), "failed: {command:?}");
    Ok(())
}
