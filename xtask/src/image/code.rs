//! The code of the locks' verbs in the kernel image: how large it is, and that a lock whose waiting
//! is compiled in but switched off executes what the native one does, except for known differences.
//!
//! `nm` and `objdump` read it from the image. The verbs are separate functions there
//! (`crates/overlock-boot/src/image/probes.rs`).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The locks, as the probes name them, and as the crate does.
const LOCKS: [(&str, &str); 4] = [
    ("test_and_set", "TestAndSet"),
    ("ticket", "Ticket"),
    ("queued", "Queued"),
    ("hybrid", "Hybrid"),
];

/// What the unlock of a lock executes while waiting is switched off: the whole native one and the
/// instructions named here, or these instead of it. Only code patching could avoid them.
const UNLOCK_OFF: [&[&str]; 4] = [
    &["xor", "xchg", "test", "jne", "ret"],
    &["movzbl WAITING", "test", "je", "addw", "ret"],
    &["mov", "lock xadd", "test", "jne", "ret"],
    &["mov", "lock xadd", "test", "jne", "ret"],
];

/// A function of the image.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function {
    bytes: u64,
    /// Its instructions, by address, with names for what is outside.
    code: Vec<(u64, String)>,
    /// The size in bytes of the outside function that it jumps to.
    slow: Option<u64>,
}

/// Symbols of the image: address and size, by name.
type Symbols = BTreeMap<String, (u64, u64)>;

fn said(tool: &str, args: &[&str], image: &Path) -> Result<String> {
    let said = Command::new(tool).args(args).arg(image).output();
    let said = said.with_context(|| format!("{tool} did not start (apt-get install binutils)"))?;
    if !said.status.success() {
        bail!("{tool} can't read {}", image.display());
    }
    Ok(String::from_utf8(said.stdout)?)
}

/// Parses `ADDRESS SIZE KIND NAME`, a line each.
fn symbols(listing: &str) -> Symbols {
    let symbol = |line: &str| {
        let mut words = line.split_whitespace();
        let address = u64::from_str_radix(words.next()?, 16).ok()?;
        let size = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?.to_owned(), (address, size)))
    };
    listing.lines().filter_map(symbol).collect()
}

/// Parses the instructions of a disassembly, by address.
fn instructions(listing: &str) -> BTreeMap<u64, &str> {
    let instruction = |line| {
        let (address, code) = str::split_once(line, ":\t")?;
        Some((u64::from_str_radix(address.trim(), 16).ok()?, code.trim()))
    };
    listing.lines().filter_map(instruction).collect()
}

/// Returns the target of a jump or call.
fn target(code: &str) -> Option<u64> {
    let (operands, _) = code.split('#').next()?.split_once(" <")?;
    u64::from_str_radix(operands.split_whitespace().last()?, 16).ok()
}

/// Returns an instruction without the parts that depend on the function's address.
fn normal(code: &str, from: u64, bytes: u64) -> String {
    let (instruction, comment) = code.split_once('#').unwrap_or((code, ""));
    let words: Vec<&str> = instruction.split_whitespace().collect();
    let verb = words.first().copied().unwrap_or_default();
    if let Some(to) = target(instruction) {
        return match to.checked_sub(from).filter(|at| *at < bytes) {
            Some(at) => format!("{verb} +{at:#x}"),
            None => format!("{verb} outside"),
        };
    }
    let text = words.join(" ");
    if comment.contains("WAITING") { format!("{verb} WAITING") } else { text }
}

fn function(name: &str, symbols: &Symbols, code: &BTreeMap<u64, &str>) -> Result<Function> {
    let &(from, bytes) = symbols.get(name).with_context(|| format!("the image has no {name}"))?;
    let own = || code.range(from..from + bytes);
    let outside =
        own().filter_map(|(_, code)| target(code)).find(|to| !(from..from + bytes).contains(to));
    let slow =
        outside.and_then(|to| symbols.values().find(|(at, _)| *at == to)).map(|(_, size)| *size);
    let code = own().map(|(at, code)| (at - from, normal(code, from, bytes))).collect();
    Ok(Function { bytes, code, slow })
}

impl Function {
    fn text(&self) -> Vec<&str> {
        self.code.iter().map(|(_, code)| code.as_str()).collect()
    }

    /// Returns what is executed while waiting is switched off and no waiter has halted: the `je`
    /// after the load of the switch is taken, the `jne` to the kick is not.
    fn executed_off(&self) -> Vec<&str> {
        let mut done = Vec::new();
        let mut at = 0;
        while let Some((_, code)) = self.code.iter().find(|(own, _)| *own == at) {
            done.push(code.as_str());
            let next = self.code.iter().map(|(own, _)| *own).find(|own| *own > at);
            at = match code.split_once(" +0x") {
                Some(("je" | "jmp", to)) => u64::from_str_radix(to, 16).unwrap_or(u64::MAX),
                _ if code == "ret" => break,
                _ => next.unwrap_or(u64::MAX),
            };
        }
        done
    }
}

