//! Directed yield: a vCPU spins, and could give its pCPU to the vCPU it waits for. To which one?
//!
//! A spinning vCPU wastes its slice if the vCPU it waits for is off CPU. The host does not know
//! which vCPU that is. Each policy here is a different guess, based on what the host can see and on
//! what the guest is willing to tell. [`Policy`] is the one trait; each policy has its own file:
//!
//! | name | type | the vCPU it picks |
//! |---|---|---|
//! | `none` | [`Stay`] | none: the spinner spins on |
//! | `report` | [`Stay`] | none, but the spin is reported: the base for comparing the others |
//! | `yield` | [`PlainYield`] | the one that lags most in CPU time (Xen's `vcpu_yield`) |
//! | `round-robin` | [`RoundRobin`] | the next ready one after the last one boosted |
//! | `skip-spinners` | [`SkipSpinners`] | the same, but spinners only every other time (Linux 3.6, 2012) |
//! | `spin-count` | [`SpinCount`] | the same, but the more a vCPU spins the longer it is skipped |
//! | `load-gate` | [`LoadGate`] | as `skip-spinners`, but with a short scan, and none on a host with room |
//! | `linux` | [`Linux`] | as `skip-spinners`, but none that was preempted in user mode (Linux 7) |
//! | `ipi-first` | [`IpiFirst`] | one that owes an answer to an IPI; else as `skip-spinners` |
//! | `linux-ipi` | [`LinuxIpi`] | the last one that the spinner has interrupted; else as `linux` (W. Li's series of 2025) |
//! | `pv-hint` | [`PvHint`] | the holder that the guest names, a vCPU that owes the holder an answer, or the next waiter |
//! | `oracle` | [`Oracle`] | the one the spinner really waits for: the yardstick |
//!
//! # The safety net
//! A policy can do no harm. The scheduler tells it in a [`View`] which vCPUs are fit to be boosted,
//! checks its [`Ruling`] once more, and keeps a boosted vCPU at most
//! [`yield_lead`](super::Config::yield_lead) ahead of the one that lags most. So even the worst
//! policy costs throughput, never fairness.
//!
//! # Sources
//! - Linux `virt/kvm/kvm_main.c`, `kvm_vcpu_on_spin`, as of 6.19, and its history: R. van Riel
//!   2011 (round robin), Raghavendra K T 2012 (skipping spinners, and three ideas for later).
//! - Longpeng, "KVM: add spinlock optimization framework", 2017; W. Li, "KVM: Boost queue head
//!   vCPU to mitigate lock waiter preemption", 2019; K. Ishiguro et al., "Mitigating
//!   excessive vCPU spinning in VM-agnostic KVM", VEE 2021.

mod candidate;
mod debts;
mod decision;
mod ipi_first;
mod linux;
mod load_gate;
mod oracle;
mod policy;
mod pv_hint;
mod rotation;
mod round_robin;
mod skip_spinners;
mod spin_count;
mod stay;
mod view;

use alloc::boxed::Box;

pub use candidate::Candidate;
pub use decision::{Cause, Chosen, Decision, Missed, Outcome, Skipped, Tally, Trace};
pub use ipi_first::IpiFirst;
pub use linux::{Linux, LinuxIpi};
pub use load_gate::LoadGate;
pub use oracle::Oracle;
pub use policy::{Notice, Policy, Ruling};
pub use pv_hint::PvHint;
pub use rotation::Rotation;
pub use round_robin::RoundRobin;
pub use skip_spinners::SkipSpinners;
pub use spin_count::SpinCount;
pub use stay::{PlainYield, Stay};
pub use view::View;

macro_rules! policies {
    ($vcpus:ident: $($name:literal => $policy:expr,)*) => {
        /// The names of the policies of this crate, in the order of the table above.
        pub const NAMES: [&str; [$($name),*].len()] = [$($name),*];

        /// Makes the policy with this name for a guest of `vcpus`, or returns `None` if there is
        /// none.
        pub fn by_name(name: &str, $vcpus: u32) -> Option<Box<dyn Policy + Send>> {
            Some(match name {
                $($name => Box::new($policy),)*
                _ => return None,
            })
        }
    };
}

// `pv-hint` has `ipi-first` below it, a vCPU that owes an answer to the spinner's IPI, for spins
// about which the guest says nothing.
policies! { vcpus:
    "none" => Stay,
    "report" => Stay,
    "yield" => PlainYield,
    "round-robin" => RoundRobin::default(),
    "skip-spinners" => SkipSpinners::new(vcpus),
    "spin-count" => SpinCount::new(vcpus),
    "load-gate" => LoadGate::new(SkipSpinners::new(vcpus)),
    "linux" => Linux::new(vcpus),
    "ipi-first" => IpiFirst::new(vcpus, SkipSpinners::new(vcpus)),
    "linux-ipi" => LinuxIpi::new(vcpus),
    "pv-hint" => PvHint::new(vcpus, IpiFirst::new(vcpus, SkipSpinners::new(vcpus))),
    "oracle" => Oracle,
}
