//! Programs with other rights than those of the user that started them.

use std::io::Write as _;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{compile, library, text};

/// A folder that every user can reach, for as long as this lives; a folder below the home of root
/// may not be.
struct Public(PathBuf);

impl Public {
    fn new(name: &str) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("a folder for temporary files");
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&folder, mode).expect("our own folder");
        Self(folder)
    }
}

impl Deref for Public {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Public {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
    let folder = Public::new("overlock-set-uid");
    let copy = folder.join("liboverlock_preload.so");
    std::fs::copy(library(), &copy).expect("our own folder");
    let linked = compile("user.c", "user-linked", &["-Wl,--no-as-needed", &copy.to_string_lossy()]);
    let program = folder.join("user");
    std::fs::copy(linked, &program).expect("our own folder");
    let counters = folder.join("counters.json");
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
