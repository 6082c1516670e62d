//! A public type has a name of its own in the workspace, so that a search finds one.

use std::collections::{BTreeMap, BTreeSet};

use super::File;

/// Crates that offer the names of others, or of std, on our locks.
const FACADES: [&str; 4] = ["overlock", "overlock-c", "overlock-parking-lot", "overlock-spin"];

/// Names that several crates have already. Rename a type rather than add to these.
const KNOWN: &str = "\
    Clock Config Error Event Guest Lengths Lock Nanos Oracle Outcome \
    Published Report Row Standing State Vcpu Verdict";

fn known() -> impl Iterator<Item = &'static str> {
    KNOWN.split(' ')
}

/// Returns the names of public types that stand in several files.
pub(super) fn repeated(files: &[File]) -> Vec<String> {
    let mut places: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let Some((name, _)) =
            file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        if !FACADES.contains(&name) {
            for of in file.text.lines().filter_map(public_type) {
                places.entry(of).or_default().insert(&file.path);
            }
        }
    }
    let repeated =
        places.iter().filter(|(name, files)| files.len() > 1 && known().all(|of| of != **name));
    let told = repeated.map(|(name, files)| {
        let files: Vec<&str> = files.iter().copied().collect();
        format!("the public type {name} stands in {}", files.join(", "))
    });
    told.chain(unique(&places)).collect()
}

/// Returns the known names that have become unique. A part of a tree, as in a test, has none.
fn unique(places: &BTreeMap<&str, BTreeSet<&str>>) -> Vec<String> {
    let is_whole = known().any(|name| places.contains_key(name));
    let unique = known().filter(|name| places.get(*name).is_none_or(|files| files.len() < 2));
    let told = unique.filter(|_| is_whole).map(|name| format!("{name} is unique: strike it"));
    told.collect()
}

/// Returns the name of the type that a line declares.
fn public_type(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let kinds = ["struct ", "enum ", "trait ", "union "];
    let rest = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_twice_is_found() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let one = file("crates/overlock-bench/src/a.rs", "pub struct Ours<T>(T);");
        let facade = file("crates/overlock-spin/src/b.rs", "pub struct Ours {}");
        assert!(repeated(&[one, facade]).is_empty());
        let one = file("crates/overlock-bench/src/a.rs", "pub struct Ours<T>(T);");
        let other = file("crates/overlock-sim/src/b.rs", "    x\npub enum Ours {}");
        assert_eq!(repeated(&[one, other]).len(), 1);
    }
}
