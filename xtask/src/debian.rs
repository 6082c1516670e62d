//! Minimal Debian roots, unpacked once below cargo's target folder and kept: another libc, and a
//! machine without Overlock. They need root, `debootstrap`, and Debian's archive.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::target;

/// Debian 12 and 13.
pub(crate) const SUITES: [&str; 2] = ["bookworm", "trixie"];

/// A root, or the reason why there can be none here.
pub(crate) enum Root {
    Unpacked(PathBuf),
    Impossible(String),
}

/// Returns the root of a suite; unpacks it unless an earlier run has.
pub(crate) fn root_of(suite: &str) -> Result<Root> {
    let user = Command::new("id").arg("-u").output().context("no coreutils")?;
    if user.stdout.trim_ascii() != b"0" {
        return Ok(Root::Impossible(format!("only root can run programs in a {suite} root")));
    }
    let folder = target()?.join("roots").join(suite);
    let done = folder.join("done");
    if done.exists() {
        return Ok(Root::Unpacked(folder));
    }
    if Command::new("debootstrap").arg("--version").output().is_err() {
        return Ok(Root::Impossible("debootstrap is not installed".into()));
    }
    clear(&folder)?;
    std::fs::create_dir_all(&folder)?;
    let mut debootstrap = Command::new("debootstrap");
    // It reports each package that it unpacks on standard output, and errors on standard error.
    debootstrap.args(["--variant=minbase", suite]).arg(&folder).stdout(Stdio::null());
    if !debootstrap.status()?.success() {
        return Ok(Root::Impossible(format!(
            "debootstrap could not make a root of {suite}; can it reach an archive?"
        )));
    }
    std::fs::write(done, "")?;
    Ok(Root::Unpacked(folder))
}

/// Runs a command in a root that has its own `/proc` for that time.
pub(crate) fn inside(folder: &Path, words: &[&str]) -> Command {
    let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" /usr/bin/env \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(folder).args(words);
    command
}

pub(crate) fn clear(folder: &Path) -> Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("can't remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}
