//! Is the help true? Its examples are run.

use crate::support::{OVERLOCK, Said, overlock, said, skip};
use std::fs::File;
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

/// What makes the examples of a command short: a flag, and its value if it has one. `?` marks flags
/// that only replace values.
const SHORT: [(&str, &[&str]); 4] = [
    ("bench", &["--seconds 0.02", "--runs 1", "--locks hybrid", "?--random 2", "?--timeline 5ms"]),
    ("compare", &["--runs 1"]),
    ("torture", &["--for 1s", "--steps 2000"]),
    ("trace", &["?--for 1s"]),
];

/// Makes an example take little time.
fn shortened(example: &str) -> String {
    let mut text = example.to_owned();
    // Without the device, an experiment can still be printed.
    if text.contains("--in kvm") && File::options().write(true).open("/dev/kvm").is_err() {
        text = text.replace("--in kvm", "--in kvm --print");
    }
    for (name, flags) in SHORT {
        let command = format!("overlock {name}");
        if !text.contains(&command) || text.contains("--replay") {
            continue;
        }
        for flag in flags {
            let (only_replaces, flag) = (flag.starts_with('?'), flag.trim_start_matches('?'));
            let (flag, value) = flag.split_once(' ').unwrap_or((flag, ""));
            match text.split_once(&format!(" {flag} ")) {
                Some((before, after)) if !value.is_empty() => {
                    let rest = after.find(' ').map_or("", |end| &after[end..]);
                    text = format!("{before} {flag} {value}{rest}");
                }
                None if !only_replaces && !text.ends_with(flag) => {
                    text = text.replacen(&command, &format!("{command} {flag} {value}"), 1);
                }
                _ => {}
            }
        }
    }
    text
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

fn obstacle(example: &str, folder: &Path) -> Option<String> {
    if example.contains("overlock trace") && said(&["trace", "--", "true"]).code != Some(0) {
        return Some("the kernel's tracepoints can't be used here".into());
    }
    let program = example.split(" -- ").nth(1)?.split(' ').next()?;
    let found = run(&format!("command -v {program}"), folder).code == Some(0);
    (!found).then(|| format!("{program} is not installed"))
}

/// Runs the examples of a command one after the other in one folder: some need the files of those
/// before.
fn examples_work(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let examples = examples(name);
    assert!(examples.len() >= 2, "{name}: {examples:?}");
    for example in examples {
        if let Some(why) = obstacle(&example, folder.path()) {
            skip(&format!("{example}: {why}"));
            continue;
        }
        let short = shortened(&example);
        let said = run(&short, folder.path());
        // So short a run can miss a bound.
        let missed = said.code == Some(1) && example.contains("--check");
        assert!(said.code == Some(0) || missed, "{example}, as {short}: {said:?}");
    }
}

macro_rules! examples_work {
    ($($test:ident: $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                examples_work($name);
            }
        )*
    };
}

examples_work! {
    examples_of_bench_work: "bench";
    examples_of_run_work: "run";
    examples_of_compare_work: "compare";
    examples_of_torture_work: "torture";
    examples_of_doctor_work: "doctor";
    examples_of_reference_work: "reference";
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
examples_work! {
    examples_of_report_work: "report";
    examples_of_trace_work: "trace";
}

/// A new command must be in the list above.
#[test]
fn every_command_has_its_examples_tested() {
    let help = said(&["--help"]).stdout;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let own = include_str!("help.rs");
    let commands = commands.lines().take_while(|line| line.starts_with("  "));
    // Other lines are the rest of a sentence.
    for line in commands.filter(|line| !line.starts_with("   ")) {
        let name = line.split_whitespace().next().unwrap_or_default();
        let listed = own.contains(&format!("_work: \"{name}\";"));
        assert!(listed || name == "help", "{name}: {help}");
    }
}

/// The examples are rows that a page must not fill. Others' pages in the folder stay as they are.
#[test]
fn manual_pages_keep_the_lines_of_examples() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("ls.1.gz");
    std::fs::write(&other, b"\x1f\x8b.SH EXTRA\n").unwrap();
    said(&["man-pages", folder.path().to_str().unwrap()]).ends(0, "");
    let page = std::fs::read_to_string(folder.path().join("overlock-run.1")).unwrap();
    let (_, rows) = page.split_once(".SH EXAMPLES\n.nf\n").unwrap();
    for example in examples("run") {
        assert!(rows.replace('\\', "").contains(&format!("  {example}\n")), "{example}: {rows}");
    }
    assert_eq!(std::fs::read(&other).unwrap(), b"\x1f\x8b.SH EXTRA\n");
}

/// What can be typed is what a person can remember.
#[test]
fn there_are_few_verbs_and_flags() {
    let help = said(&["--help"]).stdout;
    let (_, commands) = help.split_once("Commands:\n").unwrap();
    let commands = commands.lines().take_while(|line| line.starts_with("  "));
    let names = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names: Vec<&str> = names.filter(|name| !["", "help"].contains(name)).collect();
    assert!(names.len() <= 8, "{names:?}");
    // `--help` is one flag, of all verbs.
    let mut all = 1;
    for name in &names {
        let flags = |help: &str| {
            let flags = said(&[name, help]).stdout;
            let lines = flags.lines().map(str::trim_start);
            lines.filter(|of| of.starts_with('-')).count()
        };
        let (short, long) = (flags("-h"), flags("--help"));
        assert!(short <= 20, "{name} -h has {short} options");
        all += long - 1;
    }
    assert!(all <= 70, "{all} flags");
    writeln!(std::io::stderr(), "{} verbs, {all} flags", names.len()).unwrap();
}
