//! The world of a simulated host: its verbs, and the platforms of `overlock` on its vCPUs.
//!
//! | clause | answer |
//! |---|---|
//! | P0 | A cell is plain memory that one coroutine at a time accesses: every access is sequentially consistent, and a fence only takes time. Releases are read-modify-writes. |
//! | P1 | `wait` loads the word before it calls the host. |
//! | P2 | A kick that came too early, an interrupt, a deadline and the end of the run end a halt. |
//! | P3 | A kick is a call of the host. If its target is not halted, the scheduler remembers it, and the target's next halt returns at once. |
//! | P4 | The scheduler ignores a kick of a vCPU that has ended. |
//! | P6 | Time passes; see [`spin`](super::spin) for how much. |
//! | P7 | A vCPU's number never changes. |
//! | P8 | The tables are made for each run, at the same addresses each time. |
//! | P9 | The vCPU's own virtual time. |
//! | P10 | `OnHost<false>` never waits; `OnHost<true>` waits if the run asks for it. |

use std::alloc::Layout;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use overlock::atomic::Atomic;
use overlock::platform::{Bucket, Costs, Cpu, Platform, ReadModifyWrite, Slot};
use overlock_bench::Verbs;

use super::machine::HostMachine;
use super::machine::calls::{
    self, Timed, call, is_on_host, long_spin, relax, spend, sync, with, work,
};
use super::memory;

/// The least number of buckets of the table of halted vCPUs, 15 entries each.
const BUCKETS: usize = 256;

/// The vCPUs of a simulated host.
#[derive(Clone, Copy, Debug)]
pub struct Simulated;

/// The platform of locks on these vCPUs; with `WAITS` they wait, otherwise they only spin.
#[derive(Clone, Copy, Debug)]
pub struct OnHost<const WAITS: bool>;

/// What the locks of one platform share in one run.
struct Table {
    slots: &'static [Slot<Timed<u32>>],
    buckets: &'static [Bucket<Timed<u32>>],
}

impl Table {
    /// Empty tables for `vcpus` vCPUs, in the memory of the run.
    fn new(vcpus: u32) -> Self {
        let buckets = BUCKETS.max(vcpus.next_power_of_two() as usize);
        Self {
            slots: memory::put_all(vcpus as usize, Slot::new),
            buckets: memory::put_all(buckets, Bucket::new),
        }
    }
}

/// What all locks of one run share.
pub(crate) struct Tables {
    waiting: Table,
    spinning: Table,
}

impl Tables {
    pub(crate) fn new(vcpus: u32) -> Self {
        Self { waiting: Table::new(vcpus), spinning: Table::new(vcpus) }
    }

    fn of_run() -> &'static Self {
        with(|m| m.shared).downcast_ref().expect("a run has tables")
    }
}

macro_rules! platform {
    ($waits:literal, $table:ident) => {
        // SAFETY: the table above answers the contract clause by clause.
        unsafe impl Platform for OnHost<$waits> {
            type Byte = Timed<u8>;
            type Half = Timed<u16>;
            type Word = Timed<u32>;

            const WAITS: bool = $waits;

            type Release = ReadModifyWrite;

            #[inline]
            fn waits() -> bool {
                $waits && with(|m| m.waits)
            }

            fn fence(order: Ordering) {
                if !is_on_host() {
                    with(|m| m.fence(order));
                }
            }

            fn relax() {
                relax(Self::waits());
            }

            fn nap(ns: u64) {
                let deadline = Simulated::now_ns() + ns;
                halt(Some(deadline));
            }

            #[inline]
            fn cpu() -> Option<Cpu> {
                Cpu::new(with(|m| m.core.current) as usize)
            }

            #[inline]
            fn slot(cpu: Cpu) -> &'static Slot<Timed<u32>> {
                &Tables::of_run().$table.slots[cpu.index()]
            }

            #[inline]
            fn waiters() -> &'static [Bucket<Timed<u32>>] {
                Tables::of_run().$table.buckets
            }

            fn wait(word: &Timed<u32>, expected: u32, deadline_ns: Option<u64>) {
                Simulated::halt_unless(word, expected, deadline_ns);
            }

            fn kick(_: *const Timed<u32>, cpu: Cpu) {
                Simulated::kick(cpu.index() as u32);
            }

            fn costs() -> Costs {
                Costs::DEFAULT.with_wake_ns(with(|m| m.wake_ns))
            }

            #[inline]
            fn now_ns() -> u64 {
                Simulated::now_ns()
            }
        }
    };
}
platform!(true, waiting);
platform!(false, spinning);

