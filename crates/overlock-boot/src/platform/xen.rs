// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Xen`: a vCPU of a paravirtual guest, which polls an event channel of its own.
//!
//! | clause | answer |
//! |---|---|
//! | P1 | `wait` looks at the word after it has cleared the channel, and does not poll if it has changed. |
//! | P2 | Any event that this vCPU takes ends a poll, and so does one left by a nested wait. |
//! | P3 | A kick makes an event pending, and a poll with one pending returns at once: below. |
//! | P4 | An event on the channel of a running vCPU stays until its next wait clears it. A vCPU without a channel is sent none. |
//! | P5 | The default: no processor is given away. |
//! | P6 | The processor's pause instruction. |
//! | P7 | A vCPU's number is in its record, and never changes. |
//! | P8 | Static arrays. |
//! | P9 | The time stamp counter, as Xen's own clock, which ends a poll at its deadline. |
//! | P10 | [`Xen::set_waiting`]: Linux's `xen_nopvspin`. |
//! | P11 | No cheap releases. |
//!
//! # No kick is lost
//!
//! ```text
//!   waiter                            kicker
//!   clear the channel         A       word = new            C
//!   word == expected? poll    B       send: channel = 1     D
//! ```
//!
//! A is a locked operation, so B reads after it. If D is before A, its event is cleared; but then C
//! is before B, which finds the word changed. If D is after A, the event is pending when the poll
//! looks, or ends it. The channel is masked, so that no handler clears it in between (F9).
//!
//! # Nested waits (F11)
//!
//! ```text
//!   waiter                            its handler
//!   clear, word == expected
//!                         <--- kick of the waiter: channel = 1
//!                                     clear: the kick is gone
//!                                     word' != expected': returns
//!                                     set the channel again
//!   poll: returns at once
//! ```
//!
//! A wait that finds itself inside another leaves the channel set when it returns. The outer one
//! then polls for nothing once, which P2 allows.
//!
//! Sources: Xen's public headers, 4.17 (sched.h, event_channel.h, vcpu.h); the failure is that of
//! Linux 168d2f464ab9 ("xen: make xen_qlock_wait() nestable").

use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering, Ordering::Relaxed};

use overlock::platform::{Costs, ReadModifyWrite};
use overlock::{Bucket, Cpu, Platform, Slot};

use crate::cpus::{self, count};
use crate::kernel::Kernel;
use crate::machine::clock;
use crate::xen::{abi, calls, events, start};

/// A vCPU of a paravirtual guest of Xen.
#[derive(Clone, Copy, Debug)]
pub struct Xen;

super::tables!(Xen);
super::native!(NativeXen of Xen);

static WAITING: AtomicBool = AtomicBool::new(true);
/// Nested waits forget the outer one: on purpose, in a test.
static FORGETFUL: AtomicBool = AtomicBool::new(false);

impl Xen {
    /// Switches waiting on or off, while no lock is in use.
    pub fn set_waiting(on: bool) {
        WAITING.store(on, Relaxed);
    }

    /// [`Platform::wait`], with something done after the look at the word. A `careless` wait looks
    /// before it clears the channel, on purpose.
    fn wait_with(
        word: &AtomicU32,
        expected: u32,
        deadline_ns: Option<u64>,
        between: impl FnOnce(),
        careless: bool,
    ) {
        let me = cpus::this();
        let port = me.port.load(Relaxed);
        if port == 0 {
            return;
        }
        let nested = me.waits_open.fetch_add(1, Relaxed) != 0;
        if !careless {
            events::clear(port);
        }
        if word.load(Ordering::Acquire) == expected {
            between();
            if careless {
                events::clear(port);
            }
            calls::poll(Some(port), deadline_ns.unwrap_or(0));
            count(&me.tally.halts);
            if word.load(Relaxed) == expected {
                count(&me.tally.futile);
            }
        } else {
            count(&me.tally.early);
        }
        if nested && !FORGETFUL.load(Relaxed) {
            events::set(port);
        }
        me.waits_open.fetch_sub(1, Relaxed);
    }
}

// SAFETY: clause by clause in the table above.
unsafe impl Platform for Xen {
    type Byte = AtomicU8;
    type Half = AtomicU16;
    type Word = AtomicU32;
    type Release = ReadModifyWrite;

    const WAITS: bool = true;

    #[inline(always)]
    fn waits() -> bool {
        WAITING.load(Relaxed)
    }

    /// Two hypercalls and a choice of Xen's scheduler, under an emulator.
    fn costs() -> Costs {
        Costs::DEFAULT.with_wake_ns(50_000)
    }

    #[inline(always)]
    fn fence(order: Ordering) {
        core::sync::atomic::fence(order);
    }

    #[inline(always)]
    fn relax() {
        core::hint::spin_loop();
    }

    fn nap(_ns: u64) {
        calls::give_way();
    }

    #[inline]
    fn cpu() -> Option<Cpu> {
        Cpu::new(cpus::this().number())
    }

    fn slot(cpu: Cpu) -> &'static Slot<Self> {
        &Self::SLOTS[cpu.index()]
    }

    fn waiters() -> &'static [Bucket<Self>] {
        Self::BUCKETS
    }

    fn wait(word: &AtomicU32, expected: u32, deadline_ns: Option<u64>) {
        if deadline_ns.is_none_or(|deadline| Self::now_ns() < deadline) {
            Self::wait_with(word, expected, deadline_ns, || {}, false);
        }
    }

    fn kick(_word: *const AtomicU32, cpu: Cpu) {
        let port = cpus::of(cpu.index()).port.load(Relaxed);
        if port != 0 {
            count(&cpus::this().tally.kicks);
            calls::send(port);
        }
    }

    #[inline]
    fn now_ns() -> u64 {
        clock::now_ns()
    }
}

impl Kernel for Xen {
    const NAME: &'static str = "xen";
    type Aware = Self;
    type Native = NativeXen;

    fn set_waiting(on: bool) {
        Self::set_waiting(on);
    }

    fn tick_every_us(us: Option<u32>) {
        start::tick_every_us(us);
    }

    fn without_interrupts<R>(work: impl FnOnce() -> R) -> R {
        events::without(work)
    }

    fn interrupt_for_sure(_cpu: usize) -> bool {
        false
    }

    fn stolen_ns(cpu: usize) -> u64 {
        start::runstate(cpu).time[abi::RUNNABLE].load(Relaxed)
    }

    fn probe_wait(word: &AtomicU32, expected: u32, between: impl FnOnce(), careless: bool) {
        Self::wait_with(word, expected, None, between, careless);
    }

    fn set_forgetful(on: bool) {
        FORGETFUL.store(on, Relaxed);
    }

    fn exit(_code: u8) -> ! {
        calls::reboot()
    }
}
