//! The switch of waiting: a branch that is patched in the code, so that a lock that is switched off
//! costs what a native lock costs.
//!
//! Every place that asks [`is_on`] is five bytes of code: a NOP, behind which lies the native path,
//! or a jump to the path that waits. The image is linked with NOPs. Each place puts its address and
//! the jump's target into a table, which [`set`] walks.
//!
//! ```text
//!   off                          on
//!   nopl 0(%rax,%rax)            jmp 1f
//!   lock decl (%rdi)             lock decl (%rdi)
//!   ret                          ret
//!                             1: mov $-1,%esi ...
//! ```
//!
//! Sources: the idea is that of Linux's static keys (Documentation/staging/static-keys.rst, 6.12);
//! Intel, *Software Developer's Manual*, volume 3A, "Handling Self- and Cross-Modifying Code".

use core::arch::asm;
use core::arch::x86_64::__cpuid;
use core::ptr;

type Code = [u8; 5];

/// The NOP of five bytes that Intel recommends.
const NOP: Code = [0x0f, 0x1f, 0x44, 0, 0];

/// One place in the code. Both addresses are relative to the field that holds them.
#[derive(Debug)]
#[repr(C)]
struct Site {
    at: i32,
    target: i32,
}

/// Where the address that is stored relative to `field` leads.
fn resolve(field: &i32) -> usize {
    ptr::from_ref(field).addr().wrapping_add_signed(*field as isize)
}

fn jump(at: usize, target: usize) -> Code {
    let [a, b, c, d] = (target.wrapping_sub(at + size_of::<Code>()) as i32).to_le_bytes();
    [0xe9, a, b, c, d]
}

#[inline(always)]
pub(crate) fn is_on() -> bool {
    // SAFETY: the five bytes are a NOP or a jump to `on`, and touch no register and no memory.
    unsafe {
        asm!(
            "2: .byte 0x0f, 0x1f, 0x44, 0, 0",
            ".pushsection waiting_sites, \"aR\"",
            ".balign 4",
            ".long 2b - .",
            ".long {on} - .",
            ".popsection",
            on = label { return true },
            options(nomem, nostack, preserves_flags),
        );
    }
    false
}

/// All places, as the linker has put them together.
fn sites() -> &'static [Site] {
    let (from, to): (*const Site, *const Site);
    // SAFETY: two addresses, which the linker defines for every section whose name is an
    // identifier. The section exists: it is named here.
    unsafe {
        asm!(
            ".pushsection waiting_sites, \"aR\"",
            ".popsection",
            "lea {from}, [rip + __start_waiting_sites]",
            "lea {to}, [rip + __stop_waiting_sites]",
            from = out(reg) from,
            to = out(reg) to,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    let count = (to.addr() - from.addr()) / size_of::<Site>();
    // SAFETY: the section holds nothing but such entries, one behind the other, and never changes.
    unsafe { core::slice::from_raw_parts(from, count) }
}

/// Switches every place. Each CPU calls [`forget_code`] before it executes one of them.
///
/// # Safety
/// The code can be written, and until this returns no other CPU and no handler of this one executes
/// one of the places.
pub(crate) unsafe fn set(on: bool) {
    for site in sites() {
        let (at, target) = (resolve(&site.at), resolve(&site.target));
        let jump = jump(at, target);
        let code = ptr::with_exposed_provenance_mut::<Code>(at);
        // SAFETY: five bytes of this image's code.
        let is = unsafe { code.read_volatile() };
        assert!(is == NOP || is == jump, "there is no switch at {at:#x}: {is:x?}");
        // SAFETY: the caller's word.
        unsafe { code.write_volatile(if on { jump } else { NOP }) };
    }
}

/// Makes this CPU discard the code that it has already fetched.
pub(crate) fn forget_code() {
    // A serialising instruction.
    let _ = __cpuid(0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_is_a_nop_in_the_table() {
        assert!(!is_on());
        assert!(!sites().is_empty());
        for site in sites() {
            // SAFETY: code of this program, which can be read.
            let code = unsafe { ptr::with_exposed_provenance::<Code>(resolve(&site.at)).read() };
            assert_eq!(code, NOP);
        }
    }

    #[test]
    fn a_jump_counts_from_its_end() {
        assert_eq!(jump(0x1000, 0x1005), [0xe9, 0, 0, 0, 0]);
        assert_eq!(jump(0x1000, 0x1000), [0xe9, 0xfb, 0xff, 0xff, 0xff]);
    }
}