fn halt(deadline_ns: Option<u64>) {
    call(|costs| costs.halt, |m, vcpu| m.halt(vcpu, deadline_ns));
}

/// Sends interrupts by a call of the host, or by a store to a register that takes no exit.
fn interrupt(send: impl FnOnce(&mut HostMachine<'static>, u32)) {
    let takes_no_exit = with(|m| m.hidden_ipis);
    call(
        |costs| if takes_no_exit { costs.rmw } else { costs.call },
        |m, vcpu| {
            m.vcpus[vcpu as usize].accounts.interrupts += 1;
            send(m, vcpu);
        },
    );
}

impl Verbs for Simulated {
    type Word = Timed<u32>;
    type Aware = OnHost<true>;
    type Native = OnHost<false>;

    fn memory(layout: Layout) -> Option<NonNull<u8>> {
        memory::take(layout)
    }

    fn number() -> u32 {
        with(|m| m.core.current)
    }

    fn count() -> u32 {
        with(|m| m.vcpus.len() as u32)
    }

    fn stopping() -> bool {
        sync();
        is_on_host() || with(|m| m.cpu().at >= m.stop_at)
    }

    fn now_ns() -> u64 {
        with(|m| {
            let clock = m.costs.clock;
            let cpu = m.cpu();
            cpu.at += if is_on_host() { 0 } else { clock };
            cpu.spin.reads_clock();
            cpu.at
        })
    }

    fn away_ns() -> u64 {
        with(|m| m.away_ns())
    }

    fn work_ns(ns: u64) {
        work(ns);
    }

    fn work_in_user_ns(ns: u64) {
        // Time has to reach the end of the work while the mode lasts.
        if !is_on_host() {
            with(|m| m.cpu().in_user = true);
            work(ns);
            sync();
            with(|m| m.cpu().in_user = false);
        }
    }

    fn relax() {
        relax(false);
    }

    fn halt_unless(word: &Timed<u32>, expected: u32, deadline_ns: Option<u64>) {
        // The scheduler remembers a kick that comes between this load and the halt.
        if word.load(Ordering::Relaxed) == expected {
            halt(deadline_ns);
        }
    }

    fn sleep_ns(ns: u64) {
        let deadline = Self::now_ns() + ns;
        while Self::now_ns() < deadline && !Self::stopping() {
            halt(Some(deadline));
        }
    }

    fn kick(target: u32) {
        calls::kick(target);
    }

    fn interrupt(target: u32, number: u32) {
        interrupt(|m, vcpu| m.interrupt(vcpu, target, number));
    }

    fn interrupt_all(number: u32) {
        interrupt(|m, vcpu| {
            for target in m.guest_of(vcpu).filter(|&target| target != vcpu) {
                m.interrupt(vcpu, target, number);
            }
        });
    }

    fn yield_to(target: Option<u32>) {
        call(|costs| costs.call, |m, vcpu| m.yield_to(vcpu, target));
    }

    fn long_spin() {
        long_spin();
    }

    fn pm_timer() -> u32 {
        if is_on_host() {
            return 0;
        }
        spend(with(|m| m.costs.port));
        sync();
        let read = with(|m| {
            m.cpu().accounts.pm_reads += 1;
            m.pm_timer
        });
        read()
    }

    fn is_preempted(number: u32) -> bool {
        sync();
        with(|m| m.is_preempted(number))
    }

    fn enter_critical() {
        with(|m| m.enter_critical());
    }

    fn leave_critical() {
        if with(|m| m.leave_critical()) {
            call(|costs| costs.call, |m, vcpu| m.end_grace(vcpu));
        }
    }
}
