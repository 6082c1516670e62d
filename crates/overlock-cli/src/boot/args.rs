// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can be typed after `overlock boot`.

use crate::args::{OutputArgs, seconds};
use crate::units::Nanos;
use clap::{Args, ValueEnum};
use overlock_world::locks::LOCKS;

/// Run the locks inside a kernel: on a bare machine, as a guest of KVM, as a guest of Xen.
///
/// Builds (or finds) a small kernel image and starts it under QEMU, where it runs the workload of
/// all worlds, or its checks. QEMU's own emulation (TCG) needs nothing of the machine. Xen runs
/// inside it, with the image as its first domain, and schedules more vCPUs than it has processors.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BootArgs {
    /// The world: tcg (a bare machine, emulated), kvm, xen
    #[arg(long, value_enum, default_value_t = World::Tcg)]
    pub(super) on: World,

    /// With --on kvm: let the kernel play the host's side too, on an emulated machine. The
    /// default where there is no /dev/kvm
    #[arg(long)]
    pub(super) stand_in: bool,

    /// Locks: names, or `all`, `native`, `paravirtual`
    #[arg(long, value_delimiter = ',', value_name = "LOCK,...")]
    #[arg(default_value = "hybrid,queued,ticket,native-ticket")]
    pub(super) locks: Vec<String>,

    /// Numbers of CPUs that want the lock [default: 8 under Xen, else 1, 2, 4]
    #[arg(long, value_delimiter = ',', value_name = "N,...")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(super) cpus: Vec<u32>,

    /// Under Xen, how many processors there are for its vCPUs
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=32))]
    pub(super) pcpus: u32,

    /// Length of the critical section (0, 1us, ...)
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(super) cs: Nanos,

    /// Length of the work between two critical sections
    #[arg(long, value_name = "TIME", default_value = "0")]
    pub(super) ncs: Nanos,

    /// Seconds of each run
    #[arg(long, default_value = "0.5", value_parser = seconds)]
    pub(super) seconds: f64,

    /// End a run after this many acquisitions, if it has not ended
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(super) ops: u64,

    /// Rounds: how often each lock is run
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(super) runs: u16,

    /// Run the checks instead: the platform contract, conformance and locks in interrupts, of the
    /// paravirtual locks
    #[arg(long)]
    pub(super) verify: bool,

    /// Switch waiting off in the kernel, as `nopvspin` does
    #[arg(long)]
    pub(super) nopvspin: bool,

    /// With --on tcg: halt as a confidential guest has to, whose `hlt` traps to the host: by a call
    /// that returns when an interrupt is pending. The kernel plays the host
    #[arg(long)]
    pub(super) halt_by_call: bool,

    /// Seconds without a word from the kernel until it counts as hung
    #[arg(long, default_value = "60", value_parser = seconds)]
    pub(super) timeout: f64,

    /// Seed of the order in which locks take turns
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,

    #[command(flatten)]
    pub(super) output: OutputArgs,

    /// Have the kernel do this instead (for tests: hang, fault)
    #[arg(long, hide = true)]
    pub(super) work: Option<String>,

    /// Break the kernel's platform on purpose (for tests: looks-early, kicks-nobody)
    #[arg(long, hide = true)]
    pub(super) broken: Option<String>,
}

/// Where the kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum World {
    /// A bare machine that QEMU emulates
    Tcg,
    /// A guest of KVM
    Kvm,
    /// The first domain of Xen, in an emulated machine
    Xen,
}

impl BootArgs {
    /// The requested locks, each once, or the name that is not a lock's.
    pub(super) fn locks(&self) -> Result<Vec<&str>, &str> {
        let mut locks = Vec::new();
        for name in &self.locks {
            let is_native = |lock: &&str| lock.starts_with("native-");
            match name.as_str() {
                "all" => locks.extend(LOCKS),
                "native" => locks.extend(LOCKS.into_iter().filter(is_native)),
                "paravirtual" => locks.extend(LOCKS.into_iter().filter(|lock| !is_native(lock))),
                lock if LOCKS.contains(&lock) => locks.push(lock),
                unknown => return Err(unknown),
            }
        }
        Ok(crate::args::unique(locks))
    }

    /// The numbers of CPUs, smallest first.
    pub(super) fn cpus(&self) -> Vec<u32> {
        let mut cpus = match (self.cpus.is_empty(), self.on) {
            (false, _) => self.cpus.clone(),
            (true, World::Xen) => vec![8],
            (true, _) => vec![1, 2, 4],
        };
        cpus.sort_unstable();
        cpus.dedup();
        cpus
    }
}

const EXAMPLES: &str = "\
Examples:
  overlock boot                       # a bare machine with up to 4 CPUs, emulated
  overlock boot --on xen              # 8 vCPUs of Xen on 2 processors
  overlock boot --on xen --verify     # contract and conformance under Xen
  overlock boot --cpus 16 --ops 1000000 --seconds 600 --locks all --runs 1

What is needed: cargo (the image is built in this source tree, or named in OVERLOCK_IMAGE), QEMU
(apt-get install qemu-system-x86), and for Xen its hypervisor (apt-get install
xen-hypervisor-4.17-amd64, or named in OVERLOCK_XEN).

Exit codes: 0 fine, 1 an update was lost or a check failed, 2 could not run, 130 interrupted.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Typed {
        #[command(flatten)]
        args: BootArgs,
    }

    fn typed(line: &str) -> BootArgs {
        Typed::parse_from(std::iter::once("boot").chain(line.split_whitespace())).args
    }

    #[test]
    fn groups_of_locks_are_spelt_out_once() {
        assert_eq!(typed("--locks hybrid,native,hybrid").locks().map(|l| l.len()), Ok(5));
        assert_eq!(typed("--locks nonsense").locks(), Err("nonsense"));
    }

    #[test]
    fn each_world_has_its_numbers_of_cpus() {
        assert_eq!(typed("--on xen").cpus(), [8]);
        assert_eq!(typed("--cpus 4,1,4").cpus(), [1, 4]);
    }
}
