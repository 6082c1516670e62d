// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does an installed Overlock serve the README's programs, found by pkg-config and linked both
//! ways?

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{self, C, CXX, Compiler};

/// Returns the README's code blocks in one language.
fn examples(language: &str) -> Vec<String> {
    let readme = fs::read_to_string(support::package().join("README.md")).expect("a README");
    let fence = format!("```{language}\n");
    let blocks = readme.split(&fence).skip(1);
    blocks.map(|rest| rest.split("```").next().expect("a block ends").to_owned()).collect()
}

/// Installs below `prefix` what cargo has built.
fn install(prefix: &Path) {
    let mut make = Command::new("make");
    make.arg("-C").arg(support::package()).arg("install");
    make.arg(format!("PREFIX={}", prefix.display()));
    make.arg(format!("BUILT={}", support::built().display()));
    support::succeeds(&mut make);
}

/// Returns what pkg-config prints about the installed library.
fn pkg_config(prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new("pkg-config");
    command.args(arguments).arg("overlock");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    support::succeeds(&mut command).split_whitespace().map(str::to_owned).collect()
}

/// Compiles a program against the installation with these libraries, and runs it. The dynamic
/// linker looks in `path`.
fn runs(compiler: Compiler, prefix: &Path, source: &Path, libs: &[String], path: &Path) {
    let program = prefix.join("program");
    let mut command = Command::new(compiler.name);
    command.args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2"]);
    command.args(pkg_config(prefix, &["--cflags"])).arg(source).args(libs);
    support::succeeds(command.arg("-o").arg(&program));
    let out = support::run(Command::new(&program).env("LD_LIBRARY_PATH", path));
    assert!(out.status.success(), "{}: {compiler:?}, {libs:?}: {out:?}", source.display());
}

#[test]
fn the_readme_s_programs_compile_and_run_with_an_installed_library() {
    for tool in ["make", "pkg-config"] {
        if !support::is_present(tool) {
            return support::skip(&format!("the installation: there is no {tool}"));
        }
    }
    let folder = tempfile::tempdir().expect("a folder to install to");
    let prefix = folder.path();
    install(prefix);
    assert_eq!(pkg_config(prefix, &["--modversion"]), [env!("CARGO_PKG_VERSION")]);

    let shared = pkg_config(prefix, &["--libs"]);
    let mut fixed = pkg_config(prefix, &["--variable=libdir"]);
    fixed[0] += "/liboverlock.a";
    fixed.extend(support::private_libs());

    for (language, compilers) in [("c", C.compilers()), ("cpp", CXX.compilers())] {
        let sources = examples(language);
        assert!(!sources.is_empty(), "the README has an example in {language}");
        for (number, text) in sources.iter().enumerate() {
            let source = prefix.join(format!("example{number}.{language}"));
            fs::write(&source, text).expect("a source file");
            for compiler in &compilers {
                runs(*compiler, prefix, &source, &shared, &prefix.join("lib"));
                runs(*compiler, prefix, &source, &fixed, Path::new("/nowhere"));
            }
        }
    }
}
