//! Many runs of many subjects.

use std::env;
use std::process::{Command, Stdio};

use overlock_sim::{Subject, subjects};

/// The locks that keep their promises.
pub(crate) fn good() -> impl Iterator<Item = &'static Subject> {
    subjects().filter(|subject| subject.known_bad.is_empty())
}

/// The locks that are wrong on purpose.
pub(crate) fn bad() -> impl Iterator<Item = &'static Subject> {
    subjects().filter(|subject| !subject.known_bad.is_empty())
}

/// Tells the process that checks every second subject that it does.
const SECOND: &str = "OVERLOCK_TEST_SECOND_SUBJECTS";

/// Checks each of these subjects for the test called `test`. Runs of one process take turns with
/// the memory at fixed addresses, so every second subject is checked in another process: this test
/// again.
pub(crate) fn each(
    test: &str,
    subjects: impl Iterator<Item = &'static Subject>,
    check: impl Fn(&'static Subject),
) {
    if env::var_os(SECOND).is_some() {
        return subjects.skip(1).step_by(2).for_each(check);
    }
    let mut again = Command::new(env::current_exe().expect("the path of this test"));
    again.args(["--exact", test]).env(SECOND, "1");
    let again = again.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    subjects.step_by(2).for_each(check);
    let said = again.and_then(std::process::Child::wait_with_output).expect("this test starts");
    let text = [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(said.status.success() && text[0].contains("1 passed"), "{}", text.concat());
}
