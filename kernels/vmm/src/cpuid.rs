//! Which paravirtual features a guest is offered.
//!
//! Sources: Linux 6.1, Documentation/virt/kvm/x86/cpuid.rst.

use kvm_bindings::kvm_cpuid_entry2;

use crate::options::Options;

/// `KVM_CPUID_FEATURES`: what KVM offers in EAX, and hints in EDX.
const FEATURES: u32 = 0x4000_0001;
/// `KVM_FEATURE_PV_UNHALT`: the hypercall that wakes a vCPU.
const PV_UNHALT: u32 = 1 << 7;
/// `KVM_HINTS_REALTIME`: no vCPU is ever taken off its processor.
const REALTIME: u32 = 1;
/// The APIC's timer can be told a deadline, which needs no other timer to measure it by; KVM leaves
/// it to its user to offer that. In ECX of leaf 1.
const DEADLINE: u32 = 1 << 24;
/// "There is a hypervisor", in ECX of leaf 1.
const HYPERVISOR: u32 = 1 << 31;

/// Makes what KVM supports into what vCPU number `cpu` sees.
pub(crate) fn offer(entries: &mut [kvm_cpuid_entry2], cpu: u8, options: &Options) {
    for entry in entries {
        match entry.function {
            1 => {
                entry.ecx |= HYPERVISOR | DEADLINE;
                entry.ebx = entry.ebx & 0x00ff_ffff | u32::from(cpu) << 24;
            }
            // The topology, with the number of the APIC.
            0xb | 0x1f => entry.edx = cpu.into(),
            FEATURES => {
                if !options.unhalt {
                    entry.eax &= !PV_UNHALT;
                }
                if options.realtime {
                    entry.edx |= REALTIME;
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_guest_is_offered_what_was_asked_for() {
        let words = |line: &str| Options::parse(line.split(' ').map(String::from)).unwrap();
        let offered = |line| {
            let entry = |function| kvm_cpuid_entry2 { function, eax: !0, ..Default::default() };
            let mut entries = [entry(1), entry(FEATURES)];
            offer(&mut entries, 3, &words(line));
            let [one, kvm] = entries;
            assert_eq!((one.ebx >> 24, one.ecx), (3, HYPERVISOR | DEADLINE));
            (kvm.eax & PV_UNHALT != 0, kvm.edx)
        };
        assert_eq!(offered("image"), (true, 0));
        assert_eq!(offered("--no-unhalt --realtime image"), (false, REALTIME));
    }
}
