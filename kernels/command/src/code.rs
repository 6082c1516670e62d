//! The locks' verbs in the kernel image: how large they are, and whether a lock whose waiting is
//! compiled in but switched off executes what the native one executes.
//!
//! Read from the image by `nm` and `objdump`. The verbs are functions of their own there
//! (`boot/src/image/probes.rs`), and the image is linked with waiting switched off
//! (`boot/src/platform/switch.rs`): what is read is what is executed.

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

/// The switch that is off, a NOP of five bytes.
const SWITCH: &str = "nopl 0x0(%rax,%rax,1)";

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
    let instruction = code.split_once('#').map_or(code, |(instruction, _)| instruction);
    let words: Vec<&str> = instruction.split_whitespace().collect();
    let verb = words.first().copied().unwrap_or_default();
    if let Some(to) = target(instruction) {
        return match to.checked_sub(from).filter(|at| *at < bytes) {
            Some(at) => format!("{verb} +{at:#x}"),
            None => format!("{verb} outside"),
        };
    }
    words.join(" ")
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

    /// What is executed where no branch is taken: up to the first return, without the switch.
    fn executed_off(&self) -> Vec<&str> {
        let mut code = self.text();
        if let Some(end) = code.iter().position(|code| *code == "ret") {
            code.truncate(end + 1);
        }
        if let Some(switch) = code.iter().position(|code| *code == SWITCH) {
            code.remove(switch);
        }
        code
    }
}

/// What is wrong with one lock, if anything.
fn difference(verbs: &[Function; 4]) -> Option<String> {
    let [lock, unlock, native_lock, native_unlock] = verbs;
    if lock.text() != native_lock.text() {
        return Some(format!("lock is {:?}, native {:?}", lock.text(), native_lock.text()));
    }
    let (off, native) = (unlock.executed_off(), native_unlock.text());
    (off != native)
        .then(|| format!("unlock executes {off:?} while switched off, the native one {native:?}"))
}

/// Compares the verbs in an image. Returns a table of their sizes with the differences below it,
/// and whether no lock that is switched off differs from the native one.
pub fn check(image: &Path) -> Result<(String, bool)> {
    let symbols = symbols(&said("nm", &["-S"], image)?);
    let listing = said("objdump", &["-d", "--no-show-raw-insn"], image)?;
    let code = instructions(&listing);
    let mut text =
        "| lock | lock | unlock | slow lock | kick | native: lock | unlock | slow lock |\n\
         |---|---|---|---|---|---|---|---|\n"
            .to_owned();
    let mut fine = true;
    for (probe, name) in LOCKS {
        let verb = |verb: &str| function(&format!("{probe}_{verb}"), &symbols, &code);
        let verbs = [
            verb("bare_lock")?,
            verb("bare_unlock")?,
            verb("native_lock")?,
            verb("native_unlock")?,
        ];
        let [lock, unlock, native_lock, native_unlock] = &verbs;
        let slow = |of: &Function| of.slow.map_or("-".to_owned(), |bytes| bytes.to_string());
        text += &format!(
            "| `{name}` | {} | {} | {} | {} | {} | {} | {} |\n",
            lock.bytes,
            unlock.bytes,
            slow(lock),
            slow(unlock),
            native_lock.bytes,
            native_unlock.bytes,
            slow(native_lock)
        );
        if let Some(difference) = difference(&verbs) {
            text += &format!("{name}: {difference}\n");
            fine = false;
        }
    }
    Ok((text, fine))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "
  137690:\tlock cmpxchg %ecx,(%rdi)
  137694:\tjne    126030 <lock_slow>
  13769a:\tret
  1376a0:\tnopl   0x0(%rax,%rax,1)
  1376a5:\taddw   $0x2,(%rdi)
  1376a9:\tret
  1376aa:\tmov    $0x2,%ax
  1376ae:\tlock xadd %ax,(%rdi)
  1376b3:\tjne    134a40 <kick>
  1376b9:\tret
  1376c0:\taddw   $0x2,(%rdi)
  1376c4:\tret
";
    const SYMBOLS: &str = "
0000000000137690 000000000000000b T lock
00000000001376a0 000000000000001a T unlock
00000000001376c0 0000000000000005 T native_unlock
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
        assert_eq!(verbs[1].executed_off(), ["addw $0x2,(%rdi)", "ret"]);
        assert_eq!(difference(&verbs), None);
    }

    /// What the unlock in place of the one above is found to be.
    fn found(from: &str, to: &str) -> bool {
        let listing = LISTING.replacen(from, to, 1);
        assert_ne!(listing, LISTING);
        difference(&verbs(&listing)).is_some_and(|found| found.starts_with("unlock executes"))
    }

    #[test]
    fn one_more_instruction_is_found() {
        let mut broken = verbs(LISTING);
        broken[0].code.insert(0, (0, "nop".to_owned()));
        assert!(difference(&broken).is_some_and(|found| found.starts_with("lock is")));
        // A switch in memory, a second NOP, one of another size, a dearer release, a switch that
        // is linked as on.
        assert!(found("nopl   0x0(%rax,%rax,1)", "cmpb   $0x0,0xa921(%rip)   # 142008 <WAITING>"));
        assert!(found("addw   $0x2", "nopl   0x0(%rax,%rax,1)\n  1376a7:\taddw   $0x2"));
        assert!(found("nopl   0x0(%rax,%rax,1)", "nopl   (%rax)"));
        assert!(found("addw   $0x2", "lock addw $0x2"));
        assert!(found("nopl   0x0(%rax,%rax,1)", "jmp    1376aa <unlock+0xa>"));
    }
}
