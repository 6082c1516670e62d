//! Loops that wait on a processor, told by their instructions.
//!
//! A thread that yields its processor waits, and so does one that pauses it. A loop waits if it
//! contains PAUSE, or if all that it does is to look at memory that it does not itself move on to
//! or write: load, compare, branch, and perhaps an attempt to exchange the value. Compilers put
//! what is seldom done behind the end of the function, so loops are found by where branches lead;
//! and between two attempts a thread may count, to back off.

use crate::analysis::hash::HashMap;
use crate::names::images::Images;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use std::collections::VecDeque;

/// The places that samples have met, and whether each is in a loop that waits.
#[derive(Default)]
pub(crate) struct Spins {
    known: HashMap<(usize, u64), Loop>,
}

/// What an instruction belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loop {
    None,
    Waits,
    /// The call by which a loop yields.
    Yields,
}

/// How far behind a place the end of its loop is looked for, in instructions.
const FURTHEST: usize = 48;
/// The longest loop, in bytes.
const LONGEST: u64 = 256;
/// How many instructions are followed from a place, where branches lead to any.
const MOST_FOLLOWED: usize = 256;
/// How many places are remembered.
const MOST_PLACES: usize = 1 << 16;

impl Spins {
    /// Returns whether an address of a process is in a loop that waits; a call that yields is a
    /// part of one only if it counts.
    pub(crate) fn is_loop(
        &mut self,
        images: &Images,
        (process, address): (u32, u64),
        yields_count: bool,
    ) -> bool {
        let Some(code) = images.code(process, address) else { return false };
        let place = (code.image, code.at);
        let known = self.known.get(&place).copied();
        let found = known.unwrap_or_else(|| find(code.text, code.start, code.at));
        if known.is_none() && self.known.len() < MOST_PLACES {
            self.known.insert(place, found);
        }
        found == Loop::Waits || (found == Loop::Yields && yields_count)
    }
}

/// Returns what the instruction at `at` belongs to, in code that begins at `start`.
fn find(text: &[u8], start: u64, at: u64) -> Loop {
    let waits = || {
        // Only code that waits pauses, whatever calls it.
        is_near(text, start, at, &PAUSE, [0, 2])
            || loop_around(text, start, at).is_some_and(|body| is_waiting(&body))
            || ways_round(text, start, at).iter().any(|body| backs_off(body))
    };
    match is_near(text, start, at, &YIELD, [5, 7]) {
        true => Loop::Yields,
        false if waits() => Loop::Waits,
        false => Loop::None,
    }
}

/// PAUSE, and `mov eax, 24; syscall`, which is `sched_yield`.
const PAUSE: [u8; 2] = [0xf3, 0x90];
const YIELD: [u8; 7] = [0xb8, 24, 0, 0, 0, 0x0f, 0x05];

/// Returns whether some code begins so many bytes before an instruction. A sample finds a thread at
/// the code's last instruction, or right behind it.
fn is_near(text: &[u8], start: u64, at: u64, code: &[u8], before: [u64; 2]) -> bool {
    before.into_iter().any(|before| {
        let from = at.checked_sub(start + before).and_then(|from| usize::try_from(from).ok());
        from.and_then(|from| text.get(from..)).is_some_and(|text| text.starts_with(code))
    })
}

fn decoder(text: &[u8], start: u64, at: u64) -> Option<Decoder<'_>> {
    let bytes = text.get(usize::try_from(at.checked_sub(start)?).ok()?..)?;
    Some(Decoder::with_ip(64, bytes, at, DecoderOptions::NONE))
}

/// Returns the instructions of the smallest loop around an instruction.
fn loop_around(text: &[u8], start: u64, at: u64) -> Option<Vec<Instruction>> {
    let end = decoder(text, start, at)?.into_iter().take(FURTHEST).find_map(|instruction| {
        let jumps = matches!(
            instruction.flow_control(),
            FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
        );
        let target = instruction.near_branch_target();
        (jumps && target <= at && at - target <= LONGEST).then_some((target, instruction.next_ip()))
    });
    let (first, end) = end?;
    let body: Vec<_> =
        decoder(text, start, first)?.into_iter().take_while(|one| one.ip() < end).collect();
    Some(body)
}

