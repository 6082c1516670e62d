//! Does an installed Overlock serve the programs of README and manual, found by pkg-config and
//! linked both ways?

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{self, C, CXX, Compiler};

/// Returns the README and the manual.
fn documents() -> String {
    let read = |name| fs::read_to_string(support::package().join(name)).expect(name);
    ["README.md", "MANUAL.md"].map(read).concat()
}

/// Returns the documents' code blocks in one language.
fn examples(language: &str) -> Vec<String> {
    let text = documents();
    let fence = format!("```{language}\n");
    let blocks = text.split(&fence).skip(1);
    blocks.map(|rest| rest.split("```").next().expect("a block ends").to_owned()).collect()
}

/// The libraries as they are installed, which cargo does not build for a test.
fn small() -> PathBuf {
    let target = support::built().join("../..");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--profile", "small", "--no-default-features"]);
    cargo.args(["--package", env!("CARGO_PKG_NAME"), "--target-dir"]).arg(&target);
    support::succeeds(cargo.current_dir(support::package()));
    target.join("small")
}

fn install(prefix: &Path, built: &Path) {
    let mut make = Command::new("make");
    make.arg("-C").arg(support::package()).arg("install");
    make.arg(format!("PREFIX={}", prefix.display()));
    make.arg(format!("BUILT={}", built.display()));
    support::succeeds(&mut make);
}

/// The most bytes that the installed libraries may have: half as much again as they had on x86-64.
const LARGEST: [(&str, u64); 2] = [("liboverlock.so", 110_000), ("liboverlock.a", 230_000)];

/// Parts of the names that only Rust's standard library has, and of the unwinder's.
const FOREIGN: [&str; 4] = ["3std", "gimli", "backtrace", "_Unwind_"];

/// Returns what is wrong with the size and the contents of installed libraries.
fn faults(prefix: &Path) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, most) in LARGEST {
        let library = prefix.join("lib").join(name);
        let size = fs::metadata(&library).expect("an installed library").len();
        if size > most {
            faults.push(format!("{name} has {size} bytes"));
        }
        let mut nm = Command::new("nm");
        nm.args(if name.ends_with(".so") { &["--dynamic"][..] } else { &[] }).arg(library);
        let symbols = support::succeeds(&mut nm);
        let foreign = symbols.lines().filter(|line| FOREIGN.iter().any(|part| line.contains(part)));
        faults.extend(foreign.map(|line| format!("{name} has {line}")));
    }
    faults
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
    install(prefix, &small());
    assert_eq!(faults(prefix), [""; 0]);
    assert_eq!(pkg_config(prefix, &["--modversion"]), [env!("CARGO_PKG_VERSION")]);

    let mut size = Command::new("size");
    let sizes = support::succeeds(size.arg(prefix.join("lib/liboverlock.so")));
    let zeros = sizes.lines().nth(1).and_then(|line| line.split_whitespace().nth(2));
    let zeros: f64 = zeros.and_then(|bytes| bytes.parse().ok()).expect("text, data, bss");
    assert!(documents().contains(&format!("has {:.1} MB of tables", zeros / 1e6)), "{zeros} bytes");

    let shared = pkg_config(prefix, &["--libs"]);
    let mut fixed = pkg_config(prefix, &["--variable=libdir"]);
    fixed[0] += "/liboverlock.a";
    fixed.push("-pthread".to_owned());
    let all_static = [&["-static".to_owned()][..], &pkg_config(prefix, &["--static", "--libs"])];
    let all_static = all_static.concat();

    for (language, compilers) in [("c", C.compilers()), ("cpp", CXX.compilers())] {
        let sources = examples(language);
        assert!(!sources.is_empty(), "the documents have an example in {language}");
        for (number, text) in sources.iter().enumerate() {
            let source = prefix.join(format!("example{number}.{language}"));
            fs::write(&source, text).expect("a source file");
            for compiler in &compilers {
                runs(*compiler, prefix, &source, &shared, &prefix.join("lib"));
                for libs in [&fixed, &all_static] {
                    runs(*compiler, prefix, &source, libs, Path::new("/nowhere"));
                }
            }
        }
    }
}

#[test]
fn libraries_with_rust_s_standard_library_are_too_large() {
    for tool in ["make", "nm"] {
        if !support::is_present(tool) {
            return support::skip(&format!("the size of libraries: there is no {tool}"));
        }
    }
    let folder = tempfile::tempdir().expect("a folder to install to");
    install(folder.path(), &support::built());
    let faults = faults(folder.path());
    for (name, _) in LARGEST {
        assert!(faults.iter().any(|fault| fault.contains("bytes") && fault.contains(name)));
        assert!(faults.iter().any(|fault| fault.contains("_Unwind") && fault.contains(name)));
    }
}
