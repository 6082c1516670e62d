//! The preload library: which file is it, and by which path can it be loaded?
//!
//! A command uses the library that was built with it, and no other: figures of a library that was
//! built in another way, or from other sources, would pass for those of this one. A release build
//! contains its library. A debug build finds it beside itself, where cargo puts it.

use crate::interrupt::FileWatch;
use crate::{bundle, elf};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const NAME: &str = "liboverlock_preload.so";

/// The variable that names the library's file if it isn't in one of its usual places.
const OVERRIDE: &str = "OVERLOCK_PRELOAD";

/// The folder of an installed library, relative to this program's.
const INSTALLED: &str = "../lib/overlock";

/// The folders where cargo builds it, likewise: for tests, the program is in `deps` itself.
const BUILT: [&str; 2] = [".", "deps"];

/// What LD_PRELOAD can't contain in a path: its separators, and the sign of what the loader
/// replaces. None of them can be escaped (ld.so(8)).
const UNSAFE: [u8; 3] = [b' ', b':', b'$'];

#[derive(Debug)]
pub struct Library {
    pub path: PathBuf,
    /// Whether it is a build for debugging, which is slower.
    pub is_debug: bool,
    /// A folder with a link to it, if its own path can't be loaded; removed at the end.
    link: Option<(TempDir, FileWatch)>,
}

impl Library {
    /// Finds the library: the one that the variable names, the one inside this program, the one
    /// installed with it, or the one that cargo has built beside it.
    pub fn find() -> Result<Self> {
        let path = locate()?;
        let is_debug = elf::refuse_library(&path)?;
        let link = match is_loadable(&path) {
            true => None,
            false => {
                let link = in_new_folder(NAME, &|link| symlink(&path, link));
                Some(link.with_context(|| {
                    format!(
                        "LD_PRELOAD can't name {}, because its path contains a space, a colon or a \
                         dollar sign; set XDG_CACHE_HOME or TMPDIR to a folder without them",
                        path.display()
                    )
                })?)
            }
        };
        Ok(Library { path, is_debug, link })
    }

    pub fn loadable(&self) -> PathBuf {
        self.link.as_ref().map_or_else(|| self.path.clone(), |(folder, _)| folder.path().join(NAME))
    }

    pub fn describe(&self) -> String {
        let debug = if self.is_debug { " (a debug build, which is slower)" } else { "" };
        format!("{}{debug}", self.path.display())
    }
}

fn locate() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(OVERRIDE) {
        let path = PathBuf::from(path);
        let path = path
            .canonicalize()
            .and_then(|path| File::open(&path).map(|_| path))
            .with_context(|| format!("{OVERRIDE} names {}, which can't be read", path.display()))?;
        elf::refuse_library(&path).with_context(|| format!("{OVERRIDE} names the wrong file"))?;
        return Ok(path);
    }
    let program = std::env::current_exe().context("can't tell where this program is")?;
    let folder = program.parent().context("this program is in no folder")?;
    let file = |place: &str| folder.join(place).join(NAME).canonicalize().ok();
    if bundle::is_here() {
        // An installed file of the same bytes needs no copy in the user's cache.
        let installed = file(INSTALLED).filter(|path| bundle::is_same(path));
        return installed.map_or_else(|| bundle::unpacked(NAME), Ok);
    }
    if let Some(installed) = file(INSTALLED) {
        elf::refuse_library(&installed).context("the installation is of two versions")?;
        return Ok(installed);
    }
    BUILT.iter().find_map(|place| file(place)).with_context(|| {
        format!(
            "there is no {NAME} beside {}, nor in {INSTALLED}, and a build without --release \
             contains none; build it with\n  cargo build -p overlock-preload\nor name it in {OVERRIDE}",
            program.display()
        )
    })
}

/// A library that this program contains, as a file for as long as this lives.
#[derive(Debug)]
pub struct Unpacked {
    folder: TempDir,
    name: &'static str,
    _watch: FileWatch,
}

impl Unpacked {
    pub fn new(name: &'static str, bytes: &[u8]) -> Result<Self> {
        let (folder, _watch) = in_new_folder(name, &|file| fs::write(file, bytes))?;
        Ok(Unpacked { folder, name, _watch })
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }
}

/// Returns the value of LD_PRELOAD with a library in front of those that it names already.
pub fn preload_list(library: &Path) -> OsString {
    let mut list = library.as_os_str().to_owned();
    if let Some(others) = std::env::var_os("LD_PRELOAD").filter(|list| !list.is_empty()) {
        list.push(":");
        list.push(others);
    }
    list
}

fn is_loadable(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| UNSAFE.contains(byte))
}

/// Makes a file in a new folder whose path can be loaded, also by processes of other users.
fn in_new_folder(
    name: &'static str,
    make: &dyn Fn(&Path) -> io::Result<()>,
) -> Result<(TempDir, FileWatch)> {
    let candidates = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()];
    for parent in candidates.iter().filter(|parent| is_loadable(parent)) {
        let made = tempfile::Builder::new().prefix("overlock-").tempdir_in(parent);
        if let Ok(folder) = made
            && fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).is_ok()
            && make(&folder.path().join(name)).is_ok()
        {
            let watch = FileWatch::new(folder.path(), name);
            return Ok((folder, watch));
        }
    }
    bail!("there is no folder to put {name} into: set TMPDIR to one")
}
