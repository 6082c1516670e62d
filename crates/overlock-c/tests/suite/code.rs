//! Which machine code do the inline paths become?

use std::collections::BTreeMap;
use std::process::Command;

use crate::support::{self, C};

/// The instructions of a function with their addresses.
type Code = Vec<(u64, String)>;

/// Returns the code of each function in an object file, by name.
fn functions(listing: &str) -> BTreeMap<String, Code> {
    let mut all: BTreeMap<String, Code> = BTreeMap::new();
    let mut name = String::new();
    for line in listing.lines() {
        if let Some((_, rest)) = line.split_once(" <").filter(|(_, rest)| rest.ends_with(">:")) {
            name = rest.trim_end_matches(">:").to_owned();
        } else if let Some((at, instruction)) = line.split_once(":\t") {
            let at = u64::from_str_radix(at.trim(), 16).expect("an address");
            all.entry(name.clone()).or_default().push((at, instruction.trim().to_owned()));
        }
    }
    all
}

/// Returns whether an instruction locks a cache line. An exchange with memory needs no prefix.
fn is_locked(instruction: &str) -> bool {
    instruction.starts_with("lock ")
        || instruction.starts_with("xchg ") && instruction.contains('(')
}

/// Returns what a function executes up to its return if its compare-exchange succeeds and no other
/// branch is taken. A compiler may place that after the rest.
fn fast(code: &Code) -> Result<Vec<&str>, &'static str> {
    let mut fast: Vec<&str> = Vec::new();
    let mut next = 0;
    while fast.len() < code.len() {
        let (_, instruction) = code.get(next).ok_or("it ends without a return")?;
        if instruction.starts_with("ret") {
            return Ok(fast);
        }
        let follows_exchange = fast.last().is_some_and(|last| last.starts_with("lock cmpxchg"));
        let target = instruction.strip_prefix("je ").filter(|_| follows_exchange);
        next = match target.and_then(|target| target.split_whitespace().next()) {
            None => next + 1,
            Some(to) => {
                let to = u64::from_str_radix(to, 16).map_err(|_| "it jumps to no address")?;
                code.iter().position(|(at, _)| *at == to).ok_or("it jumps out")?
            }
        };
        fast.push(instruction);
    }
    Err("it never returns")
}

/// Checks one function: on its fast path it locks once and makes no call.
fn check(name: &str, code: &Code) -> Result<(), String> {
    let fast = fast(code)?;
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
    let code = |text: &str| (0..).zip(text.lines().map(str::to_owned)).collect::<Code>();
    let good = "mov    $0x1,%edx\nlock cmpxchg %edx,(%rdi)\njne    11\nret\ncall   20";
    assert_eq!(check("good", &code(good)), Ok(()));
    assert_eq!(check("xchg", &code("xchg   %eax,(%rdi)\nret")), Ok(()));
    let placed_last = "lock cmpxchg %edx,(%rdi)\nje     4 <f+0x4>\ncall   20\nret\nret";
    assert_eq!(check("placed last", &code(placed_last)), Ok(()));
    for bad in [
        "lock cmpxchg %edx,(%rdi)",
        "lock cmpxchg %edx,(%rdi)\nje     3 <f+0x3>\nret\ncall   20\nret",
        "lock cmpxchg %edx,(%rdi)\nje     0 <f>\nret",
        "mov    %eax,%edx\nret",
        "xchg   %ax,%ax\nret",
        "lock cmpxchg %edx,(%rdi)\nlock xadd %esi,(%rdi)\nret",
        "lock cmpxchg %edx,(%rdi)\ncall   20\nret",
        "lock cmpxchg %edx,(%rdi)\njmp    20\nret",
    ] {
        assert!(check("bad", &code(bad)).is_err(), "{bad}");
    }
}
