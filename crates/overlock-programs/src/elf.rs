//! Can a program be preloaded at all? The answer comes from its file, before anything is started.
//!
//! `LD_PRELOAD` is a request to the dynamic loader. A static program has no loader; for a set-uid
//! or set-gid program, or one with file capabilities, the loader ignores the request, as it does if
//! the file is not a library. In all these cases the program would run with its own locks and the
//! figures would mean nothing. The loader of a C library other than glibc can't load the library.
//!
//! Source: ld.so(8), "Secure-execution mode"; execve(2) on `#!`.

use crate::kinds;
use anyhow::{Context, Result, bail};
use memchr::memmem;
use object::elf::{ELFCLASS64, ET_DYN, FileHeader64};
use object::read::elf::{FileHeader as _, ProgramHeader as _};
use object::{Endianness, ReadCache};
use rustix::fs::getxattr_query;
use rustix::process::{getgid, getuid};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const GROUP_EXECUTE: u32 = 0o010;

/// Why a sound program can't have other locks. It can still be traced.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Foreign(String);

/// Finds `program` as `execvp` would: as a path if it has a slash, otherwise along `PATH`.
pub fn find(program: impl AsRef<OsStr>) -> Result<PathBuf> {
    let (program, name) = (program.as_ref(), program.as_ref().display());
    if program.as_bytes().contains(&b'/') {
        let path = PathBuf::from(program);
        match fs::metadata(&path) {
            Ok(meta) if meta.is_dir() => bail!("{name} is a folder, not a program"),
            Ok(meta) if !is_executable(&meta) => {
                bail!("{name} is not executable; if it is a script, try: chmod +x {name}")
            }
            Ok(_) => return Ok(path),
            Err(error) => return Err(error).context(format!("can't run {name}")),
        }
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| fs::metadata(path).is_ok_and(|meta| meta.is_file() && is_executable(&meta)))
        .with_context(|| match program.as_bytes().starts_with(b"-") {
            true => format!("there is no option {name}; --help lists them"),
            false => format!("there is no program '{name}' in PATH"),
        })
}

fn is_executable(meta: &fs::Metadata) -> bool {
    meta.permissions().mode() & 0o111 != 0
}

/// Refuses the program at `path`, with a reason, if it can't be preloaded.
///
/// For a script the interpreter counts; with `#!/usr/bin/env NAME`, also `NAME`.
pub fn refuse(path: &Path) -> Result<()> {
    refuse_privileged(path)?;
    let mut file = File::open(path).with_context(|| format!("can't read {}", path.display()))?;
    let mut head = Vec::new();
    file.by_ref().take(256).read_to_end(&mut head)?;
    if let Some(line) = head.strip_prefix(b"#!") {
        return refuse_interpreter(path, line);
    }
    if !head.starts_with(b"\x7fELF") {
        bail!("{} is neither an ELF program nor a script with a #! line", path.display());
    }
    if head.get(4) != Some(&ELFCLASS64.0) {
        bail!(
            "{} is not a 64-bit program, so the 64-bit preload library can't be loaded into it",
            path.display()
        );
    }
    match loader(&file).with_context(|| format!("can't read {}", path.display()))? {
        None if kinds::is_go(path) => bail!(Foreign(format!(
            "{} is a Go program, statically linked: no lock can be preloaded into it, and linked \
             dynamically it would still use the locks of Go's runtime, which are no pthread locks",
            path.display()
        ))),
        None => bail!(Foreign(format!(
            "{} is statically linked: it has no dynamic loader that could preload a lock; link it \
             dynamically, or use the Rust crate or the C header",
            path.display()
        ))),
        Some(loader) if !is_glibcs(&loader) => bail!(Foreign(format!(
            "{} is linked with a C library other than glibc (its loader is {}), and the preload \
             library only knows glibc's locks; link it with glibc, or use the Rust crate or the C \
             header",
            path.display(),
            loader.escape_ascii()
        ))),
        Some(_) => Ok(()),
    }
}

