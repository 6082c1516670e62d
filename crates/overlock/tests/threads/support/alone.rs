//! Tests that need a process of their own, because they change something of the whole process.

/// Whether this process runs only the test `name`. If not, runs the test in such a process, which
/// must succeed.
pub(crate) fn is_alone(name: &str) -> bool {
    const ALONE: &str = "OVERLOCK_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        // SAFETY: the only argument is a number of seconds; the signal kills a hung process.
        unsafe { libc::alarm(120) };
        return true;
    }
    let exe = std::env::current_exe().unwrap();
    let mut alone = std::process::Command::new(exe);
    assert!(alone.args(["--exact", name]).env(ALONE, "1").status().unwrap().success(), "{name}");
    false
}
