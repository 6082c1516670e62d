//! The records that the kernel writes into a ring, as values.

use perf_event_open_sys::bindings as perf;

/// What every event samples, so that a record's event, thread and time are always at one place.
pub(crate) const ALWAYS: u64 = (perf::PERF_SAMPLE_IDENTIFIER
    | perf::PERF_SAMPLE_TID
    | perf::PERF_SAMPLE_TIME
    | perf::PERF_SAMPLE_CPU) as u64;
pub(crate) const CALLCHAIN: u64 = perf::PERF_SAMPLE_CALLCHAIN as u64;
pub(crate) const RAW: u64 = perf::PERF_SAMPLE_RAW as u64;
pub(crate) const STACK: u64 = PLACE | perf::PERF_SAMPLE_STACK_USER as u64;
/// Without the stack, only the instruction and the first argument of a system call.
pub(crate) const PLACE: u64 = perf::PERF_SAMPLE_REGS_USER as u64;

/// The registers that an unwinder starts from: frame pointer, stack pointer, instruction pointer;
/// before them, the first argument of a system call.
#[cfg(target_arch = "x86_64")]
pub(crate) const REGISTERS: u64 = 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8;
/// The registers that a system call is known by: its first argument and the instruction pointer.
/// The kernel's tracepoints pass over the calls of 32-bit programs.
#[cfg(target_arch = "x86_64")]
pub(crate) const CALL: u64 = 1 << 5 | 1 << 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Sample,
    Fork,
    Exit,
    Comm { is_exec: bool },
    Mapping,
    Switch { is_out: bool, is_preempted: bool },
    Lost,
    Other,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) event: u64,
    pub(crate) process: u32,
    pub(crate) thread: u32,
    pub(crate) time: u64,
    pub(crate) cpu: u32,
    /// What follows the fields that every record has.
    body: &'a [u8],
}

#[derive(Clone, Debug)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) length: u64,
    pub(crate) offset: u64,
    pub(crate) path: String,
}

impl Mapping {
    pub(crate) fn end(&self) -> u64 {
        self.start.saturating_add(self.length)
    }
}

/// A user's registers and the bytes above its stack pointer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stack<'a> {
    pub(crate) frame: u64,
    pub(crate) pointer: u64,
    pub(crate) instruction: u64,
    pub(crate) bytes: &'a [u8],
}

impl Stack<'_> {
    /// Returns the word at an address, if its bytes were copied. A stack that is broken names any
    /// address, just below the pointer, too.
    pub(crate) fn word(&self, address: u64) -> Option<u64> {
        let at = usize::try_from(address.checked_sub(self.pointer)?).ok()?;
        let bytes = self.bytes.get(at..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*bytes))
    }
}

/// Splits what was in a ring into records, and calls `each` with the bytes of each.
pub(crate) fn split(mut bytes: &[u8], mut each: impl FnMut(&[u8])) {
    while let Some(length) = bytes.get(6..8) {
        let length = usize::from(u16::from_ne_bytes([length[0], length[1]]));
        let Some((record, rest)) = bytes.split_at_checked(length).filter(|_| length >= 8) else {
            return;
        };
        each(record);
        bytes = rest;
    }
}

