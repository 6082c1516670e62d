//! A running kernel: its output, and the four ways in which it ends.

use super::machine::{Machine, not_started};
use super::patience::{AT_MOST, Silence};
use super::said::Said;
use anyhow::{Context, Result, anyhow, bail};
use overlock_programs::{Child, GRACE, interrupt};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

/// How many of the last lines an error quotes.
const QUOTED: usize = 12;
/// How often to look for Ctrl-C.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It did everything it was asked for, and reported whether all was fine.
    Whole { fine: bool },
    /// By Ctrl-C.
    Interrupted,
}

/// Sends each line of `from`, until it ends.
fn read(from: impl Read + Send + 'static, to: Sender<String>) {
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|bytes| bytes > 0) {
            if to.send(String::from_utf8_lossy(&line).trim_end().to_owned()).is_err() {
                return;
            }
            line.clear();
        }
    });
}

/// Runs a machine to its end, and passes each of the kernel's records to `hear`.
///
/// # Errors
/// If the machine does not start, the kernel panics, resets the machine, makes no record for
/// `patience`, in which the machine had its share of this one, or for [`AT_MOST`] times as long
/// says no more than that it is alive.
pub(super) fn run(
    mut machine: Machine,
    patience: Duration,
    mut hear: impl FnMut(Said) -> Result<()>,
) -> Result<Ended> {
    let mut qemu = Child::spawn(&mut machine.qemu).map_err(not_started)?;
    let (send, lines) = mpsc::channel();
    qemu.stdout.take().into_iter().for_each(|out| read(out, send.clone()));
    qemu.stderr.take().into_iter().for_each(|err| read(err, send.clone()));
    drop(send);
    let mut last = VecDeque::new();
    let mut silence = Silence::begin(qemu.id());
    let mut progress = Instant::now();
    loop {
        let line = match next(&lines, &silence, patience) {
            Next::Line(line) => line,
            Next::Interrupted => {
                qemu.end(GRACE).context("it is unknown how QEMU ended")?;
                return Ok(Ended::Interrupted);
            }
            Next::Silence => return Err(hangs(&silence, &last)),
            Next::End if last.iter().any(|line| is_triple_fault(line)) => {
                let what = "a vCPU of the emulated KVM ended by a triple fault";
                return Err(EmulatorFault { what, said: quote(&last) }.into());
            }
            Next::End => bail!(
                "the kernel reset the machine, as after a triple fault, or QEMU gave up{}",
                quote(&last)
            ),
        };
        match Said::parse(&line) {
            Some(Said::End { fine }) => return Ok(Ended::Whole { fine }),
            Some(Said::Panic { why }) => bail!("the kernel gave up: {why}{}", quote(&last)),
            Some(said) => {
                if !matches!(said, Said::Alive { .. } | Said::Garbled(_)) {
                    progress = Instant::now();
                }
                hear(said)?;
                silence = Silence::begin(qemu.id());
            }
            // A host may talk on while its kernel hangs.
            None if silence.is_too_long(patience) => {
                return Err(hangs(&silence, &last));
            }
            None => {}
        }
        if progress.elapsed() >= patience * AT_MOST {
            let seconds = progress.elapsed().as_secs();
            bail!("the kernel comes to no end: nothing done for {seconds} s{}", quote(&last));
        }
        if !line.is_empty() {
            last.push_back(line);
        }
        if last.len() > QUOTED {
            last.pop_front();
        }
    }
}

enum Next {
    Line(String),
    Silence,
    End,
    Interrupted,
}

fn next(lines: &Receiver<String>, silence: &Silence, patience: Duration) -> Next {
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) => return Next::Line(line),
            _ if interrupt::seen() => return Next::Interrupted,
            Err(RecvTimeoutError::Disconnected) => return Next::End,
            Err(RecvTimeoutError::Timeout) if silence.is_too_long(patience) => {
                return Next::Silence;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The emulated KVM lost a vCPU, which is not this kernel's doing as far as can be told: another
/// start shows it.
#[derive(Debug)]
pub(super) struct EmulatorFault {
    what: &'static str,
    said: String,
}

impl std::fmt::Display for EmulatorFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.what, self.said)
    }
}

