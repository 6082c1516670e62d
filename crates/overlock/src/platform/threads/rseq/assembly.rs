//! The sequences, in assembly.

use core::sync::atomic::Ordering::{Acquire, Relaxed};
use core::sync::atomic::{AtomicU16, AtomicU32};

use super::super::syscall::syscall;
use super::armed::{ARMED, FORBIDDEN, is_armed};

/// The offset in `struct rseq` of `rseq_cs`, the address of the sequence that a thread is in.
const RSEQ_CS: usize = 8;
/// The offset of `cpu_id`, the thread's processor, which is negative if the kernel does not
/// watch the thread.
const CPU_ID: usize = 4;

/// Whether sequences are built in.
pub(crate) const BUILT: bool = true;

const CMD_QUERY: libc::c_int = 0;
/// `MEMBARRIER_CMD_PRIVATE_EXPEDITED_RSEQ` and its registration.
const CMD_PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 7;
const CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ: libc::c_int = 1 << 8;

fn membarrier(command: libc::c_int) -> libc::c_long {
    let args = [command as usize, 0, 0, 0, 0, 0];
    // SAFETY: no memory is passed.
    unsafe { syscall(libc::SYS_membarrier, args) as libc::c_long }
}

pub(crate) fn cut_off() -> bool {
    cut_off_by(&mut membarrier)
}

