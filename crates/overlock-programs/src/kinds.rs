//! What a program's file shows of the locks that it uses and that can't be replaced.
//!
//! Nothing of this is certain: a file can contain code that never runs, and use locks of a library.
//! So it is told only where the counters show no wait.

use memchr::memmem;
use std::path::Path;

/// What marks a kind of program, and what that means for its locks.
struct Kind {
    /// One of these bytes is in the file.
    marks: &'static [&'static [u8]],
    sentence: &'static str,
}

/// In the files that Go's linker makes.
const GO: Kind = Kind {
    marks: &[b"\xff Go buildinf:"],
    sentence: "it is a Go program, and sync.Mutex and channels are the Go runtime's own",
};

const KINDS: [Kind; 2] = [
    GO,
    Kind {
        marks: &[b"library/std/src/", b"rust_eh_personality", b"RUST_BACKTRACE"],
        sentence: "it contains Rust code, and std's locks, parking_lot's and tokio's are futexes of \
                   their own; in Rust use the crate overlock (ThreadMutex)",
    },
];

/// Returns whether a file is a program of Go, whose threads wait by instructions of their own.
pub fn is_go(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| GO.is_in(&bytes))
}

impl Kind {
    fn is_in(&self, file: &[u8]) -> bool {
        self.marks.iter().any(|mark| memmem::find(file, mark).is_some())
    }
}

pub fn seen_in(path: &Path) -> Vec<&'static str> {
    // A script's interpreter says nothing about the script.
    let file = std::fs::read(path).unwrap_or_default();
    if !file.starts_with(b"\x7fELF") {
        return Vec::new();
    }
    KINDS.iter().filter(|kind| kind.is_in(&file)).map(|kind| kind.sentence).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_marks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let seen = |content: &[u8]| {
            std::fs::write(&path, [b"\x7fELF".as_slice(), content].concat()).unwrap();
            seen_in(&path)
        };
        assert!(seen(b"..\xff Go buildinf:..")[0].contains("Go program"));
        assert!(is_go(&path));
        assert!(seen(b"/rustc/x/library/std/src/sync")[0].contains("Rust"));
        assert!(seen(b"\0pthread_mutex_lock\0").is_empty() && !is_go(&path));
    }
}
