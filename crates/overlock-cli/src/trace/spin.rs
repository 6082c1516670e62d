// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loops that wait on a processor, told by their instructions.
//!
//! A loop waits if it contains PAUSE, or if all that it does is to look at memory that it does not
//! itself move on to or write: load, compare, branch, and perhaps an attempt to exchange the value.

use super::images::Images;
use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    Register,
};
use std::collections::HashMap;

/// The places that samples have met, and whether each is in a loop that waits.
pub(crate) struct Spins {
    known: HashMap<(usize, u64), bool>,
}

/// How far behind a place the end of its loop is looked for, in instructions.
const FURTHEST: usize = 48;
/// The longest loop, in bytes.
const LONGEST: u64 = 256;
/// How many places are remembered.
const MOST_PLACES: usize = 1 << 16;

impl Spins {
    pub(crate) fn new() -> Self {
        Spins { known: HashMap::new() }
    }

    /// Returns whether an address of a process is in a loop that waits.
    pub(crate) fn is_loop(&mut self, images: &Images, process: u32, address: u64) -> bool {
        let Some(code) = images.code(process, address) else { return false };
        if let Some(known) = self.known.get(&(code.image, code.at)) {
            return *known;
        }
        let waits = waits(code.text, code.start, code.at);
        if self.known.len() < MOST_PLACES {
            self.known.insert((code.image, code.at), waits);
        }
        waits
    }
}

/// Returns whether the instruction at `at`, in code that begins at `start`, is in a loop that waits.
fn waits(text: &[u8], start: u64, at: u64) -> bool {
    loop_around(text, start, at).is_some_and(|body| is_waiting(&body))
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

fn is_frame(register: Register) -> bool {
    matches!(register, Register::RBP | Register::RSP)
}

/// Returns whether the loop only looks at memory at addresses that stay the same.
fn only_looks(body: &[Instruction]) -> bool {
    let mut factory = InstructionInfoFactory::new();
    let (mut addresses, mut moved, mut looks) = (Vec::new(), Vec::new(), false);
    // Registers that hold a pointer from the stack, loaded again in each round.
    let mut pointers = Vec::new();
    for one in body {
        let info = factory.info(one).clone();
        let mut is_fixed_load = false;
        // A NOP names memory, but does not access it.
        let memory = info.used_memory().iter().filter(|_| one.mnemonic() != Mnemonic::Nop);
        for used in memory {
            let own = is_frame(used.base()) && used.index() == Register::None;
            match used.access() {
                OpAccess::Read | OpAccess::CondRead if can_look(one.mnemonic()) => {
                    looks |= !own;
                    is_fixed_load = own && one.mnemonic() == Mnemonic::Mov;
                }
                OpAccess::ReadWrite | OpAccess::ReadCondWrite
                    if one.has_lock_prefix() || one.mnemonic() == Mnemonic::Xchg =>
                {
                    looks = true;
                }
                OpAccess::NoMemAccess => {}
                _ if own => {}
                _ => return false,
            }
            let parts = [used.base().full_register(), used.index().full_register()];
            addresses.extend(parts.into_iter().filter(|part| !pointers.contains(part)));
        }
        let written = info
            .used_registers()
            .iter()
            .filter(|used| !matches!(used.access(), OpAccess::Read | OpAccess::CondRead))
            .map(|used| used.register().full_register());
        let written: Vec<Register> = written.collect();
        if is_fixed_load {
            pointers.extend(&written);
        } else {
            pointers.retain(|pointer| !written.contains(pointer));
            moved.extend(written);
        }
        if !is_simple(one.mnemonic()) && one.flow_control() == FlowControl::Next {
            return false;
        }
    }
    let is_moved = |address: &Register| *address != Register::None && moved.contains(address);
    looks && !addresses.iter().any(is_moved)
}

fn can_look(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{Bt, Cmp, Mov, Movsx, Movsxd, Movzx, Test};
    matches!(mnemonic, Bt | Cmp | Mov | Movsx | Movsxd | Movzx | Test)
}

fn is_simple(mnemonic: Mnemonic) -> bool {
    use Mnemonic::{
        Add, And, Cmpxchg, Dec, Endbr64, Inc, Lea, Nop, Not, Or, Sete, Setne, Shl, Shr, Sub, Xchg,
        Xor,
    };
    can_look(mnemonic)
        || matches!(
            mnemonic,
            Add | And
                | Cmpxchg
                | Dec
                | Endbr64
                | Inc
                | Lea
                | Nop
                | Not
                | Or
                | Sete
                | Setne
                | Shl
                | Shr
                | Sub
                | Xchg
                | Xor
        )
}

#[cfg(test)]
mod tests {
    use super::waits;

    #[track_caller]
    fn check(code: &[u8], waits_there: bool) {
        assert_eq!(waits(code, 0x1000, 0x1000), waits_there, "{code:x?}");
    }

    #[test]
    fn loops_that_wait_are_known_by_their_code() {
        // pause; mov eax, [rdi]; test eax, eax; jne
        check(&[0xf3, 0x90, 0x8b, 0x07, 0x85, 0xc0, 0x75, 0xf8], true);
        // mov eax, [rdi]; test eax, eax; jne
        check(&[0x8b, 0x07, 0x85, 0xc0, 0x75, 0xfa], true);
        // mov eax, 1; xchg [rdi], eax; test eax, eax; jne
        check(&[0xb8, 1, 0, 0, 0, 0x87, 0x07, 0x85, 0xc0, 0x75, 0xf5], true);
        // mov rax, [rbp-8]; mov eax, [rax]; test eax, eax; jne
        check(&[0x48, 0x8b, 0x45, 0xf8, 0x8b, 0x00, 0x85, 0xc0, 0x75, 0xf6], true);
    }

    #[test]
    fn loops_that_work_are_not() {
        // A search: mov eax, [rdi]; add rdi, 4; test eax, eax; jne
        check(&[0x8b, 0x07, 0x48, 0x83, 0xc7, 0x04, 0x85, 0xc0, 0x75, 0xf6], false);
        // A list: mov rax, [rax]; test rax, rax; jne
        check(&[0x48, 0x8b, 0x00, 0x48, 0x85, 0xc0, 0x75, 0xf8], false);
        // A sum: add eax, [rdi]; dec ecx; jne
        check(&[0x03, 0x07, 0xff, 0xc9, 0x75, 0xfa], false);
        // A count: dec ecx; jne
        check(&[0xff, 0xc9, 0x75, 0xfc], false);
        // A store: mov [rdi], eax; dec ecx; jne
        check(&[0x89, 0x07, 0xff, 0xc9, 0x75, 0xfa], false);
        // A call: call +0; mov eax, [rdi]; test eax, eax; jne
        check(&[0xe8, 0, 0, 0, 0, 0x8b, 0x07, 0x85, 0xc0, 0x75, 0xf5], false);
    }
}
