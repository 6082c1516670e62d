//! No circle of files: a file does not use, over others, what uses it.
//!
//! Paths that begin with `crate`, `super`, `self` or the name of a child are followed through
//! re-exports to the file that has the item. A parent that only declares its children, or passes
//! their items on, does not use them.

use std::collections::{BTreeMap, BTreeSet};

use super::File;

type Path = Vec<String>;

/// What a file says of others.
#[derive(Debug, Default)]
struct Module {
    file: String,
    /// Each path that is used, and the name that it has here.
    uses: Vec<(Path, String)>,
}

pub(super) fn check(files: &[File]) -> Vec<String> {
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    let mut crates: BTreeMap<String, BTreeMap<Path, Module>> = BTreeMap::new();
    for file in sources {
        let Some((name, path)) =
            file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        let uses = uses(&file.text);
        let module = Module { file: path.to_owned(), uses };
        crates.entry(name.to_owned()).or_default().insert(module_path(path), module);
    }
    crates.iter().flat_map(|(name, modules)| faults(name, modules)).collect()
}

fn faults(name: &str, modules: &BTreeMap<Path, Module>) -> Vec<String> {
    let told = circles(modules).into_iter().map(|circle| {
        let files: Vec<&str> = circle.iter().map(|at| modules[at].file.as_str()).collect();
        format!("{name}: a circle of files: {}", files.join(", "))
    });
    told.collect()
}

/// `a/b.rs` and `a/b/mod.rs` are both `a::b`; the root has no name.
fn module_path(file: &str) -> Path {
    let path = file.trim_end_matches(".rs");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => Vec::new(),
        _ => path.split('/').map(str::to_owned).collect(),
    }
}

/// The paths in a file, without its comments and its tests.
fn uses(text: &str) -> Vec<(Path, String)> {
    let text = text.split("\nmod tests {").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let text = lines.collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    let mut rest = String::new();
    for (at, part) in text.split(';').enumerate() {
        let begin = if at == 0 { 0 } else { part.len() - part.trim_start().len() };
        match part[begin..].rsplit_once("use ") {
            Some((before, tree)) if is_item(before) => {
                expand(&tree.split_whitespace().collect::<Vec<_>>().join(" "), &[], &mut found);
                rest += before;
            }
            _ => rest += part,
        }
    }
    // To whom an item is visible says nothing of what it uses.
    let rest = rest.replace("(in crate::", "(").replace("(in super::", "(");
    // A path that begins with neither of these may begin with the name of a child.
    let words = rest.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    for word in words.filter(|word| word.contains("::") && !word.starts_with(':')) {
        let path: Path = word.split("::").filter(|of| !of.is_empty()).map(str::to_owned).collect();
        found.push((path, String::new()));
    }
    found
}

/// Whether `use` after this text begins an item.
fn is_item(before: &str) -> bool {
    let before = before.trim_end();
    before.is_empty() || before.ends_with(['}', ']', ')', '{']) || before.ends_with("pub")
}

/// Spells out the braces of a `use`.
fn expand(tree: &str, before: &[String], found: &mut Vec<(Path, String)>) {
    let tree = tree.trim();
    if let Some((head, inner)) = tree.split_once('{') {
        let mut path = before.to_vec();
        path.extend(head.split("::").map(str::trim).filter(|of| !of.is_empty()).map(str::to_owned));
        let inner = inner.strip_suffix('}').unwrap_or(inner);
        let mut depth = 0;
        let cut = |c: char| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            c == ',' && depth == 0
        };
        inner.split(cut).filter(|of| !of.trim().is_empty()).for_each(|of| expand(of, &path, found));
        return;
    }
    let (path, alias) = tree.split_once(" as ").map_or((tree, None), |(of, name)| (of, Some(name)));
    let mut all = before.to_vec();
    all.extend(path.split("::").map(|of| of.trim().to_owned()));
    if all.last().is_some_and(|last| last == "self") && all.len() > 1 {
        all.pop();
    }
    let name = alias.map_or_else(|| all.last().cloned().unwrap_or_default(), str::to_owned);
    found.push((all, name));
}

