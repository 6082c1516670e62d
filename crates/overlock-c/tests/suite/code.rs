// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which machine code do the inline paths become?

use std::collections::BTreeMap;
use std::process::Command;

use crate::support::{self, C};

/// Returns the instructions of each function in an object file, by name.
fn functions(listing: &str) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut name = String::new();
    for line in listing.lines() {
        if let Some((_, rest)) = line.split_once(" <").filter(|(_, rest)| rest.ends_with(">:")) {
            name = rest.trim_end_matches(">:").to_owned();
        } else if let Some((_, instruction)) = line.split_once(":\t") {
            all.entry(name.clone()).or_default().push(instruction.trim().to_owned());
        }
    }
    all
}

/// Returns whether an instruction locks a cache line. An exchange with memory needs no prefix.
fn is_locked(instruction: &str) -> bool {
    instruction.starts_with("lock ")
        || instruction.starts_with("xchg ") && instruction.contains('(')
}

/// Checks one function: up to its first return it locks once and makes no call.
fn check(name: &str, code: &[String]) -> Result<(), String> {
    let end = code.iter().position(|i| i.starts_with("ret")).ok_or("it never returns")?;
    let fast = &code[..end];
    let locked = fast.iter().filter(|i| is_locked(i)).count();
    if locked != 1 {
        return Err(format!("{name}: {locked} locked instructions in {fast:#?}"));
    }
    if let Some(call) = fast.iter().find(|i| i.starts_with("call") || i.starts_with("jmp ")) {
        return Err(format!("{name}: {call} in {fast:#?}"));
    }
    Ok(())
}

#[test]
fn an_uncontended_operation_is_one_locked_instruction_and_no_call() {
    if !support::is_present("objdump") {
        return support::skip("the machine code: there is no objdump");
    }
    for compiler in C.compilers() {
        let folder = tempfile::tempdir().expect("a folder for the object");
        let object = folder.path().join("paths.o");
        let source = support::package().join("tests/c/paths.c");
        support::succeeds(compiler.command().arg("-c").arg(source).arg("-o").arg(&object));
        let mut objdump = Command::new("objdump");
        let listing = support::succeeds(objdump.args(["-d", "--no-show-raw-insn"]).arg(&object));
        let all = functions(&listing);
        let mut checked = 0;
        for (name, code) in all.iter().filter(|(name, _)| !name.contains(".cold")) {
            if let Err(error) = check(name, code) {
                panic!("{compiler:?}: {error}");
            }
            checked += 1;
        }
        // Six locks with three verbs; five of them can be timed.
        assert_eq!(checked, 6 * 3 + 5, "{compiler:?}");
    }
}

#[test]
fn the_check_refuses_calls_and_second_locks() {
    let code = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let good = "mov    $0x1,%edx\nlock cmpxchg %edx,(%rdi)\njne    11\nret\ncall   20";
    assert_eq!(check("good", &code(good)), Ok(()));
    assert_eq!(check("xchg", &code("xchg   %eax,(%rdi)\nret")), Ok(()));
    for bad in [
        "lock cmpxchg %edx,(%rdi)",
        "mov    %eax,%edx\nret",
        "xchg   %ax,%ax\nret",
        "lock cmpxchg %edx,(%rdi)\nlock xadd %esi,(%rdi)\nret",
        "lock cmpxchg %edx,(%rdi)\ncall   20\nret",
        "lock cmpxchg %edx,(%rdi)\njmp    20\nret",
    ] {
        assert!(check("bad", &code(bad)).is_err(), "{bad}");
    }
}