impl<'a> Record<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        let mut head = Fields(bytes);
        let (kind, misc) = (head.u32()?, head.u16()?);
        head.u16()?;
        let kind = match kind {
            perf::PERF_RECORD_SAMPLE => Kind::Sample,
            perf::PERF_RECORD_FORK => Kind::Fork,
            perf::PERF_RECORD_EXIT => Kind::Exit,
            perf::PERF_RECORD_COMM => Kind::Comm { is_exec: misc & (1 << 13) != 0 },
            perf::PERF_RECORD_MMAP2 => Kind::Mapping,
            perf::PERF_RECORD_LOST => Kind::Lost,
            perf::PERF_RECORD_SWITCH | perf::PERF_RECORD_SWITCH_CPU_WIDE => {
                Kind::Switch { is_out: misc & (1 << 13) != 0, is_preempted: misc & (1 << 14) != 0 }
            }
            _ => Kind::Other,
        };
        // Of a sample, these fields are in front; of other records, behind, in another order.
        let (event, rest, body) = if kind == Kind::Sample {
            (head.u64()?, head, None)
        } else {
            let at = bytes.len().checked_sub(32)?;
            let mut last = Fields(&bytes[bytes.len() - 8..]);
            (last.u64()?, Fields(&bytes[at..]), Some(bytes.get(8..at)?))
        };
        let mut rest = rest;
        let (process, thread, time) = (rest.u32()?, rest.u32()?, rest.u64()?);
        let cpu = rest.u32()?;
        rest.u32()?;
        Some(Record { kind, event, process, thread, time, cpu, body: body.unwrap_or(rest.0) })
    }

    /// Returns the process and thread of a fork or an end, and those of its parent.
    pub(crate) fn family(&self) -> Option<[u32; 4]> {
        let mut body = Fields(self.body);
        let (process, parent) = (body.u32()?, body.u32()?);
        let (thread, of) = (body.u32()?, body.u32()?);
        Some([process, thread, parent, of])
    }

    /// Returns a thread that has a new name, which another one may have given to it, and the name.
    pub(crate) fn comm(&self) -> Option<(u32, String)> {
        let mut body = Fields(self.body);
        body.u32()?;
        let thread = body.u32()?;
        let name = body.0.split(|byte| *byte == 0).next()?;
        Some((thread, String::from_utf8_lossy(name).into_owned()))
    }

    pub(crate) fn mapping(&self) -> Option<Mapping> {
        let mut body = Fields(self.body);
        body.u64()?;
        let (start, length, offset) = (body.u64()?, body.u64()?, body.u64()?);
        // The device and the inode or the build id, and the protection.
        body.take(32)?;
        let path = body.0.split(|byte| *byte == 0).next()?;
        Some(Mapping { start, length, offset, path: String::from_utf8_lossy(path).into_owned() })
    }

    /// Returns the parts of a sample: call chain, data of the tracepoint, registers and stack.
    pub(crate) fn sample(&self, parts: u64) -> Option<Sample<'a>> {
        let mut body = Fields(self.body);
        let mut sample = Sample { chain: &[], raw: &[], place: 0, argument: 0, stack: None };
        if parts & CALLCHAIN != 0 {
            let count = usize::try_from(body.u64()?).ok()?;
            sample.chain = body.take(count.checked_mul(8)?)?;
        }
        if parts & RAW != 0 {
            let size = usize::try_from(body.u32()?).ok()?;
            sample.raw = body.take(size)?;
        }
        if parts & STACK == PLACE && body.u64()? != 0 {
            (sample.argument, sample.place) = (body.u64()?, body.u64()?);
        }
        if parts & STACK == STACK && body.u64()? != 0 {
            let argument = body.u64()?;
            let (frame, pointer, instruction) = (body.u64()?, body.u64()?, body.u64()?);
            (sample.argument, sample.place) = (argument, instruction);
            let size = usize::try_from(body.u64()?).ok()?;
            let all = body.take(size)?;
            let used = if size == 0 { 0 } else { usize::try_from(body.u64()?).ok()? };
            let bytes = all.get(..used)?;
            sample.stack = Some(Stack { frame, pointer, instruction, bytes });
        }
        Some(sample)
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample<'a> {
    pub(crate) chain: &'a [u8],
    pub(crate) raw: &'a [u8],
    /// The instruction in user mode, or 0.
    pub(crate) place: u64,
    /// The first argument, if it is in a system call.
    pub(crate) argument: u64,
    pub(crate) stack: Option<Stack<'a>>,
}

impl Sample<'_> {
    /// Returns the addresses in the kernel of the call chain, the innermost first.
    pub(crate) fn kernel_chain(&self) -> Vec<u64> {
        // Above this, numbers mark the part of the chain that follows.
        const MARKS: u64 = (-4095_i64).cast_unsigned();
        let addresses = self.chain.chunks_exact(8).filter_map(|bytes| Fields(bytes).u64());
        addresses.filter(|address| *address < MARKS).collect()
    }

    /// Returns a number of the tracepoint's data, by offset and size.
    pub(crate) fn field(&self, field: Field) -> u64 {
        let mut bytes = [0; 8];
        let size = field.size.min(8);
        if let Some(data) = self.raw.get(field.offset..field.offset + size) {
            bytes[..size].copy_from_slice(data);
        }
        u64::from_ne_bytes(bytes)
    }
}

/// Where a tracepoint's data has a field.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Field {
    offset: usize,
    size: usize,
}

impl Field {
    /// Finds a field in the text with which the kernel describes a tracepoint.
    pub(crate) fn find(format: &str, name: &str) -> Option<Self> {
        let line = format.lines().find(|line| {
            let field = line.trim().strip_prefix("field:").and_then(|rest| rest.split(';').next());
            let last = field.and_then(|field| field.rsplit([' ', '*']).next());
            last.is_some_and(|last| last.split('[').next() == Some(name))
        })?;
        let number = |key: &str| {
            let (_, rest) = line.split_once(key)?;
            rest.split(';').next()?.parse().ok()
        };
        Some(Field { offset: number("offset:")?, size: number("size:")? })
    }
}

/// Reads numbers from the front of bytes.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_ne_bytes(self.take(2)?.try_into().ok()?))
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_in_the_kernels_description() {
        let format = "format:\n\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                      \tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;\n\
                      \tfield:u32 * uaddr;\toffset:16;\tsize:8;\tsigned:0;\n";
        let found = |name| Field::find(format, name).map(|field| (field.offset, field.size));
        assert_eq!(found("prev_pid"), Some((24, 4)));
        assert_eq!(found("uaddr"), Some((16, 8)));
        assert_eq!(found("prev_comm"), Some((8, 16)));
        assert_eq!(found("pid"), None);
    }

    #[test]
    fn only_words_that_were_copied_are_read() {
        let bytes: Vec<u8> = (1..=12).collect();
        let stack = Stack { frame: 0, pointer: 0x1000, instruction: 0, bytes: &bytes };
        let first = u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(stack.word(0x1000), Some(first));
        for outside in [0, 0xff8, 0xfff, 0x1005, 0x100c, u64::MAX] {
            assert_eq!(stack.word(outside), None, "{outside:#x}");
        }
    }

    #[test]
    fn a_broken_record_is_no_record() {
        let mut count = 0;
        split(&[9, 0, 0, 0, 0, 0, 200, 0, 1, 2], |_| count += 1);
        split(&[9, 0, 0, 0, 0, 0, 4, 0], |_| count += 1);
        assert_eq!(count, 0);
        assert!(Record::new(&[9, 0, 0, 0, 0, 0, 8, 0]).is_none());
    }
}
