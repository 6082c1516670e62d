//! The notices of the crates that the command contains: their licences ask that copies carry them.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::root;

/// The licences of Overlock, and a section for each crate: its version, its licence, and the texts
/// that it comes with.
pub(super) fn notices() -> Result<String> {
    let tree = ["tree", "-p", "overlock-cli", "--edges", "normal", "--prefix", "none"];
    let tree = cargo(&[&tree[..], &["--no-dedupe", "--format", "{p}|{l}"]].concat())?;
    let known: Value = serde_json::from_str(&cargo(&["metadata", "--format-version", "1"])?)?;
    let known = known["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut said = fs::read_to_string(root().join("LICENSE-MIT"))?;
    said.push_str(
        "\nOr, as you choose, the Apache License 2.0: the file LICENSE-APACHE beside this one, or \
         /usr/share/common-licenses/Apache-2.0 on Debian.\n\
         The programs contain Rust's standard library (MIT OR Apache-2.0), and these crates:\n",
    );
    for line in tree.lines().collect::<BTreeSet<_>>() {
        let (package, licence) = line.split_once('|').context("cargo tree prints no licence")?;
        let mut words = package.split(' ');
        let name = words.next().unwrap_or_default();
        let version = words.next().unwrap_or_default().trim_start_matches('v');
        let of = |package: &&Value| package["name"] == name && package["version"] == version;
        let package = known.iter().find(of).with_context(|| format!("no metadata of {name}"))?;
        if package["source"].is_null() {
            continue;
        }
        let folder = Path::new(package["manifest_path"].as_str().unwrap_or_default());
        let folder = folder.parent().context("a manifest is in a folder")?;
        write!(said, "\n{name} {version}: {licence}\n")?;
        let texts = texts(folder)?;
        texts.iter().try_for_each(|text| write!(said, "\n{}\n", text.trim_end()))?;
        if texts.is_empty() {
            writeln!(said, "\nIt comes without a text. Its authors: {}", package["authors"])?;
        }
    }
    Ok(said)
}

/// The texts of licences in a crate's folder, without Apache's if MIT's is there to choose.
fn texts(folder: &Path) -> Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string()));
    let mut names: Vec<String> = names.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    let first = ["LICEN", "COPYING", "NOTICE", "UNLICENSE"];
    names.retain(|name| first.iter().any(|first| name.to_uppercase().starts_with(first)));
    names.sort();
    if names.iter().any(|name| name.contains("MIT")) {
        names.retain(|name| !name.contains("APACHE"));
    }
    names.iter().map(|name| Ok(fs::read_to_string(folder.join(name))?)).collect()
}

fn cargo(args: &[&str]) -> Result<String> {
    let output =
        Command::new(env!("CARGO")).args(args).arg("--locked").current_dir(root()).output()?;
    ensure!(
        output.status.success(),
        "cargo {} failed: {}",
        args[0],
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_crate_that_is_linked_has_its_notice() {
        let all = notices().unwrap();
        for name in ["clap_builder", "libc", "serde_json", "unicode-ident", "vmm-sys-util"] {
            let (_, section) = all.split_once(&format!("\n{name} ")).expect(name);
            assert!(section.lines().take(30).any(|line| line.contains("opyright")), "{name}");
        }
        assert!(!all.contains("\noverlock-"));
    }
}
