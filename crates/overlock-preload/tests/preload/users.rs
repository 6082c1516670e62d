//! Programs with other rights than those of the user that started them.

use std::io::Write as _;
use std::process::Command;

use tempfile::TempDir;

use crate::support::{compile, library, text};

/// A folder that every user can reach; a folder below the home of root may not be.
fn public() -> TempDir {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).expect("our own folder");
    folder
}

/// Returns whether the test may become another user; says so if not.
fn is_root() -> bool {
    // SAFETY: always succeeds.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_root {
        let why = "skipped: a program that changes its user, which only root can start";
        writeln!(std::io::stderr(), "{why}").expect("a terminal or a file");
    }
    is_root
}

/// The dynamic linker preloads nothing into such a program, so this one is linked with the library.
#[test]
fn a_program_with_more_rights_than_its_user_ignores_the_variables() {
    use std::os::unix::fs::{PermissionsExt as _, chown};
    if !is_root() {
        return;
    }
    let folder = public();
    let copy = folder.path().join("liboverlock_preload.so");
    std::fs::copy(library(), &copy).expect("our own folder");
    let linked = compile("user.c", "user-linked", &["-Wl,--no-as-needed", &copy.to_string_lossy()]);
    let program = folder.path().join("user");
    std::fs::copy(linked, &program).expect("our own folder");
    let counters = folder.path().join("counters.json");
    std::fs::write(&counters, "").expect("our own folder");
    std::fs::set_permissions(&counters, std::fs::Permissions::from_mode(0o666)).expect("our own");
    let run = || {
        let mut command = Command::new(&program);
        command.env("OVERLOCK_LOCK", "spinny").env("OVERLOCK_COUNTERS", &counters);
        command.output().expect("it was just compiled")
    };
    assert_eq!(run().status.code(), Some(2), "the control, which has no more rights");
    chown(&program, Some(65534), None).expect("root");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).expect("root");
    let output = run();
    if text(&output).contains("not a lock") {
        let why = "skipped: a set-uid program, which has no more rights in this file system";
        writeln!(std::io::stderr(), "{why}").expect("a terminal or a file");
    } else {
        assert_eq!(text(&output), "more rights\n");
        assert!(output.status.success());
        assert_eq!(std::fs::read_to_string(&counters).expect("our own"), "");
    }
}
