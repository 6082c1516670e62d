// SPDX-License-Identifier: MIT OR Apache-2.0
//! Is the help true? Its examples are run.

use crate::support::{OVERLOCK, Said, overlock, said};
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Returns the commands below "Examples:", as a user would type them.
fn examples(name: &str) -> Vec<String> {
    let help = said(&[name, "--help"]).stdout;
    let (_, examples) = help.split_once("Examples:\n").expect("every help has examples");
    let block: Vec<&str> = examples.lines().take_while(|line| line.starts_with("  ")).collect();
    let text = block.join("\n").replace("\\\n", "");
    text.lines().map(|line| line.trim().to_owned()).collect()
}

/// Runs an example in the shell, as written.
fn run(example: &str, folder: &Path) -> Said {
    let path = std::env::join_paths(
        [Path::new(OVERLOCK).parent().unwrap().to_owned()]
            .into_iter()
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())),
    );
    let mut command = Command::new("sh");
    let library = overlock(&[]);
    let library = library.get_envs().find(|(name, _)| *name == "OVERLOCK_PRELOAD");
    command.env("OVERLOCK_PRELOAD", library.and_then(|(_, path)| path).unwrap());
    command.args(["-c", example]).current_dir(folder).env("PATH", path.unwrap());
    command.output().unwrap().into()
}

#[test]
fn examples_work_as_written() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["run", "compare", "reference", "completions"] {
        let examples = examples(name);
        assert!(examples.len() >= 2, "{name}: {examples:?}");
        for example in examples {
            let program = example.split(" -- ").nth(1).and_then(|rest| rest.split(' ').next());
            let is_here = |program: &str| run(&format!("command -v {program}"), folder.path());
            if program.is_some_and(|program| is_here(program).code != Some(0)) {
                let skipped = format!("skipped, as its program is not installed: {example}\n");
                std::io::stderr().write_all(skipped.as_bytes()).unwrap();
                continue;
            }
            let said = run(&example, folder.path());
            assert_eq!(said.code, Some(0), "{example}: {said:?}");
        }
    }
}

#[test]
fn manual_pages_are_what_mandoc_accepts() {
    let folder = tempfile::tempdir().unwrap();
    let said = said(&["man-pages", folder.path().to_str().unwrap()]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let pages = || std::fs::read_dir(folder.path()).unwrap().map(|page| page.unwrap().path());
    assert!(pages().count() > 10);
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let name = page.file_stem().unwrap().to_str().unwrap().to_uppercase();
        let title = text.lines().find(|line| line.starts_with(".TH")).unwrap();
        assert!(title.starts_with(&format!(".TH {name} 1 ")), "{title}");
        assert!(title.ends_with(concat!("\"overlock ", env!("CARGO_PKG_VERSION"), "\" Overlock")));
        assert!(text.lines().all(|line| line == line.trim_end()), "{}", page.display());
    }
    match Command::new("mandoc").args(["-T", "lint", "-W", "style"]).args(pages()).output() {
        Ok(output) => {
            let found = String::from_utf8(output.stdout).unwrap();
            // Without a repository there is no date.
            let bad: Vec<_> = found.lines().filter(|line| !line.contains("missing date")).collect();
            assert!(bad.is_empty(), "{bad:#?}");
        }
        Err(_) => {
            std::io::stderr().write_all(b"skipped in part: mandoc is not installed\n").unwrap();
        }
    }
}

/// The examples are rows that a page must not fill.
#[test]
fn manual_pages_keep_the_lines_of_examples() {
    let folder = tempfile::tempdir().unwrap();
    said(&["man-pages", folder.path().to_str().unwrap()]);
    let page = std::fs::read_to_string(folder.path().join("overlock-run.1")).unwrap();
    let (_, notes) = page.split_once(".nf\n").unwrap();
    let (notes, _) = notes.split_once("\n.fi").unwrap();
    for example in examples("run") {
        assert!(notes.replace('\\', "").contains(&format!("  {example}\n")), "{example}: {notes}");
    }
}

#[test]
fn misspelt_commands_lead_to_commands_that_help_shows() {
    let said = said(&["bnech"]);
    assert!(said.stderr.contains("'bench'") && !said.stderr.contains("child"), "{said:?}");
    said.ends(2, "a similar subcommand exists: 'bench'");
}
