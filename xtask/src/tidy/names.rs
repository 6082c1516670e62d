//! A public type has a name of its own in the workspace, so that a search finds one.

use std::collections::{BTreeMap, BTreeSet};

use super::File;

/// Crates that offer the names of others, or of std, on our locks.
const FACADES: [&str; 4] = ["overlock", "overlock-c", "overlock-parking-lot", "overlock-spin"];

/// A crate may call its one error `Error`: a caller sees it behind the crate's name.
const ONE_A_CRATE: &str = "Error";

/// Returns the names of public types that stand in several files.
pub(super) fn repeated(files: &[File]) -> Vec<String> {
    let mut places: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        let Some((root, _)) = file.path.split_once("/src/").filter(|_| !is_facade(&file.path))
        else {
            continue;
        };
        for of in file.text.lines().filter_map(public_type) {
            let within = if of == ONE_A_CRATE { root } else { "" };
            places.entry((of, within)).or_default().insert(&file.path);
        }
    }
    let repeated = places.iter().filter(|(_, files)| files.len() > 1);
    let told = repeated.map(|((name, _), files)| {
        let files: Vec<&str> = files.iter().copied().collect();
        format!("the public type {name} stands in {}", files.join(", "))
    });
    told.collect()
}

fn is_facade(path: &str) -> bool {
    let name = path.strip_prefix("crates/").and_then(|path| path.split_once('/'));
    name.is_some_and(|(name, _)| FACADES.contains(&name))
}

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
        let error = |path: &str| file(path, "pub enum Error {}");
        let (one, two) = (error("crates/overlock-sim/src/a.rs"), error("host/src/b.rs"));
        assert!(repeated(&[one, two]).is_empty());
        let (one, two) = (error("host/src/a.rs"), error("host/src/b.rs"));
        assert_eq!(repeated(&[one, two]).len(), 1);
    }
}
