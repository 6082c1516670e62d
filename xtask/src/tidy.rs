//! The rules of STYLE.md that a program can check.
//!
//! Each rule is one function that returns the faults of a file; a test shows that it notices them.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

mod circles;
mod names;

struct File {
    path: String,
    text: String,
}

/// Returns everything that is wrong with the tree, a line each.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let files = files(root)?;
    let rules = [
        ordering_says_why,
        lines_fit,
        safety_stands_by_unsafe,
        host_is_pure,
        files_are_short,
        masks_stay_with_the_word,
    ];
    let mut found: Vec<String> =
        files.iter().flat_map(|file| rules.iter().flat_map(|rule| rule(file))).collect();
    let banned = banned_words(&files);
    found.extend(files.iter().flat_map(|file| words_are_the_glossarys(file, &banned)));
    found.extend(files.iter().flat_map(|file| links_lead_somewhere(file, &files)));
    found.extend(circles::check(&files));
    found.extend(names::repeated(&files));
    found.extend(lines_stay_below(&files));
    found.extend(arrows(&metadata(root)?));
    Ok(found)
}

fn files(root: &Path) -> Result<Vec<File>> {
    let listed = Command::new("git").args(["ls-files"]).current_dir(root).output();
    let listed = String::from_utf8(listed.context("git ls-files did not run")?.stdout)?;
    Ok(listed
        .lines()
        .filter_map(|path| {
            let text = std::fs::read_to_string(root.join(path)).ok()?;
            Some(File { path: path.to_owned(), text })
        })
        .collect())
}

fn metadata(root: &Path) -> Result<Vec<(String, String)>> {
    let args = ["tree", "--workspace", "--depth", "1", "--edges", "normal", "--prefix", "depth"];
    let tree =
        Command::new(env!("CARGO")).args(args).arg("--all-features").current_dir(root).output();
    let tree = String::from_utf8(tree.context("cargo tree did not run")?.stdout)?;
    let mut arrows = Vec::new();
    let mut from = String::new();
    for line in tree.lines() {
        let name = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
        if let Some(rest) = line.strip_prefix('0') {
            from = name(rest);
        } else if let Some(rest) = line.strip_prefix('1') {
            arrows.push((from.clone(), name(rest)));
        }
    }
    Ok(arrows)
}

/// The dependencies between our crates that are allowed.
const ARROWS: &[(&str, &str)] = &[
    ("overlock-bench", "overlock"),
    ("overlock-bench", "overlock-programs"),
    ("overlock-bench", "overlock-results"),
    ("overlock-c", "overlock"),
    ("overlock-cli", "overlock"),
    ("overlock-cli", "overlock-bench"),
    ("overlock-cli", "overlock-programs"),
    ("overlock-cli", "overlock-results"),
    ("overlock-cli", "overlock-sim"),
    ("overlock-cli", "overlock-trace"),
    ("overlock-cli", "overlock-vcpu"),
    ("overlock-parking-lot", "overlock"),
    ("overlock-preload", "overlock"),
    ("overlock-programs", "overlock"),
    ("overlock-programs", "overlock-results"),
    ("overlock-sim", "overlock"),
    ("overlock-sim", "overlock-bench"),
    ("overlock-sim", "overlock-programs"),
    ("overlock-sim", "overlock-vcpu"),
    ("overlock-sim", "overlock-results"),
    ("overlock-spin", "overlock"),
    ("overlock-trace", "overlock-results"),
    ("overlock-vcpu", "overlock"),
    ("overlock-vcpu", "overlock-bench"),
    ("overlock-vcpu", "overlock-results"),
];

fn arrows(arrows: &[(String, String)]) -> Vec<String> {
    let ours = |name: &str| name.starts_with("overlock");
    arrows
        .iter()
        .filter(|(from, to)| ours(from) && ours(to))
        .filter(|(from, to)| !ARROWS.contains(&(from, to)))
        .map(|(from, to)| format!("{from} may not depend on {to} (ARCHITECTURE.md, crates)"))
        .collect()
}

