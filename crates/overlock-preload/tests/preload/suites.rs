//! Does the script that runs programs and test suites of other projects notice a broken library?

use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use crate::support::text;

#[test]
fn the_script_for_other_suites_notices_broken_libraries() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/suites/run.py");
    match Command::new("python3").arg(script).args(["--self-test"]).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", text(&output));
            let cases = text(&output).lines().filter(|line| line.starts_with("ok: ")).count();
            assert!(cases > 0, "no case ran:\n{}", text(&output));
        }
        Err(error) => {
            writeln!(std::io::stderr(), "skipped: python3 does not run: {error}").unwrap();
        }
    }
}