/// Returns the shortest ways from an instruction back to itself: by each PAUSE, and by each attempt
/// to exchange memory, which comes last, without a call.
fn ways_round(text: &[u8], start: u64, at: u64) -> Vec<Vec<Instruction>> {
    let from = ways(text, start, at);
    let turns = from.values().map(|(one, _)| *one);
    let turns = turns.filter(|one| one.mnemonic() == Mnemonic::Pause || exchanges(one));
    let round = |turn: Instruction| {
        let back = ways(text, start, turn.ip());
        let (first, before) = back.get(&at).filter(|(_, before)| *before != NOWHERE)?;
        let here = way(&back, turn.ip(), *before);
        Some([here, vec![*first], way(&from, at, turn.ip())].concat())
    };
    turns.filter_map(round).collect()
}

/// Instructions by their addresses, each with the address of the one before it on the shortest way
/// from the first, or, of the first, on the shortest way back to it.
type Ways = HashMap<u64, (Instruction, u64)>;

const NOWHERE: u64 = u64::MAX;

/// Returns the instructions that can be reached from one. Ways end at calls and returns.
fn ways(text: &[u8], start: u64, first: u64) -> Ways {
    let mut known = Ways::default();
    let mut next = VecDeque::from([(first, NOWHERE)]);
    while let Some((ip, before)) = next.pop_front() {
        if let Some((_, last)) = known.get_mut(&ip) {
            if ip == first && *last == NOWHERE {
                *last = before;
            }
            continue;
        }
        let one = decoder(text, start, ip).and_then(|mut all| all.iter().next());
        let Some(one) = one.filter(|one| !one.is_invalid() && known.len() < MOST_FOLLOWED) else {
            continue;
        };
        known.insert(ip, (one, before));
        let flow = one.flow_control();
        if matches!(flow, FlowControl::Next | FlowControl::ConditionalBranch) {
            next.push_back((one.next_ip(), ip));
        }
        if matches!(flow, FlowControl::UnconditionalBranch | FlowControl::ConditionalBranch) {
            next.push_back((one.near_branch_target(), ip));
        }
    }
    known
}

/// Returns the instructions behind one, up to another.
fn way(ways: &Ways, from: u64, to: u64) -> Vec<Instruction> {
    let mut ip = to;
    let back = std::iter::from_fn(|| {
        let (one, before) = ways.get(&ip).filter(|_| ip != from)?;
        ip = *before;
        Some(*one)
    });
    let mut way: Vec<Instruction> = back.collect();
    way.reverse();
    way
}

/// Returns whether a way round pauses, or attempts an exchange and does else nothing to memory that
/// is not the function's own.
fn backs_off(body: &[Instruction]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let steps: Vec<Step> = body.iter().map(|one| Step::new(one, &mut factory)).collect();
    let is_harmless = steps.iter().all(|step| !step.stores_elsewhere);
    let pauses = body.iter().any(|one| one.mnemonic() == Mnemonic::Pause);
    is_harmless && (pauses || (body.iter().any(exchanges) && !updates(body, &steps)))
}

fn is_waiting(body: &[Instruction]) -> bool {
    let leaves = |one: &Instruction| {
        matches!(
            one.flow_control(),
            FlowControl::Call | FlowControl::IndirectCall | FlowControl::Return
        )
    };
    if body.iter().any(|one| one.is_invalid() || leaves(one)) {
        return false;
    }
    body.iter().any(|one| one.mnemonic() == Mnemonic::Pause) || only_looks(body)
}

/// Returns whether memory is a variable of the function: above its stack pointer, or below its
/// frame pointer. That register may also hold any other address.
fn is_own(register: Register, displacement: u64) -> bool {
    match register {
        Register::RSP => true,
        Register::RBP => displacement.cast_signed() < 0,
        _ => false,
    }
}