/// Describes what is wrong with one lock, if anything is.
fn difference(verbs: &[Function; 4], allowed: &[&str]) -> Option<String> {
    let [lock, unlock, native_lock, native_unlock] = verbs;
    if lock.text() != native_lock.text() {
        return Some(format!("lock is {:?}, native {:?}", lock.text(), native_lock.text()));
    }
    let off = unlock.executed_off();
    let known = off.len() == allowed.len()
        && off.iter().zip(allowed).all(|(code, begins)| code.starts_with(begins));
    (!known && off != native_unlock.text())
        .then(|| format!("unlock executes {off:?} while switched off, not {allowed:?}"))
}

/// Prints the sizes, and compares. Returns whether everything is as expected.
pub(super) fn check(image: &Path) -> Result<bool> {
    let symbols = symbols(&said("nm", &["-S"], image)?);
    let listing = said("objdump", &["-d", "--no-show-raw-insn"], image)?;
    let code = instructions(&listing);
    println!("| lock | lock | unlock | slow lock | kick | native: lock | unlock | slow lock |");
    println!("|---|---|---|---|---|---|---|---|");
    let mut fine = true;
    for ((probe, name), allowed) in LOCKS.into_iter().zip(UNLOCK_OFF) {
        let verb = |verb: &str| function(&format!("{probe}_{verb}"), &symbols, &code);
        let verbs = [
            verb("bare_lock")?,
            verb("bare_unlock")?,
            verb("native_lock")?,
            verb("native_unlock")?,
        ];
        let [lock, unlock, native_lock, native_unlock] = &verbs;
        let slow = |of: &Function| of.slow.map_or("-".to_owned(), |bytes| bytes.to_string());
        println!(
            "| `{name}` | {} | {} | {} | {} | {} | {} | {} |",
            lock.bytes,
            unlock.bytes,
            slow(lock),
            slow(unlock),
            native_lock.bytes,
            native_unlock.bytes,
            slow(native_lock)
        );
        if let Some(difference) = difference(&verbs, allowed) {
            println!("{name}: {difference}");
            fine = false;
        }
    }
    Ok(fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "
  137690:\tlock cmpxchg %ecx,(%rdi)
  137694:\tjne    126030 <lock_slow>
  13769a:\tret
  1376a0:\tmovzbl 0xa921(%rip),%eax        # 142008 <WAITING>
  1376a7:\ttest   %al,%al
  1376a9:\tje     1376b0 <unlock+0x10>
  1376ab:\tjmp    134a40 <kick>
  1376b0:\taddw   $0x2,(%rdi)
  1376b4:\tret
";
    const SYMBOLS: &str = "
0000000000137690 000000000000000b T lock
00000000001376a0 0000000000000015 T unlock
00000000001376b0 0000000000000005 T native_unlock
0000000000126030 0000000000000400 t lock_slow
0000000000134a40 00000000000000d8 t kick
";

    fn verbs(listing: &str) -> [Function; 4] {
        let (symbols, code) = (symbols(SYMBOLS), instructions(listing));
        ["lock", "unlock", "lock", "native_unlock"]
            .map(|name| function(name, &symbols, &code).expect("it is there"))
    }

    #[test]
    fn sizes_and_paths_are_read() {
        let verbs = verbs(LISTING);
        assert_eq!(
            verbs.clone().map(|verb| verb.slow),
            [Some(0x400), Some(0xd8), Some(0x400), None]
        );
        let off = ["movzbl WAITING", "test %al,%al", "je +0x10", "addw $0x2,(%rdi)", "ret"];
        assert!(verbs[1].executed_off().iter().zip(off).all(|(code, is)| code.starts_with(is)));
        assert_eq!(difference(&verbs, UNLOCK_OFF[1]), None);
    }

    #[test]
    fn one_more_instruction_is_found() {
        let sound = verbs(LISTING);
        let mut broken = sound.clone();
        broken[0].code.insert(0, (0, "nop".to_owned()));
        assert!(
            difference(&broken, UNLOCK_OFF[1]).is_some_and(|found| found.starts_with("lock is"))
        );
        let slower = verbs(&LISTING.replace("test   %al,%al", "lock incl (%rdi)"));
        assert!(difference(&slower, UNLOCK_OFF[1]).is_some_and(|found| found.contains("executes")));
    }
}
