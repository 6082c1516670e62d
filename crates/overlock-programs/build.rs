//! Builds the preload library into this crate, so that the command is one file that needs no other.
//!
//! A library that programs preload can't be a dependency in Cargo's sense: its functions would
//! replace libc's in the very command. So it is built here, as a separate package: its sources
//! come along with this one's (`preload/`), and this package depends on all of its dependencies
//! too, so that nothing is downloaded. This happens only in release builds: during development the
//! library is found beside the command.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

include!("preload/fingerprint.rs");

fn main() {
    println!("cargo::rerun-if-changed=preload");
    // A package of a registry has none beside it.
    if Path::new("../overlock/src").exists() {
        println!("cargo::rerun-if-changed=../overlock/src");
    }
    let build = fingerprint(Path::new("preload/src"), Path::new("../overlock/src"));
    println!("cargo::rustc-env=OVERLOCK_BUILD={build}");
    println!("cargo::metadata=BUILD={build}");
    let out = PathBuf::from(variable("OUT_DIR"));
    let library = match is_bundled() {
        true => fs::read(build_preload(&out, &build)).expect("the library was just built"),
        false => Vec::new(),
    };
    write(&out.join("liboverlock_preload.so"), &library).expect("can't write to OUT_DIR");
}

fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("cargo sets {name}"))
}

/// Returns whether this build contains the library: on supported targets, in release builds.
fn is_bundled() -> bool {
    let is = |name: &str, values: &[&str]| values.contains(&variable(name).as_str());
    is("PROFILE", &["release"])
        && is("CARGO_CFG_TARGET_OS", &["linux"])
        && is("CARGO_CFG_TARGET_ENV", &["gnu"])
        && is("CARGO_CFG_TARGET_ARCH", &["x86_64", "aarch64"])
}

/// Builds the library as a separate package below `out`.
fn build_preload(out: &Path, build: &str) -> PathBuf {
    let here = PathBuf::from(variable("CARGO_MANIFEST_DIR"));
    let (package, target, triple) = (out.join("preload"), out.join("target"), variable("TARGET"));
    copy(&here.join("preload"), &package).expect("can't copy the library's sources");
    write(&package.join("Cargo.toml"), manifest(&here).as_bytes()).expect("can't write to OUT_DIR");
    let mut cargo = Command::new(variable("CARGO"));
    cargo.args(["build", "--release", "--offline", "--target", &triple, "--target-dir"]);
    cargo.arg(&target).current_dir(&package).env("OVERLOCK_BUILD", build);
    // The settings of `cargo clippy` and of this very build.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "CARGO_TARGET_DIR", "CARGO_BUILD_TARGET"] {
        cargo.env_remove(name);
    }
    let built = cargo.output().expect("cargo runs this");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the preload library does not build:\n{said}");
    target.join(triple).join("release/liboverlock_preload.so")
}

/// Makes the manifest of that package: `overlock` is the crate beside this one, or the published
/// one of the same version.
fn manifest(here: &Path) -> String {
    let version = variable("CARGO_PKG_VERSION");
    let beside = here.join("../overlock");
    let overlock = match beside.join("Cargo.toml").is_file() {
        true => format!("path = {:?}", beside.display().to_string()),
        false => format!("version = \"={version}\""),
    };
    format!(
        r#"[workspace]

[package]
name = "overlock-preload"
version = "{version}"
edition = "2024"

[lib]
crate-type = ["cdylib"]

[dependencies]
overlock = {{ {overlock}, features = ["threads"] }}
libc = {{ version = "0.2", default-features = false }}

[build-dependencies]
cc = "1"

[profile.release]
lto = "thin"
codegen-units = 1
strip = true
"#
    )
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        if path.is_dir() {
            copy(&path, &to.join(name))?;
        } else {
            write(&to.join(name), &fs::read(path)?)?;
        }
    }
    Ok(())
}

/// Writes a file, unless its content is unchanged: its time tells cargo what has changed.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match fs::read(path) {
        Ok(old) if old == bytes => Ok(()),
        _ => fs::write(path, bytes),
    }
}