/// Refuses the file at `path`, with a reason, if it isn't the preload library that was built with
/// this command. Returns whether it is a build for debugging.
pub(crate) fn refuse_library(path: &Path) -> Result<bool> {
    let bytes = fs::read(path).with_context(|| format!("can't read {}", path.display()))?;
    let kind =
        FileHeader64::<Endianness>::parse(&*bytes).and_then(|of| Ok(of.e_type(of.endian()?)));
    if kind != Ok(ET_DYN) {
        bail!("{} is not a 64-bit shared library: nothing would be preloaded", path.display());
    }
    let Some(mark) = library_mark(&bytes) else {
        bail!("{} is a library, but not Overlock's: no lock would change", path.display())
    };
    let mark = String::from_utf8_lossy(mark);
    let mut words = mark.split(' ');
    let [version, build, profile] = [(); 3].map(|()| words.next().unwrap_or_default());
    if version != env!("CARGO_PKG_VERSION") {
        bail!(
            "{} has version {version}, but this command has {}: use the library that came with it",
            path.display(),
            env!("CARGO_PKG_VERSION")
        );
    }
    if build != env!("OVERLOCK_BUILD") {
        bail!(
            "{} was built from other sources than this command; build both again:\n  cargo build \
             -p overlock-preload -p overlock-cli",
            path.display()
        );
    }
    Ok(profile == "debug")
}

/// Returns the version, the build and the profile of the preload library, if this is one: it writes
/// them into each line of counters.
fn library_mark(library: &[u8]) -> Option<&[u8]> {
    const MARK: &[u8] = b"\"library\":\"overlock-preload ";
    let (_, rest) = library.split_at_checked(memmem::find(library, MARK)? + MARK.len())?;
    Some(&rest[..memchr::memchr(b'"', rest)?])
}

/// Returns whether a path is that of glibc's dynamic loader, on the machines that the preload
/// library supports.
fn is_glibcs(loader: &[u8]) -> bool {
    let name = loader.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    name.starts_with(b"ld-linux")
}

/// The loader ignores LD_PRELOAD if the program gets a user or a group that is not the one that
/// starts it, or capabilities that this user lacks. Root has all of these.
fn refuse_privileged(path: &Path) -> Result<()> {
    let meta = fs::metadata(path).with_context(|| format!("can't read {}", path.display()))?;
    let (mode, user, group) = (meta.permissions().mode(), getuid().as_raw(), getgid().as_raw());
    let what = if mode & SET_UID != 0 && meta.uid() != user {
        "set-uid"
    } else if mode & SET_GID != 0 && mode & GROUP_EXECUTE != 0 && meta.gid() != group {
        "set-gid"
    } else if user != 0 && getxattr_query(path, c"security.capability").is_ok_and(|len| len > 0) {
        "privileged by file capabilities"
    } else {
        return Ok(());
    };
    bail!(
        "{} is {what}: the dynamic loader ignores LD_PRELOAD for such programs; make a copy \
         without the privilege and measure that",
        path.display()
    );
}

/// Checks the program that a `#!` line starts.
fn refuse_interpreter(script: &Path, line: &[u8]) -> Result<()> {
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let interpreter =
        words.next().with_context(|| format!("{} has an empty #! line", script.display()))?;
    let said = || format!("{} is run by {interpreter}", script.display());
    let path = find(interpreter).with_context(said)?;
    refuse(&path).with_context(said)?;
    if interpreter.ends_with("/env")
        && let Some(name) = words.find(|word| !word.starts_with('-') && !word.contains('='))
    {
        refuse(&find(name)?).with_context(|| format!("{} is run by {name}", script.display()))?;
    }
    Ok(())
}

/// Returns the path of the loader that the program names, if it names one.
fn loader(file: &File) -> object::Result<Option<Vec<u8>>> {
    let data = &ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(data)?;
    let endian = header.endian()?;
    for part in header.program_headers(endian, data)? {
        if let Some(path) = part.interpreter(endian, data)? {
            return Ok(Some(path.to_vec()));
        }
    }
    Ok(None)
}
