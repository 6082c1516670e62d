//! The Debian package: the files of an installation under /usr, and dpkg's metadata.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::{Layout, epoch, files, succeeds, version, write};
use crate::debian::clear;

const MAINTAINER: &str = "The Overlock authors <overlock@localhost>";

pub(super) fn package(built: &Path, out: &Path) -> Result<PathBuf> {
    let (architecture, triplet) = match std::env::consts::ARCH {
        "x86_64" => ("amd64", "x86_64-linux-gnu"),
        "aarch64" => ("arm64", "aarch64-linux-gnu"),
        other => bail!("there is no Debian package for {other}"),
    };
    let stage = out.join("debian");
    clear(&stage)?;
    let usr = stage.join("usr");
    let libdir = format!("lib/{triplet}");
    Layout { prefix: usr.clone(), pretended: "/usr".into(), libdir: libdir.clone() }
        .install(built)?;
    // Debian requires one file of licences.
    let documents = usr.join("share/doc/overlock");
    fs::rename(documents.join(super::NOTICES), documents.join("copyright"))?;
    fs::remove_file(documents.join("LICENSE-MIT"))?;
    let completions = usr.join("share/zsh");
    fs::rename(completions.join("site-functions"), completions.join("vendor-completions"))?;

    let library = format!("{libdir}/liboverlock.so.{}", version());
    fs::set_permissions(usr.join(&library), fs::Permissions::from_mode(0o644))?;
    write(&documents.join("changelog"), changelog()?.as_bytes())?;
    write(&usr.join("share/lintian/overrides/overlock"), OVERRIDES.as_bytes())?;
    succeeds(Command::new("gzip").arg("-9n").arg(documents.join("changelog")))?;

    let programs =
        ["bin/overlock".to_owned(), "lib/overlock/liboverlock_preload.so".to_owned(), library];
    let glibc = programs.iter().map(|file| newest_glibc(&usr.join(file)));
    let glibc = glibc.collect::<Result<Vec<_>>>()?.into_iter().max().context("no program")?;
    let control = control(architecture, glibc, size_kib(&usr)?);
    let meta = stage.join("DEBIAN");
    write(&meta.join("control"), control.as_bytes())?;
    // The dynamic linker's cache must contain the shared library.
    write(&meta.join("triggers"), b"activate-noawait ldconfig\n")?;
    // What is linked with the library depends on this package.
    write(&meta.join("shlibs"), b"liboverlock 0.1 overlock\n")?;
    write(&meta.join("md5sums"), sums(&stage)?.as_bytes())?;
    let package = out.join(format!("overlock_{}_{architecture}.deb", version()));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(&stage).arg(&package);
    succeeds(dpkg.env("SOURCE_DATE_EPOCH", epoch()?).stdout(std::process::Stdio::null()))?;
    Ok(package)
}

fn control(architecture: &str, (major, minor): (u32, u32), kib: u64) -> String {
    format!(
        "Package: overlock\n\
         Version: {}\n\
         Architecture: {architecture}\n\
         Maintainer: {MAINTAINER}\n\
         Section: devel\n\
         Priority: optional\n\
         Installed-Size: {kib}\n\
         Depends: libc6 (>= {major}.{minor}), libgcc-s1\n\
         Description: locks for CPUs that get taken away\n \
         Ticket, queued and hybrid locks whose waiters spin, halt and are kicked,\n \
         for C and C++, and for any dynamically linked program by LD_PRELOAD; with\n \
         a command that tells why threads wait, and measures and compares locks.\n",
        version()
    )
}

/// What Debian's checker need not say of a package that has all in one.
const OVERRIDES: &str = "\
# `overlock VERB --help` is the manual.
overlock: no-manual-page [usr/bin/overlock]
# The names of functions show where a guest of the laboratory has failed.
overlock: unstripped-binary-or-object [usr/bin/overlock]
# The command, the library and its header are one package.
overlock: package-name-doesnt-match-sonames *
overlock: link-to-shared-library-in-wrong-package *
";

/// The changelog that Debian asks for; the project's own is CHANGELOG.md.
fn changelog() -> Result<String> {
    let date = Command::new("date").args(["-uR", "-d"]).arg(format!("@{}", epoch()?)).output()?;
    ensure!(date.status.success(), "SOURCE_DATE_EPOCH is no time");
    let date = String::from_utf8(date.stdout)?;
    Ok(format!(
        "overlock ({}) unstable; urgency=medium\n\n  * Built from the project's source.\n\n \
         -- {MAINTAINER}  {date}",
        version()
    ))
}

/// Returns the newest version of glibc whose symbols a file needs.
fn newest_glibc(file: &Path) -> Result<(u32, u32)> {
    let output = Command::new("objdump").arg("-T").arg(file).output();
    let output = output.context("can't run objdump; install binutils")?;
    ensure!(output.status.success(), "objdump can't read {}", file.display());
    let text = String::from_utf8_lossy(&output.stdout);
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit()).take(2).map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    });
    versions.max().with_context(|| format!("{} needs no glibc", file.display()))
}

fn size_kib(folder: &Path) -> Result<u64> {
    let sizes = files(folder)?;
    let bytes = sizes.iter().filter_map(|file| fs::symlink_metadata(folder.join(file)).ok());
    Ok(bytes.map(|meta| meta.len().div_ceil(1024)).sum())
}

/// Returns the lines of `md5sum` for all files.
fn sums(stage: &Path) -> Result<String> {
    let mut names = files(&stage.join("usr"))?;
    names.retain(|name| !stage.join("usr").join(name).is_symlink());
    let names = names.iter().map(|name| format!("usr/{name}"));
    let output = Command::new("md5sum").args(names).current_dir(stage).output()?;
    ensure!(output.status.success(), "md5sum failed");
    Ok(String::from_utf8(output.stdout)?)
}