fn is_rust(file: &File) -> bool {
    file.path.ends_with(".rs")
}

/// Returns the code of a line, without a comment at its end.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or(line)
}

/// Returns the faults of the lines, by their index and text, that are wrong.
fn faults(file: &File, what: &str, is_wrong: impl Fn(usize, &str) -> bool) -> Vec<String> {
    let wrong = file.text.lines().enumerate().filter(|(i, line)| is_wrong(*i, line));
    wrong.map(|(i, _)| format!("{}:{}: {what}", file.path, i + 1)).collect()
}

/// Whether one of the lines before one, or that line itself, has a mark.
fn is_marked(lines: &[&str], at: usize, marks: &[&str]) -> bool {
    let has_mark = |line: &&str| marks.iter().any(|mark| line.contains(mark));
    lines[at.saturating_sub(8)..=at].iter().any(has_mark)
}

/// In the locks, an access that is not `Relaxed` says in an `ORDERING:` comment what it pairs with.
fn ordering_says_why(file: &File) -> Vec<String> {
    if !file.path.starts_with("crates/overlock/src/raw") || !is_rust(file) {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    let strong = |line: &str| {
        let code = code(line);
        !code.trim_start().starts_with("use ")
            && ["AcqRel", "Acquire", "Release"].iter().any(|order| {
                code.contains(&format!("{order})")) || code.contains(&format!("{order},"))
            })
    };
    faults(file, "an ordering without its reason", |i, line| {
        strong(line) && !is_marked(&lines, i, &["ORDERING:"])
    })
}

/// Comments in Rust have at most 100 columns, except for tables and links; rustfmt takes care of
/// the code. Documents and C have at most 120. The archive stays as it was written.
fn lines_fit(file: &File) -> Vec<String> {
    let is_c = [".c", ".cc", ".h", ".hpp"].iter().any(|ending| file.path.ends_with(ending));
    let is_document = file.path.ends_with(".md");
    let most = match is_rust(file) {
        true => 100,
        false if is_document || is_c => 120,
        false => return Vec::new(),
    };
    let counts = |line: &str| !is_rust(file) || line.trim_start().starts_with("//");
    let exempt = |line: &str| ["|", "://", "]("].iter().any(|mark| line.contains(mark));
    faults(file, &format!("more than {most} columns"), |_, line| {
        counts(line) && line.chars().count() > most && !exempt(line)
    })
}

/// `unsafe` blocks have their proof; the compiler's lint asks for it too, but not in macros.
fn safety_stands_by_unsafe(file: &File) -> Vec<String> {
    if !is_rust(file) || file.path.starts_with("xtask/") {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().collect();
    faults(file, "an unsafe block without its proof", |i, line| {
        code(line).contains("unsafe {") && !is_marked(&lines, i, &["SAFETY:", "# Safety"])
    })
}

/// The hypervisor's side has no clock, no I/O and no operating system: it names `std` in its tests
/// only.
fn host_is_pure(file: &File) -> Vec<String> {
    if !file.path.starts_with("crates/overlock-vcpu/src/host") || !is_rust(file) {
        return Vec::new();
    }
    let product = file.text.lines().take_while(|line| *line != "#[cfg(test)]").count();
    faults(file, "the host's side names no std", |i, line| {
        i < product && ["std::", "crate::lab"].iter().any(|name| code(line).contains(name))
    })
}

/// A source file has one idea, and at most 500 lines.
fn files_are_short(file: &File) -> Vec<String> {
    let source = file.path.starts_with("crates/") && file.path.contains("/src/");
    let lines = file.text.lines().count();
    if source && is_rust(file) && lines > 500 {
        vec![format!("{}: {lines} lines, more than 500", file.path)]
    } else {
        Vec::new()
    }
}

/// The most lines of Rust in the main workspace, tests included. Lower it when they are fewer.
const LINES: usize = 96_228;

/// What is added is paid for by what is deleted.
fn lines_stay_below(files: &[File]) -> Vec<String> {
    let ours = files.iter().filter(|file| {
        is_rust(file) && ["crates/", "xtask/"].iter().any(|part| file.path.starts_with(part))
    });
    let lines: usize = ours.map(|file| file.text.lines().count()).sum();
    match lines > LINES {
        true => vec![format!("{lines} lines of Rust, more than {LINES}: delete some")],
        false => Vec::new(),
    }
}

/// Only `raw/word` knows the bits of the locks' words.
fn masks_stay_with_the_word(file: &File) -> Vec<String> {
    let locks = file.path.strip_prefix("crates/overlock/src/raw/");
    if locks.is_none_or(|path| path.starts_with("word")) {
        return Vec::new();
    }
    let masks = ["1 <<", "0xf", " & !"];
    faults(file, "a mask outside raw/word", |_, line| {
        masks.iter().any(|mask| code(line).contains(mask))
    })
}

/// Returns the words that the glossary replaces: the quoted ones in the last column of its table.
fn banned_words(files: &[File]) -> Vec<String> {
    let glossary = files.iter().find(|file| file.path == "docs/glossary.md");
    let rows = glossary.into_iter().flat_map(|file| file.text.lines());
    let columns = rows.filter_map(|row| row.trim_end().strip_suffix('|')?.rsplit('|').next());
    columns.flat_map(|not| not.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

fn words_are_the_glossarys(file: &File, banned: &[String]) -> Vec<String> {
    let document = file.path.ends_with(".md") && !file.path.contains("CHANGELOG");
    let own = ["docs/glossary.md", "xtask/src/tidy.rs"].contains(&file.path.as_str());
    if own || !(is_rust(file) || document) {
        return Vec::new();
    }
    let found = |line: &str| banned.iter().find(|word| line.contains(word.as_str())).cloned();
    file.text
        .lines()
        .enumerate()
        .filter_map(|(i, line)| Some((i, found(line)?)))
        .map(|(i, word)| format!("{}:{}: `{word}`; see docs/glossary.md", file.path, i + 1))
        .collect()
}

/// Documents link to files and headings that exist, and name only files that exist.
fn links_lead_somewhere(file: &File, files: &[File]) -> Vec<String> {
    if !file.path.ends_with(".md") || file.path.contains("CHANGELOG") {
        return Vec::new();
    }
    let folder = Path::new(&file.path).parent().unwrap_or(Path::new(""));
    let targets = file.text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    // Links to items of Rust are rustdoc's business.
    let is_item = |target: &str| target.contains("::") || target.starts_with(char::is_uppercase);
    let relative = targets.filter(|target| target.contains(".md") || !is_item(target));
    let relative = relative.filter(|target| !target.contains("://"));
    let broken = relative.filter(|target| {
        let (path, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if path.is_empty() { file.path.clone() } else { plain(&folder.join(path)) };
        let to = files.iter().find(|file| file.path == path);
        match to {
            Some(to) => !heading.is_empty() && !headings(to).any(|known| known == heading),
            None => !files.iter().any(|file| Path::new(&file.path).starts_with(&path)),
        }
    });
    let quoted =
        file.text.split("```").step_by(2).flat_map(|text| text.split('`').skip(1).step_by(2));
    let is_test = |name: &&str| {
        let is_snake = |c| matches!(c, 'a'..='z' | '0'..='9' | '_');
        file.path == "docs/failures.md" && name.contains('_') && name.chars().all(is_snake)
    };
    let code = |file: &&File| !file.path.ends_with(".md");
    let is_in_code = |name: &str| files.iter().filter(code).any(|file| file.text.contains(name));
    let tests = quoted.clone().filter(is_test).filter(|name| !is_in_code(name));
    let named = quoted.filter(|name| {
        let is_path = name.contains('/') && !name.contains([' ', '{', '*', '<', ':', '$', '(']);
        let tail = format!("/{}", name.trim_start_matches("../"));
        let known = |file: &File| format!("/{}", file.path).ends_with(&tail);
        let ours = [".rs", ".md", ".toml", ".sh", ".py", ".c", ".h"];
        is_path
            && file.path != "docs/sources.md"
            && !name.starts_with('/')
            && ours.iter().any(|ending| name.ends_with(ending))
            && !files.iter().any(known)
    });
    broken.chain(named).chain(tests).map(|to| format!("{}: there is no {to}", file.path)).collect()
}

/// Returns a path without `.` and `..`.
fn plain(path: &Path) -> String {
    let mut parts: Vec<_> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(parts.pop()),
            std::path::Component::Normal(name) => parts.push(name.to_string_lossy()),
            _ => {}
        }
    }
    parts.join("/")
}

/// Returns the headings of a document, as links spell them.
fn headings(file: &File) -> impl Iterator<Item = String> {
    let titles = file.text.lines().filter_map(|line| line.strip_prefix('#'));
    titles.map(|title| {
        let title = title.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Write, stderr};

    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn the_tree_is_tidy() {
        if let Err(error) = Command::new("git").arg("--version").output() {
            writeln!(stderr(), "skipped: the rules of STYLE.md: git does not run: {error}")
                .unwrap();
            return;
        }
        let found = check(&crate::root()).unwrap();
        assert!(found.is_empty(), "{}", found.join("\n"));
    }

    #[test]
    fn each_rule_notices() {
        let lock = "crates/overlock/src/raw/ticket.rs";
        assert_eq!(ordering_says_why(&file(lock, "x.load(Acquire);")).len(), 1);
        assert!(ordering_says_why(&file(lock, "// ORDERING: O1\nx.load(Acquire);")).is_empty());
        assert_eq!(lines_fit(&file("a.rs", &"/".repeat(101))).len(), 1);
        assert!(lines_fit(&file("a.rs", &"/".repeat(100))).is_empty());
        for path in ["README.md", "crates/overlock-c/include/overlock.h"] {
            assert_eq!(lines_fit(&file(path, &"x".repeat(121))).len(), 1);
            assert!(lines_fit(&file(path, &"x".repeat(120))).is_empty());
        }
        assert_eq!(safety_stands_by_unsafe(&file("a.rs", "unsafe { f() }")).len(), 1);
        let host = "crates/overlock-vcpu/src/host/time.rs";
        assert_eq!(host_is_pure(&file(host, "use std::fs;")).len(), 1);
        assert!(host_is_pure(&file(host, "#[cfg(test)]\nuse std::fs;")).is_empty());
        assert_eq!(files_are_short(&file(lock, &"\n".repeat(501))).len(), 1);
        assert!(files_are_short(&file(lock, &"\n".repeat(500))).is_empty());
        assert_eq!(lines_stay_below(&[file("crates/a.rs", &"\n".repeat(LINES + 1))]).len(), 1);
        assert!(lines_stay_below(&[file("kernels/a.rs", &"\n".repeat(LINES + 1))]).is_empty());
        let queue = "crates/overlock/src/raw/queue/head.rs";
        assert_eq!(masks_stay_with_the_word(&file(queue, "word & !(1 << 3)")).len(), 1);
        let glossary = file("docs/glossary.md", "| head | a waiter | `front man`, `boss` |");
        let banned = banned_words(&[glossary]);
        assert_eq!(banned, ["front man", "boss"]);
        assert_eq!(words_are_the_glossarys(&file("README.md", "the boss"), &banned).len(), 1);
        assert!(words_are_the_glossarys(&file("README.md", "the head"), &banned).is_empty());
        let links = |text: &str| {
            let files = [file("docs/a.md", text), file("docs/b.md", "## The `x`, again\n")];
            links_lead_somewhere(&files[0], &files).len()
        };
        for broken in ["[](c.md)", "[](../b.md)", "[](b.md#the-y)", "`docs/c.md`", "[](#x)"] {
            assert_eq!(links(broken), 1, "{broken}");
        }
        for sound in ["[](b.md)", "[](../docs)", "[](b.md#the-x-again)", "`docs/b.md`", "a/b.md"] {
            assert_eq!(links(sound), 0, "{sound}");
        }
        let wrong = [("overlock".to_owned(), "overlock-vcpu".to_owned())];
        assert_eq!(arrows(&wrong).len(), 1);
    }
}