/// Returns whether the loop only looks at memory, at addresses that are the same in each round:
/// they are made of nothing that one round hands to the next.
fn only_looks(body: &[Instruction]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let steps: Vec<Step> = body.iter().map(|one| Step::new(one, &mut factory)).collect();
    if body.iter().zip(&steps).any(|(one, step)| !step.is_allowed(one)) {
        return false;
    }
    let slots: Vec<u64> = steps.iter().filter_map(|step| step.stores).collect();
    let mut handed_on = handed_on(&steps);
    let mut looked: Vec<Register> = Vec::new();
    for (one, step) in body.iter().zip(&steps) {
        let reads = |of: &[Register]| step.reads.iter().any(|register| of.contains(register));
        // A counter that is compared with its limit.
        let is_of_memory = step.looks || reads(&looked);
        if one.mnemonic() == Mnemonic::Cmp && is_of_memory && reads(&handed_on) {
            return false;
        }
        looked.retain(|register| !step.writes.contains(register));
        if step.looks {
            looked.extend(&step.writes);
        }
        if step.addresses.iter().any(|register| handed_on.contains(register)) {
            return false;
        }
        let comes_from = step.reads.iter().any(|register| handed_on.contains(register))
            || step.loads.is_some_and(|slot| slots.contains(&slot));
        handed_on.retain(|register| !step.writes.contains(register));
        if comes_from {
            handed_on.extend(&step.writes);
        }
    }
    steps.iter().any(|step| step.looks) && !updates(body, &steps)
}

/// Returns whether the loop exchanges a value for one that it makes of the old one, as lock-free
/// code does: its next round is a next attempt and not a wait, and there is seldom a next round.
fn updates(body: &[Instruction], steps: &[Step]) -> bool {
    let mut old = vec![Register::RAX];
    for (one, step) in body.iter().zip(steps) {
        if one.mnemonic() == Mnemonic::Cmpxchg {
            if old.contains(&one.op1_register().full_register()) {
                return true;
            }
            continue;
        }
        let is_made_of_old = step.looks || step.reads.iter().any(|register| old.contains(register));
        old.retain(|register| !step.writes.contains(register));
        if is_made_of_old {
            old.extend(&step.writes);
        }
    }
    false
}

/// Returns the registers that one round hands to the next: written, but read before that.
fn handed_on(steps: &[Step]) -> Vec<Register> {
    let (mut before, mut written) = (Vec::new(), Vec::new());
    for step in steps {
        let new = step.reads.iter().filter(|register| !written.contains(*register));
        before.extend(new.copied());
        written.extend(&step.writes);
    }
    before.into_iter().filter(|register| written.contains(register)).collect()
}

/// What an instruction does to registers and memory.
#[derive(Debug, Default)]
struct Step {
    reads: Vec<Register>,
    writes: Vec<Register>,
    /// Registers of the addresses that it accesses, but for those of the function's own variables.
    addresses: Vec<Register>,
    /// It looks at memory that is not the function's own.
    looks: bool,
    /// It writes to memory in another way than by an attempt to exchange.
    stores_elsewhere: bool,
    /// The variable of the function that it reads, or writes, by its place.
    loads: Option<u64>,
    stores: Option<u64>,
}

