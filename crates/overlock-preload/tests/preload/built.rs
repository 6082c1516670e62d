//! The library that whole programs run with, for the tests of this crate and of the command.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The library under test, in the profile that the test was built in.
///
/// Cargo builds no `cdylib` for an integration test, so the first caller has it built.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: LazyLock<PathBuf> = LazyLock::new(|| {
        let test = std::env::current_exe().expect("the path of this test");
        let folder = test.parent().and_then(Path::parent).expect("TARGET/PROFILE/deps/TEST");
        let profile = match folder.file_name().and_then(OsStr::to_str).expect("a profile") {
            "debug" => "dev",
            profile => profile,
        };
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", "overlock-preload", "--profile", profile])
            .arg("--target-dir")
            .arg(folder.parent().expect("the target folder"))
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo runs this test");
        assert!(status.success(), "the library does not build");
        folder.join("liboverlock_preload.so")
    });
    &LIBRARY
}
