//! Does the header describe the lock words correctly?

use std::fmt::Write;
use std::fs;

use overlock::RawLock;
use overlock::abi::SlowPath;
use overlock_c::{Hybrid, Queued, SharedLock, TestAndSet, Ticket};

use crate::support::{C, CXX, Compiler};

/// Returns assertions in C or C++ that a lock type matches its Rust counterpart.
fn assertions<L: SlowPath>(name: &str) -> String {
    let upper = name.to_uppercase();
    let mut text = String::new();
    for (constant, value) in [("TAKE", L::TAKE), ("SLOW", L::SLOW)] {
        writeln!(text, "SAME(OL_{upper}_{constant}, {value}u);").expect("a string takes all");
    }
    let (size, align) = (size_of::<L>(), align_of::<L>());
    writeln!(text, "SAME(sizeof(ol_{name}_t), {size}u);").expect("a string takes all");
    writeln!(text, "SAME(ALIGNOF(ol_{name}_t), {align}u);").expect("a string takes all");
    text
}

/// Returns assertions that the header is of this crate's version.
fn version() -> String {
    let parts = env!("CARGO_PKG_VERSION").split('.').zip(["MAJOR", "MINOR", "PATCH"]);
    // Each is one too many, so that an appended zero makes another number.
    let one_more = |number: &str| number.parse::<u32>().expect("a number") + 1;
    let same = |(number, part)| format!("SAME(OL_VERSION_{part} + 1, {}u);\n", one_more(number));
    parts.map(same).collect()
}

/// Returns whether a compiler finds these assertions true.
fn agrees(compiler: Compiler, assertions: &str) -> bool {
    let folder = tempfile::tempdir().expect("a folder for the source");
    let source = folder.path().join("assertions.h");
    let text = format!(
        "#include <overlock.h>\n\
         #ifdef __cplusplus\n\
         #define SAME(a, b) static_assert((a) == (b), \"\")\n\
         #define ALIGNOF alignof\n\
         #else\n\
         #define SAME(a, b) _Static_assert((a) == (b), \"\")\n\
         #define ALIGNOF _Alignof\n\
         #endif\n{assertions}"
    );
    fs::write(&source, text).expect("a file with the assertions");
    let mut command = compiler.command();
    let language = if compiler.name.ends_with("++") { "c++" } else { "c" };
    command.args(["-fsyntax-only", "-x", language]).arg(source);
    command.output().expect("a compiler that was there before").status.success()
}

#[test]
fn constants_and_layouts_are_those_of_the_library() {
    let all = assertions::<TestAndSet>("test_and_set")
        + &assertions::<Ticket>("ticket")
        + &assertions::<Queued>("queued")
        + &assertions::<Hybrid>("hybrid")
        + &assertions::<Hybrid>("mutex")
        + &assertions::<SharedLock>("shared")
        + &format!("SAME(OL_DETAIL_WAKES, {}u);\n", overlock::abi::QUEUE_WAKES)
        + &version();
    for compiler in C.compilers().into_iter().chain(CXX.compilers()) {
        assert!(agrees(compiler, &all), "{compiler:?} does not find this true:\n{all}");
    }
    let compiler = C.compilers()[0];
    for line in all.lines() {
        let wrong = line.replace("u);", "0u);");
        assert!(!agrees(compiler, &wrong), "{compiler:?} finds this true: {wrong}");
    }
}

#[test]
fn a_ticket_s_head_comes_first() {
    let ticket = Ticket::new();
    ticket.lock();
    // SAFETY: the lock is four bytes and is not accessed by others while it is read.
    let cells = unsafe { (&raw const ticket).cast::<[u16; 2]>().read() };
    assert_eq!(cells, [0, Ticket::TAKE as u16], "head, tail");
    // SAFETY: taken above.
    unsafe { ticket.unlock() };
    // SAFETY: as above.
    let cells = unsafe { (&raw const ticket).cast::<[u16; 2]>().read() };
    assert_eq!(cells, [Ticket::TAKE as u16; 2], "head, tail");
}
