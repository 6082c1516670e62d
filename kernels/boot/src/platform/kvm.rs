//! `Kvm`: a vCPU of KVM, which is called back by a hypercall.
//!
//! | clause | answer |
//! |---|---|
//! | P1 | `wait` looks at the word with interrupts off, and does not halt if it has changed. |
//! | P2 | Any interrupt ends a halt. In an NMI there is none (F8). |
//! | P3 | A kick of a vCPU that is not halted is remembered by the host, and ends its next halt: below. |
//! | P4 | As above: it ends a halt for nothing. The host ignores APICs that do not exist; a CPU that is not up is not kicked at all. |
//! | P10 | [`decide`] says when waiting is not worth it; then it is switched off. |
//!
//! The others as in [`platform`](super).
//!
//! # No kick is lost, but some are not seen
//!
//! The host keeps one bit for each vCPU: a kick sets it, and a halt that finds it set, or is ended
//! by it, clears it. So does a halt that *anything* ends, or keeps from beginning: a kick that
//! comes together with an interrupt goes with it.
//!
//! ```text
//!   waiter                            kicker
//!   cli; word == expected?            word = new
//!   sti; hlt  <--- an interrupt       kick: bit = 1
//!   hlt returns: bit = 0
//!   the handler runs
//! ```
//!
//! P3 holds all the same: whatever clears the bit ends that wait. Interrupts are off between look
//! and halt, so no handler's wait comes in there and takes the kick of this one; outside, a kick
//! that is taken was for a word that the waiter looks at again. It follows that a wait must look
//! and halt with interrupts off here too, though the host remembers kicks
//! ([`Sabotage::LooksEarly`]), and that a wait inside another must not halt if its own word has
//! changed ([`Sabotage::ForgetsOuter`]).
//!
//! What ended a halt is told apart so: an interrupt has run its handler; else it was a kick, if one
//! was under way or remembered; else nothing was, and the halt is stray.
//!
//! Sources: Linux, Documentation/virt/kvm/x86/{cpuid,hypercalls,msr}.rst (6.12); the host's bit is
//! `pv_unhalted` in arch/x86/kvm/x86.c (6.1).

use core::arch::naked_asm;
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

use super::bare::refuses;
use super::{HaltEnd, Halting, Sabotage, Wait, broken, switch};
use crate::cpus::{self, MAX, PerCpu, count};
use crate::kernel::{Kernel, set_waiting};
use crate::machine::halt::{Means, halt_if, halt_silently};
use crate::machine::io;
use crate::plan::CommandLine;
use crate::say;

#[derive(Clone, Copy, Debug)]
pub struct Kvm;

super::platform!(Kvm, NativeKvm);

/// Whether the host reports steal time.
static TELLS_STEAL: AtomicBool = AtomicBool::new(false);

/// `KVM_HC_KICK_CPU`: wake a vCPU from its halt. Arguments: flags (0), number of its APIC.
const KICK_CPU: u64 = 5;
/// `MSR_KVM_STEAL_TIME`.
const STEAL_TIME: u32 = 0x4b56_4d03;
/// `KVM_CPUID_SIGNATURE`, and the one after it, `KVM_CPUID_FEATURES`.
const SIGNATURE: u32 = 0x4000_0000;
const FEATURES: u32 = 0x4000_0001;
/// "KVMKVMKVM" in EBX, ECX, EDX.
const KVM: [u32; 3] = [0x4b4d_564b, 0x564b_4d56, 0x4d];

/// What the host offers: EAX and EDX of `KVM_CPUID_FEATURES`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    pub features: u32,
    pub hints: u32,
}

/// `KVM_FEATURE_STEAL_TIME`: the register above exists.
const FEATURE_STEAL_TIME: u32 = 1 << 5;
/// `KVM_FEATURE_PV_UNHALT`: the hypercall above exists.
const FEATURE_PV_UNHALT: u32 = 1 << 7;
/// `KVM_HINTS_REALTIME`: a vCPU is never taken off its processor.
const HINT_REALTIME: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Spin for a while, then wait.
    Wait,
    /// Only spin, for this reason.
    Spin(&'static str),
}