impl Step {
    fn new(one: &Instruction, factory: &mut InstructionInfoFactory) -> Self {
        use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
        let mut step = Step::default();
        let info = factory.info(one);
        for used in info.used_registers() {
            let register = used.register().full_register();
            match used.access() {
                Read | CondRead => step.reads.push(register),
                Write => step.writes.push(register),
                ReadWrite | ReadCondWrite | CondWrite => {
                    step.reads.push(register);
                    step.writes.push(register);
                }
                _ => {}
            }
        }
        // A NOP names memory, but does not access it.
        for used in info.used_memory().iter().filter(|_| one.mnemonic() != Mnemonic::Nop) {
            if is_own(used.base(), used.displacement()) && used.index() == Register::None {
                let reads = matches!(used.access(), Read | CondRead | ReadWrite | ReadCondWrite);
                step.loads = reads.then_some(used.displacement());
                let writes = !matches!(used.access(), Read | CondRead);
                step.stores = writes.then_some(used.displacement());
                continue;
            }
            let parts = [used.base().full_register(), used.index().full_register()];
            step.addresses.extend(parts.into_iter().filter(|part| *part != Register::None));
            match used.access() {
                Read | CondRead => step.looks = true,
                ReadWrite | ReadCondWrite if exchanges(one) => step.looks = true,
                _ => step.stores_elsewhere = true,
            }
        }
        step
    }

    fn is_allowed(&self, one: &Instruction) -> bool {
        let (looks, simple) = (LOOKS.contains(&one.mnemonic()), SIMPLE.contains(&one.mnemonic()));
        let is_known = looks || simple || one.flow_control() != FlowControl::Next;
        (!self.looks || looks || exchanges(one)) && is_known && !self.stores_elsewhere
    }
}

/// Returns whether an instruction attempts to exchange memory. Sums in memory are work.
fn exchanges(one: &Instruction) -> bool {
    let is_memory = (0..one.op_count()).any(|at| one.op_kind(at) == OpKind::Memory);
    is_memory && matches!(one.mnemonic(), Mnemonic::Xchg | Mnemonic::Cmpxchg | Mnemonic::Bts)
}

const LOOKS: [Mnemonic; 7] = {
    use Mnemonic::{Bt, Cmp, Mov, Movsx, Movsxd, Movzx, Test};
    [Bt, Cmp, Mov, Movsx, Movsxd, Movzx, Test]
};
/// What else a loop that only looks may do.
const SIMPLE: [Mnemonic; 20] = {
    use Mnemonic::{
        Add, And, Cmpxchg, Dec, Endbr64, Inc, Lea, Nop, Not, Or, Rdtsc, Rdtscp, Sar, Sete, Setne,
        Shl, Shr, Sub, Xchg, Xor,
    };
    [
        Add, And, Cmpxchg, Dec, Endbr64, Inc, Lea, Nop, Not, Or, Rdtsc, Rdtscp, Sar, Sete, Setne,
        Shl, Shr, Sub, Xchg, Xor,
    ]
};

#[cfg(test)]
mod tests {
    use super::{Loop, find};

    #[track_caller]
    fn check(code: &str, waits_there: bool) {
        let bytes = code.split(' ').map(|byte| u8::from_str_radix(byte, 16).unwrap());
        let bytes: Vec<u8> = bytes.collect();
        assert_eq!(find(&bytes, 0x1000, 0x1000) == Loop::Waits, waits_there, "{code}");
    }

    #[test]
    fn loops_that_wait_are_known_by_their_code() {
        // pause; mov eax, [rdi]; test eax, eax; jne
        check("f3 90 8b 07 85 c0 75 f8", true);
        // mov eax, [rdi]; test eax, eax; jne
        check("8b 07 85 c0 75 fa", true);
        // mov eax, 1; xchg [rdi], eax; test eax, eax; jne
        check("b8 01 00 00 00 87 07 85 c0 75 f5", true);
        // OpenBLAS's exec_blas: mov rdx, [rax+16]; shl rdx, 7; mov rdx, [rdx+rcx]; test rdx, rdx;
        // jne
        check("48 8b 50 10 48 c1 e2 07 48 8b 14 0a 48 85 d2 75 ef", true);
        // xor eax, eax; mov ecx, 1; lock cmpxchg [rdi], ecx; jne
        check("31 c0 b9 01 00 00 00 f0 0f b1 0f 75 f3", true);
        // rdtsc; sub eax, ecx; cmp eax, [rip+0]; jbe
        check("0f 31 29 c8 3b 05 00 00 00 00 76 f4", true);
        // With a limit: sub eax, 1; je out; mov rdx, [rbp+0]; test rdx, rdx; je
        check("83 e8 01 74 09 48 8b 55 00 48 85 d2 74 f2 90", true);
        // The pause behind the return: mov eax, [rdi]; test eax, eax; jne +2; ret; nop; pause; jmp
        check("8b 07 85 c0 75 02 c3 90 f3 90 eb f4", true);
        // A count between attempts: dec ecx; jne; mov eax, 1; xchg [rdi], eax; mov ecx, 100;
        // test eax, eax; jne
        check("ff c9 75 fc b8 01 00 00 00 87 07 b9 64 00 00 00 85 c0 75 ec c3", true);
        // A function that does nothing but pause.
        check("f3 90 c3", true);
        // mov rax, [rbp-8]; mov eax, [rax]; test eax, eax; jne
        check("48 8b 45 f8 8b 00 85 c0 75 f6", true);
    }