/// The path from the root of the crate; nothing if it is another crate's.
fn absolute(at: &[String], path: &[String], modules: &BTreeMap<Path, Module>) -> Option<Path> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([at, &path[1..]].concat()),
        "super" => Some([at.get(..at.len().checked_sub(ups)?)?, &path[ups..]].concat()),
        _ => {
            let child = [at, &path[..1]].concat();
            modules.contains_key(&child).then(|| [at, path].concat())
        }
    }
}

/// The file that has the item at `path`.
fn resolve(path: &Path, modules: &BTreeMap<Path, Module>, depth: u32) -> Option<Path> {
    let length = (0..=path.len()).rev().find(|n| modules.contains_key(&path[..*n]))?;
    let (at, rest) = path.split_at(length);
    let Some(name) = rest.first() else { return Some(at.to_vec()) };
    match modules[at].uses.iter().find(|(_, alias)| alias == name) {
        Some((passed_on, _)) if depth < 8 => {
            let to = [&absolute(at, passed_on, modules)?, &rest[1..]].concat();
            resolve(&to, modules, depth + 1)
        }
        _ => Some(at.to_vec()),
    }
}

/// The circles: files that each reach each other.
fn circles(modules: &BTreeMap<Path, Module>) -> Vec<Vec<Path>> {
    let targets = |at: &Path| -> BTreeSet<Path> {
        let used = modules[at].uses.iter().filter_map(|(path, _)| absolute(at, path, modules));
        used.filter_map(|path| resolve(&path, modules, 0)).filter(|to| to != at).collect()
    };
    let arrows: BTreeMap<&Path, BTreeSet<Path>> =
        modules.keys().map(|at| (at, targets(at))).collect();
    let reached = |from: &Path| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(at) = next.pop() {
            next.extend(arrows[&at].iter().filter(|to| seen.insert((*to).clone())).cloned());
        }
        seen
    };
    let reached: BTreeMap<&Path, BTreeSet<Path>> =
        modules.keys().map(|at| (at, reached(at))).collect();
    let mut found: Vec<Vec<Path>> = Vec::new();
    for (at, to) in &reached {
        if to.contains(*at) && !found.iter().flatten().any(|of| of == *at) {
            found.push(to.iter().filter(|other| reached[other].contains(*at)).cloned().collect());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crate_of(files: &[(&str, &str)]) -> Vec<File> {
        let file = |(path, text): &(&str, &str)| File {
            path: format!("crates/mine/src/{path}"),
            text: (*text).to_owned(),
        };
        files.iter().map(file).collect()
    }

    #[test]
    fn a_circle_is_found_through_parents_and_re_exports_and_a_tree_has_none() {
        let lib = ("lib.rs", "mod a;\nmod b;\npub use a::{One, Two as Three};");
        let a = ("a.rs", "mod c;\npub struct One;\nuse crate::b::Four;");
        for (b, is_circle) in [
            ("pub struct Four;", false),
            ("use crate::One;", true),
            ("/// Text.\npub(crate) use crate::{\n    Three,\n};", true),
            ("fn f() -> super::a::One { }", true),
            ("// use crate::One;\nuse std::fmt;", false),
            ("pub(in crate::a) struct Four;", false),
            ("#[cfg(test)]\nmod tests {\n    use crate::One;\n}", false),
        ] {
            let found = check(&crate_of(&[lib, a, ("b.rs", b), ("a/c.rs", "fn f() {}")]));
            assert_eq!(!found.is_empty(), is_circle, "{b}: {found:?}");
        }
        let child = check(&crate_of(&[lib, a, ("b.rs", ""), ("a/c.rs", "use super::One;")]));
        assert!(child.is_empty(), "the parent uses nothing of its child: {child:?}");
        for uses in ["use c::f;", "fn g() { c::f() }"] {
            let both = ("a.rs", &*format!("mod c;\npub struct One;\n{uses}"));
            let child = check(&crate_of(&[lib, both, ("b.rs", ""), ("a/c.rs", "use super::One;")]));
            assert_eq!(child, ["mine: a circle of files: a.rs, a/c.rs"], "{uses}");
        }
    }
}