impl std::error::Error for EmulatorFault {}

/// Whether this line of the monitor's tells of a fault without a handler. This kernel has handlers
/// before it has a second CPU, and Linux was seen to end so, too.
fn is_triple_fault(line: &str) -> bool {
    line.starts_with("the machine ended: a triple fault;")
}

/// Whether this line of the monitor's shows a vCPU with code and stack at addresses of Linux's
/// kernel. This guest maps neither: a jump of its own there faults, and the kernel gives up with a
/// word. So the emulator has mixed up the vCPU with its host.
fn is_mixed_up(line: &str) -> bool {
    line.starts_with("vCPU ") && [": RIP 0xffff", " RSP 0xffff"].iter().all(|at| line.contains(at))
}

fn hangs(silence: &Silence, last: &VecDeque<String>) -> anyhow::Error {
    if last.iter().any(|line| is_mixed_up(line)) {
        let what = "QEMU has mixed up a vCPU with its host";
        return EmulatorFault { what, said: quote(last) }.into();
    }
    let seconds = silence.lasted().as_secs();
    anyhow!("the kernel hangs: not a word for {seconds} s{}", quote(last))
}

/// The last lines, for the end of a sentence.
fn quote(last: &VecDeque<String>) -> String {
    if last.is_empty() {
        return "; it said nothing".into();
    }
    let lines: String = last.iter().map(|line| format!("\n    {line}")).collect();
    format!("; it said last:{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How a shell's script ends in place of a kernel.
    fn ends(script: &str) -> String {
        let machine = Machine::of_script(script);
        run(machine, Duration::from_secs(1), |_| Ok(())).unwrap_err().to_string()
    }

    /// How several end that run at once: most of them wait.
    fn all_end<const N: usize>(scripts: [&str; N]) -> [String; N] {
        std::thread::scope(|scope| {
            let threads = scripts.map(|script| scope.spawn(|| ends(script)));
            threads.map(|thread| thread.join().expect("no panic"))
        })
    }

    #[test]
    fn a_panic_a_silence_and_a_reset_are_one_clear_error() {
        let of_host = "vCPU 1: RIP 0xffffffffc0461dcc RSP 0xffffd25b003e3aa0";
        let at = |line: &str| format!("echo '{line}'; exec sleep 60");
        let [panic, silence, talk, mixed, jump, lost, reset] = all_end([
            r#"echo hello; echo '{"kind":"panic","why":"a fault"}'; sleep 60"#,
            "echo hello; exec sleep 60",
            "while :; do echo 'CPU 0 is stuck'; sleep 0.05; done",
            &at(of_host),
            &at("vCPU 1: RIP 0xffffffffc0461dcc RSP 0x1e0f28"),
            "echo 'the machine ended: a triple fault; vCPU 4: RIP 0xfff0 RSP 0x0'",
            "exit 3",
        ]);
        assert_eq!(panic, "the kernel gave up: a fault; it said last:\n    hello");
        assert!(silence.starts_with("the kernel hangs: not a word for"), "{silence}");
        assert!(silence.ends_with("it said last:\n    hello"), "{silence}");
        assert!(talk.starts_with("the kernel hangs: not a word for"), "{talk}");
        assert!(mixed.starts_with("QEMU has mixed up a vCPU with its host; it said"), "{mixed}");
        assert!(jump.starts_with("the kernel hangs"), "{jump}");
        assert!(lost.starts_with("a vCPU of the emulated KVM ended by a triple fault; "), "{lost}");
        assert!(reset.starts_with("the kernel reset the machine"), "{reset}");
        assert!(reset.ends_with("it said nothing"), "{reset}");
        let alive = r#"while :; do echo '{"kind":"alive","ops":9}'; sleep 0.02; done"#;
        let alive = run(Machine::of_script(alive), Duration::from_millis(100), |_| Ok(()));
        let alive = alive.unwrap_err().to_string();
        assert!(alive.starts_with("the kernel comes to no end"), "{alive}");
    }
}