/// Decides as Linux does (arch/x86/kernel/kvm.c, `kvm_spinlock_init`, 6.12): waiting is off where
/// the host does not offer it, where no vCPU is ever taken away, on one CPU, and at the user's
/// wish.
pub fn decide(offered: Option<Features>, cpus: usize, nopvspin: bool) -> Mode {
    match offered {
        None => Mode::Spin("this is no KVM"),
        Some(kvm) if kvm.features & FEATURE_PV_UNHALT == 0 => {
            Mode::Spin("the host offers no KVM_FEATURE_PV_UNHALT")
        }
        Some(kvm) if kvm.hints & HINT_REALTIME != 0 => Mode::Spin("KVM_HINTS_REALTIME"),
        Some(_) if cpus == 1 => Mode::Spin("there is one CPU"),
        Some(_) if nopvspin => Mode::Spin("nopvspin"),
        Some(_) => Mode::Wait,
    }
}

/// How many kicks are accounted for, once one of those `begun` has ended a halt that began when
/// `done` were complete; `seen` were before. Of several, some may be to come, but one has.
fn accounted(begun: u64, seen: u64, done: u64) -> u64 {
    if begun - seen == 1 { begun } else { done.max(seen + 1) }
}

/// What the host writes: `struct kvm_steal_time`.
#[derive(Debug)]
#[repr(C, align(64))]
struct Steal {
    stolen_ns: AtomicU64,
    version: AtomicU32,
    flags: AtomicU32,
    rest: [u8; 48],
}

static STEALS: [Steal; MAX] = [const {
    Steal {
        stolen_ns: AtomicU64::new(0),
        version: AtomicU32::new(0),
        flags: AtomicU32::new(0),
        rest: [0; 48],
    }
}; MAX];

/// The hypercall on Intel's processors. AMD's have an instruction of their own for it.
#[unsafe(naked)]
unsafe extern "C" fn vmcall(apic: u64, call: u64) {
    naked_asm!(
        "push rbx",
        "mov rax, rsi",
        "mov rcx, rdi",
        "xor ebx, ebx",
        "vmcall",
        "pop rbx",
        "ret"
    )
}

#[unsafe(naked)]
unsafe extern "C" fn vmmcall(apic: u64, call: u64) {
    naked_asm!(
        "push rbx",
        "mov rax, rsi",
        "mov rcx, rdi",
        "xor ebx, ebx",
        "vmmcall",
        "pop rbx",
        "ret"
    )
}

/// Whether the processor is AMD's.
static IS_AMD: AtomicBool = AtomicBool::new(false);

impl Kvm {
    /// What the host offers, if it is KVM.
    fn offered() -> Option<Features> {
        use core::arch::x86_64::__cpuid;
        let found = __cpuid(SIGNATURE);
        IS_AMD.store(__cpuid(0).ecx == 0x444d_4163, Relaxed);
        let is_kvm = [found.ebx, found.ecx, found.edx] == KVM;
        is_kvm.then(|| {
            let offered = __cpuid(FEATURES);
            Features { features: offered.eax, hints: offered.edx }
        })
    }

    /// Detects what the host offers, and switches waiting on or off. Called once, on the first CPU,
    /// before the others start.
    pub fn detect(plan: &CommandLine<'_>) {
        let offered = Self::offered();
        let mode = decide(offered, plan.number("smp", 1) as usize, !plan.wants_waiting());
        set_waiting::<Self>(mode == Mode::Wait);
        let (word, why) = match mode {
            Mode::Wait => ("wait", ""),
            Mode::Spin(why) => ("spin", why),
        };
        say!("{{\"kind\":\"mode\",\"locks\":\"{word}\",\"why\":\"{why}\"}}");
        let steals = offered.is_some_and(|kvm| kvm.features & FEATURE_STEAL_TIME != 0);
        TELLS_STEAL.store(steals, Relaxed);
    }

    /// The hypercall that wakes the vCPU with this APIC.
    fn hypercall_kick(apic: u32) {
        // SAFETY: the host offers it; else waiting is off, and no lock kicks.
        unsafe {
            if IS_AMD.load(Relaxed) {
                vmmcall(u64::from(apic), KICK_CPU);
            } else {
                vmcall(u64::from(apic), KICK_CPU);
            }
        }
    }
}

impl Halting for Kvm {
    const KICKS_INTERRUPT: bool = false;
    /// Two exits and a wake-up of the host's thread.
    const WAKE_NS: u64 = 20_000;

