//! The machine behind the numbers, and how quiet it was.

use overlock_bench::clock::Stamps;
pub(crate) use overlock_programs::CpuTimes;
use overlock_results::row::Machine;
use std::fs;

pub(crate) fn observe() -> Machine {
    Machine {
        cpus: Some(allowed_cpus() as u64),
        cpu_model: Some(cpu_model()),
        kernel: first_line("/proc/sys/kernel/osrelease"),
        hypervisor: hypervisor(),
        tsc_khz: Stamps::calibrate().tsc_khz(),
        load_average: Some(load_average()),
    }
}

/// Counts the CPUs that this process may run on: its affinity mask and its quota, not the CPUs
/// plugged in.
pub(crate) fn allowed_cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

pub(crate) fn first_line(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

pub(crate) fn cpuinfo(key: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim().to_owned())
    })
}

fn cpu_model() -> String {
    cpuinfo("model name").unwrap_or_else(|| std::env::consts::ARCH.into())
}

pub(crate) fn hypervisor() -> Option<String> {
    #[cfg(target_arch = "x86_64")]
    if cpuinfo("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")) {
        let leaf = core::arch::x86_64::__cpuid(0x4000_0000);
        let bytes: Vec<u8> =
            [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
        let name = String::from_utf8_lossy(&bytes).trim_end_matches('\0').trim().to_owned();
        return Some(match name.as_str() {
            "KVMKVMKVM" => "KVM".into(),
            "XenVMMXenVMM" => "Xen".into(),
            "Microsoft Hv" => "Hyper-V".into(),
            "VMwareVMware" => "VMware".into(),
            _ => name,
        });
    }
    first_line("/sys/hypervisor/type")
}

pub(crate) fn load_average() -> f64 {
    first_line("/proc/loadavg").and_then(|line| line.split(' ').next()?.parse().ok()).unwrap_or(0.0)
}