    #[test]
    fn the_call_that_yields_is_known() {
        // mov eax, 24; syscall; ret, and the same with the number of getpid
        let yields = [0xb8, 24, 0, 0, 0, 0x0f, 0x05, 0xc3, 0x90, 0x90];
        let found = find(&yields, 0x1000, 0x1007);
        assert_eq!(found, Loop::Yields, "a system call returns behind its instruction");
        let other = [0xb8, 39, 0, 0, 0, 0x0f, 0x05, 0xc3, 0x90, 0x90];
        assert_eq!(find(&other, 0x1000, 0x1007), Loop::None);
    }

    #[test]
    fn loops_that_work_are_not() {
        // A search: mov eax, [rdi]; add rdi, 4; test eax, eax; jne
        check("8b 07 48 83 c7 04 85 c0 75 f6", false);
        // A list: mov rax, [rax]; test rax, rax; jne
        check("48 8b 00 48 85 c0 75 f8", false);
        // A sum: add eax, [rdi]; dec ecx; jne
        check("03 07 ff c9 75 fa", false);
        // A walk by a counter: mov rdx, rcx; mov eax, [rdi+rdx]; inc rcx; test eax, eax; jne
        check("48 89 ca 8b 04 17 48 ff c1 85 c0 75 f3", false);
        // The same with the counter on the stack: mov rdx, [rbp-8]; mov eax, [rdi+rdx]; inc rdx;
        // mov [rbp-8], rdx; test eax, eax; jne
        check("48 8b 55 f8 8b 04 17 48 ff c2 48 89 55 f8 85 c0 75 ee", false);
        // An update without a lock: mov edx, eax; or edx, 2; lock cmpxchg [rdi], edx; jne
        check("89 c2 83 ca 02 f0 0f b1 17 75 f5", false);
        // A count: dec ecx; jne
        check("ff c9 75 fc", false);
        // A count up to a limit in memory: inc ecx; cmp ecx, [rip+0]; jb
        check("ff c1 3b 0d 00 00 00 00 72 f6", false);
        // The same with the limit in a register: add rax, 1; mov rdx, [rip+0]; cmp rdx, rax; jg
        check("48 83 c0 01 48 8b 15 00 00 00 00 48 39 c2 7f f0", false);
        // A store: mov [rdi], eax; dec ecx; jne
        check("89 07 ff c9 75 fa", false);
        // A count, and then an attempt behind a store: dec ecx; jne; mov [rsi], eax; mov eax, 1;
        // xchg [rdi], eax; mov ecx, 100; test eax, eax; jne
        check("ff c9 75 fc 89 06 b8 01 00 00 00 87 07 b9 64 00 00 00 85 c0 75 ea c3", false);
        // An exchange without a loop: xchg [rdi], eax; ret
        check("87 07 c3", false);
        // A sum in memory: lock inc [rdi]; dec ecx; jne
        check("f0 ff 07 ff c9 75 f9", false);
        // A call: call +0; mov eax, [rdi]; test eax, eax; jne
        check("e8 00 00 00 00 8b 07 85 c0 75 f5", false);
    }
}