/// [`cut_off`] by the given system call. The call fails if the process is not registered,
/// because it was restored from a checkpoint; the process is then registered again.
fn cut_off_by(membarrier: &mut impl FnMut(libc::c_int) -> libc::c_long) -> bool {
    membarrier(CMD_PRIVATE_EXPEDITED_RSEQ) == 0
        || membarrier(CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0
            && membarrier(CMD_PRIVATE_EXPEDITED_RSEQ) == 0
}

/// Arms the sequences when the program, or the shared library that contains this code, is
/// loaded.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = arm;

/// Arms the sequences, if that is possible. This is safe at any time: releases are locked until
/// they have seen `ARMED`; see `membarrier` in `rseq.rs`.
pub(crate) extern "C" fn arm() {
    if is_armed() || FORBIDDEN.load(Relaxed) {
        return;
    }
    let find = |name: &core::ffi::CStr| {
        // SAFETY: the name is valid, and the call searches all loaded objects for the symbol.
        unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
    };
    let (offset, size) = (find(c"__rseq_offset"), find(c"__rseq_size"));
    if offset.is_null() || size.is_null() {
        // SAFETY: this discards the resulting error message, which the program might take for
        // its own.
        unsafe { libc::dlerror() };
        return;
    }
    // SAFETY: the C library's constants of these names: a `ptrdiff_t` and an `unsigned int`.
    let (offset, size) =
        unsafe { (*offset.cast::<libc::ptrdiff_t>(), *size.cast::<libc::c_uint>()) };
    // A size of zero means that the kernel has refused, or that the user has forbidden it. Then
    // a filter for system calls need not allow `membarrier`.
    if size == 0 || offset == 0 {
        return;
    }
    let query = membarrier(CMD_QUERY);
    let knows = query > 0 && query & libc::c_long::from(CMD_PRIVATE_EXPEDITED_RSEQ) != 0;
    if knows && membarrier(CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ) == 0 {
        ARMED.store(offset, Relaxed);
    }
}

/// The code of one sequence. `$look` loads the cell and jumps to `6f` if the cell must not be
/// changed; `$store` stores. Both may use `scratch`. Makes the function return false if there
/// are no sequences, the kernel does not watch this thread, the sequence is cut off, or the
/// cell must not be changed.
macro_rules! sequence {
    ([$($look:literal),*], $store:literal, $cell:ident, $($name:ident = $value:expr),*) => {{
        let rseq = ARMED.load(Relaxed);
        if rseq == 0 {
            return false;
        }
        // SAFETY: `rseq` is the offset at which the C library has registered this thread's
        // `struct rseq` with the kernel; the thread may set its field. The code from 2 to 3 is
        // a sequence by the rules of rseq(2): it loads before it stores, its only store is its
        // last instruction, it calls nothing, and the abort address follows the signature. It
        // accesses the cell, which is live, as a relaxed load and a store of a part of it
        // would; on x86-64 such a store is a Release. The descriptor that the field points to
        // is part of this code. The field is cleared after the sequence, because this code may
        // be unloaded.
        unsafe {
            core::arch::asm!(
                // The descriptor: version, flags, start, length, abort address.
                ".pushsection __rseq_cs, \"aw\", @progbits",
                ".balign 32",
                "5: .long 0, 0",
                ".quad 2f, 3f - 2f, 4f",
                ".popsection",
                "lea {scratch}, [rip + 5b]",
                "mov qword ptr fs:[{rseq} + {rseq_cs}], {scratch}",
                "2:",
                "cmp dword ptr fs:[{rseq} + {cpu_id}], 0",
                "jl 6f",
                $($look,)*
                $store,
                "3:",
                "mov qword ptr fs:[{rseq} + {rseq_cs}], 0",
                // The signature is part of an instruction that can't be executed (`ud1`).
                ".pushsection .text.overlock_abort, \"ax\", @progbits",
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                "4:",
                "6: mov qword ptr fs:[{rseq} + {rseq_cs}], 0",
                "jmp {cut}",
                ".popsection",
                cell = in(reg) core::ptr::from_ref($cell),
                $($name = in(reg) $value,)*
                rseq = in(reg) rseq,
                scratch = out(reg) _,
                rseq_cs = const RSEQ_CS,
                cpu_id = const CPU_ID,
                cut = label { return false },
                options(nostack),
            );
        }
        true
    }};
}

/// See [`CheapRelease::add_half`](crate::platform::CheapRelease::add_half).
#[inline(always)]
pub(crate) fn add_half(cell: &AtomicU16, n: u16, unless: u16) -> bool {
    sequence!(
        [
            "movzx {scratch:e}, word ptr [{cell}]",
            "test {scratch:x}, {unless:x}",
            "jne 6f",
            "add {scratch:e}, {n:e}"
        ],
        "mov word ptr [{cell}], {scratch:x}",
        cell,
        n = n,
        unless = unless
    )
}

/// See [`CheapRelease::set_lowest_bit`](crate::platform::CheapRelease::set_lowest_bit).
#[inline(always)]
pub(crate) fn set_lowest_bit(cell: &AtomicU32) -> bool {
    if ARMED.load(Relaxed) == 0 {
        // The release will be a locked access to the whole word, so this must be one, too.
        // ORDERING: Acquire, for the caller (O1).
        return cell.compare_exchange(0, 1, Acquire, Relaxed).is_ok();
    }
    // ORDERING: a locked instruction is a full fence, so the next release looks at the upper
    // half after it (Q7). Both blocks of assembly may access memory, since neither has `nomem`,
    // so the compiler keeps them in order.
    // SAFETY: the cell is live; the access is atomic and within it. If the lowest byte is zero,
    // it changes the cell as `fetch_or(1, AcqRel)` would; otherwise it changes nothing.
    unsafe {
        core::arch::asm!(
            // A locked instruction that fails costs as much as one that succeeds, and where there
            // is a queue it mostly would. The load takes its value from the store of the last
            // release, which is as wide.
            "cmp byte ptr [{cell}], 0",
            "jne {refused}",
            "lock cmpxchg byte ptr [{cell}], {one}",
            "jne {refused}",
            cell = in(reg) core::ptr::from_ref(cell),
            one = in(reg_byte) 1_u8,
            inout("al") 0_u8 => _,
            refused = label { return false },
            options(nostack),
        );
    }
    true
}

/// See [`CheapRelease::clear_low_byte`](crate::platform::CheapRelease::clear_low_byte).
#[inline(always)]
pub(crate) fn clear_low_byte(cell: &AtomicU32) -> bool {
    sequence!(["cmp word ptr [{cell} + 2], 0", "jne 6f"], "mov byte ptr [{cell}], 0", cell,)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel with which the process may be `registered`; a `strict` one refuses to register
    /// it.
    fn is_cut_off(mut registered: bool, strict: bool) -> bool {
        cut_off_by(&mut |command| match command {
            CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ if strict => -1,
            CMD_REGISTER_PRIVATE_EXPEDITED_RSEQ => {
                registered = true;
                0
            }
            _ if registered => 0,
            _ => -1,
        })
    }

    #[test]
    fn a_process_that_lost_its_registration_is_registered_again() {
        assert!(is_cut_off(true, true));
        assert!(is_cut_off(false, false));
        assert!(!is_cut_off(false, true));
    }
}