    fn halt(wait: Wait<'_, impl FnOnce()>) -> HaltEnd {
        if refuses(&wait) {
            return HaltEnd::Refused;
        }
        let me = cpus::this();
        let nested = me.waits_open.fetch_add(1, Relaxed) != 0;
        if nested && broken(Sabotage::ForgetsOuter) {
            halt_silently();
        }
        // ORDERING: Acquire, with the Release of the kicker: those that are done have set the bit.
        let done = me.kicks_done.load(Acquire);
        let Wait { word, expected, deadline_ns, between } = wait;
        let between = || {
            between();
            if broken(Sabotage::LooksEarly) {
                halt_silently();
            }
        };
        let ended = halt_if(Wait { word, expected, deadline_ns, between }, Means::Hypervisor);
        me.waits_open.fetch_sub(1, Relaxed);
        if ended == HaltEnd::Early {
            return ended;
        }
        let (begun, seen) = (me.kicks_begun.load(Relaxed), me.kicks_seen.load(Relaxed));
        if begun == seen {
            return if ended == HaltEnd::Kicked { HaltEnd::Otherwise } else { ended };
        }
        if ended == HaltEnd::Kicked {
            me.kicks_seen.store(accounted(begun, seen, done), Relaxed);
        }
        me.kick_gone.store(ended != HaltEnd::Kicked, Relaxed);
        ended
    }

    fn call_back(cpu: &PerCpu) {
        cpu.kicks_begun.fetch_add(1, Relaxed);
        Self::hypercall_kick(cpu.apic.load(Relaxed));
        // ORDERING: Release, with the Acquire of the waiter.
        cpu.kicks_done.fetch_add(1, Release);
    }

    /// Halts for a kick that is not accounted for: the host has remembered it, or an interrupt has
    /// taken it. The timer has to tick.
    fn reached() -> u64 {
        let me = cpus::this();
        let begun = me.kicks_begun.load(Relaxed);
        if begun != me.kicks_seen.load(Relaxed) {
            let remembered = halt_silently();
            if me.kick_gone.swap(false, Relaxed) || remembered {
                count(&me.tally.stale);
            }
            me.kicks_seen.store(begun, Relaxed);
        }
        me.tally.kicked.load(Relaxed) + me.tally.stale.load(Relaxed)
    }

    /// Whether the host remembers one is not known. So this CPU kicks itself: that ends the halt,
    /// which clears the host's bit.
    fn take_kicks() {
        if switch::is_on() {
            let me = cpus::this();
            Self::hypercall_kick(me.apic.load(Relaxed));
            halt_silently();
            me.kicks_seen.store(me.kicks_begun.load(Relaxed), Relaxed);
            me.kick_gone.store(false, Relaxed);
        }
    }
}

impl Kernel for Kvm {
    const NAME: &'static str = "kvm";
    type Aware = Self;
    type Native = NativeKvm;

    fn arrive() {
        if TELLS_STEAL.load(Relaxed) {
            let record = &raw const STEALS[cpus::this().number()];
            // SAFETY: the host writes a structure of this size and alignment there; addresses are
            // physical ones here, and bit 0 switches it on.
            unsafe { io::wrmsr(STEAL_TIME, record.addr() as u64 | 1) };
        }
    }

    fn stolen_ns(cpu: usize) -> u64 {
        STEALS[cpu].stolen_ns.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_switched_off_as_linux_does() {
        let offered = |features, hints| Some(Features { features, hints });
        assert_eq!(decide(offered(1 << 7, 0), 8, false), Mode::Wait);
        for (offered, cpus, nopvspin) in [
            (None, 8, false),
            (offered(!(1 << 7), 0), 8, false),
            (offered(1 << 7, 1), 8, false),
            (offered(1 << 7, 0), 1, false),
            (offered(1 << 7, 0), 8, true),
        ] {
            assert!(matches!(decide(offered, cpus, nopvspin), Mode::Spin(_)));
        }
    }

    #[test]
    fn no_more_halts_are_ended_by_kicks_than_have_begun() {
        // Two kicks under way end a halt each.
        let seen = accounted(2, 0, 0);
        assert_eq!((seen, accounted(2, seen, 0)), (1, 2));
        // The host may have made one of those that were complete.
        assert_eq!(accounted(3, 0, 2), 2);
    }

    #[test]
    fn what_the_host_writes_is_laid_out_as_it_says() {
        assert_eq!(size_of::<Steal>(), 64);
        assert_eq!(core::mem::offset_of!(Steal, rest), 16);
        assert_eq!(KVM.map(u32::to_le_bytes).as_flattened(), b"KVMKVMKVM\0\0\0");
    }
}
