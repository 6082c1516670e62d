//! The system calls in which threads sleep, by `/proc`.

use crate::analysis::{Reason, Site};
use crate::names::kernel::FUTEX;
use crate::names::word::Op;
use crate::sources::platform;
use crate::sources::points::{FUTEX_COMMAND, FUTEX_PRIVATE, STACK_BYTES, WAITS};
use crate::sources::records::Stack;
use crate::sources::tracer::Tracer;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    /// Its number; -1 if the thread sleeps outside of any call.
    pub(crate) number: i64,
    pub(crate) arguments: [u64; 3],
    pub(crate) stack: u64,
    pub(crate) code: u64,
}

/// Returns the call in which a thread sleeps now, or nothing if it can run.
///
/// # Errors
/// If the thread has ended, or that is a secret.
pub(crate) fn read(process: u32, thread: u32) -> std::io::Result<Option<Call>> {
    let text = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/syscall"))?;
    let words: Vec<u64> = text.split_whitespace().filter_map(number).collect();
    let [number, arguments @ .., stack, code] = &words[..] else { return Ok(None) };
    let argument = |index: usize| arguments.get(index).copied().unwrap_or(0);
    let arguments = [argument(0), argument(1), argument(2)];
    Ok(Some(Call { number: number.cast_signed(), arguments, stack: *stack, code: *code }))
}

impl Call {
    pub(crate) fn is_futex_wait(&self) -> bool {
        let op = self.arguments[1] & FUTEX_COMMAND;
        self.number == libc::SYS_futex && WAITS.iter().any(|wait| u64::from(*wait) == op)
    }

    fn op(&self) -> Op {
        match self.is_futex_wait() {
            true => Op::new(self.arguments[1] & FUTEX_COMMAND, self.arguments[2]),
            false => Op::Other,
        }
    }

    pub(crate) fn is_shared(&self) -> bool {
        self.arguments[1] & FUTEX_PRIVATE == 0
    }

    /// Returns whether it may be a wait for a mutex of the GNU C library.
    pub(crate) fn is_mutex(&self) -> bool {
        self.op().is_mutex(self.arguments[2])
    }

    /// Returns why a thread sleeps in it.
    pub(crate) fn reason(&self, tracer: &mut Tracer, process: u32) -> Reason {
        match self.is_futex_wait() {
            true => FUTEX,
            false => tracer.kernel.call(process, self.number, (self.arguments[0], None)),
        }
    }

    /// Returns the place of a thread that sleeps in it.
    pub(crate) fn site(&self, tracer: &mut Tracer, (process, thread): (u32, u32)) -> Site {
        // Some functions of the C library have a buffer on the stack.
        let mut bytes = [0; 4 * STACK_BYTES as usize];
        // The end of the stack may be nearer than that.
        let lengths = [1, 4, 16, 64].map(|part| bytes.len() / part);
        let read = lengths
            .into_iter()
            .map(|length| platform::read_memory(thread, self.stack, &mut bytes[..length]))
            .find(|read| *read > 0)
            .unwrap_or(0);
        let (pointer, instruction) = (self.stack, self.code);
        let stack = Stack { frame: 0, pointer, instruction, bytes: &bytes[..read] };
        let site = tracer.images.site(process, &stack, self.op());
        match self.is_futex_wait() {
            true => {
                let [lock, _, value] = self.arguments;
                tracer.site_of_word((process, lock), site, self.op(), value)
            }
            false => site,
        }
    }
}

/// Reads a number of such a file.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => word.parse::<i64>().ok().map(i64::cast_unsigned),
    }
}
