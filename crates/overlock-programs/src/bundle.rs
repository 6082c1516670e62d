//! The preload library that a release build contains.
//!
//! The dynamic loader needs a file. It is written once, below the user's cache folder, and checked
//! each time: it must equal the one that is built in byte for byte. Renaming the file into its
//! place leaves programs alone that have an older one loaded.

use anyhow::{Context, Result};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Empty in builds that contain none.
const LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/liboverlock_preload.so"));

pub(crate) fn is_here() -> bool {
    !LIBRARY.is_empty()
}

pub(crate) fn is_same(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes == LIBRARY)
}

/// Returns the file of the library; writes it if necessary.
pub(crate) fn unpacked(name: &str) -> Result<PathBuf> {
    let folder = cache()?.join("overlock").join(env!("CARGO_PKG_VERSION"));
    let path = folder.join(name);
    if is_same(&path) {
        return Ok(path);
    }
    write(&folder, &path).with_context(|| {
        format!(
            "can't keep the preload library in {}; set XDG_CACHE_HOME to a writable folder, or \
             OVERLOCK_PRELOAD to the library's file",
            folder.display()
        )
    })?;
    Ok(path)
}

fn write(folder: &Path, path: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut draft = tempfile::NamedTempFile::new_in(folder)?;
    draft.write_all(LIBRARY)?;
    draft.as_file().set_permissions(fs::Permissions::from_mode(0o644))?;
    draft.persist(path)?;
    Ok(())
}

/// The user's cache folder, by the XDG Base Directory Specification.
fn cache() -> Result<PathBuf> {
    let named = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    named("XDG_CACHE_HOME")
        .or_else(|| Some(named("HOME")?.join(".cache")))
        .context("set XDG_CACHE_HOME to a folder to keep the preload library in: HOME names none")
}
