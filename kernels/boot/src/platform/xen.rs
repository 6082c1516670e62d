//! `Xen`: a vCPU of a guest with virtual hardware (PVH), which polls an event channel of its own.
//!
//! | clause | answer |
//! |---|---|
//! | P1 | `wait` looks at the word after it has cleared the channel, and does not poll if it has changed. |
//! | P2 | Any event that this vCPU takes ends a poll, and so does one left by a nested wait. |
//! | P3 | A kick makes an event pending, and a poll with one pending returns at once: below. |
//! | P4 | An event on the channel of a running vCPU stays until its next wait clears it. A vCPU without a channel is sent none. |
//! | P9 | The clock is set to Xen's own, by which a poll ends at its deadline. |
//!
//! The others as in [`platform`](super).
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
//! looks, or ends it. The channel is masked, so that no handler clears it in between (F9). A wait
//! that is over clears the channel too, which tells what ended it. A kick that is wiped out there
//! was for this wait, or its change came before the next look.
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

use core::sync::atomic::Ordering::Relaxed;

use super::{HaltEnd, Halting, Sabotage, Wait, broken, has_passed};
use crate::cpus::{self, PerCpu, count};
use crate::kernel::Kernel;
use crate::xen::{abi, calls, events, start, timer};

/// A vCPU of a guest of Xen.
#[derive(Clone, Copy, Debug)]
pub struct Xen;

super::platform!(Xen, NativeXen);

impl Halting for Xen {
    const KICKS_INTERRUPT: bool = false;
    /// Two hypercalls and a decision of Xen's scheduler, under an emulator.
    const WAKE_NS: u64 = 50_000;

    fn halt(wait: Wait<'_, impl FnOnce()>) -> HaltEnd {
        let me = cpus::this();
        let port = me.port.load(Relaxed);
        let in_nmi = me.in_nmi.load(Relaxed) != 0 && !broken(Sabotage::HaltsAnywhere);
        if port == 0 || wait.is_late() || in_nmi {
            return HaltEnd::Refused;
        }
        let nested = me.waits_open.fetch_add(1, Relaxed) != 0;
        // A
        if !broken(Sabotage::LooksEarly) && events::take(port) {
            count(&me.tally.stale);
        }
        // B
        let ended = if wait.is_worth_it() {
            (wait.between)();
            if broken(Sabotage::LooksEarly) {
                events::take(port);
            }
            calls::poll(Some(port), wait.deadline_ns.unwrap_or(0));
            match events::take(port) {
                true => HaltEnd::Kicked,
                false if has_passed(wait.deadline_ns) => HaltEnd::Overdue,
                false => HaltEnd::Otherwise,
            }
        } else {
            HaltEnd::Early
        };
        if nested && !broken(Sabotage::ForgetsOuter) {
            events::set(port);
        }
        me.waits_open.fetch_sub(1, Relaxed);
        ended
    }

    fn call_back(cpu: &PerCpu) {
        calls::send(cpu.port.load(Relaxed));
    }

    fn reached() -> u64 {
        // One that is left pending would make the next one part of it.
        Self::take_kicks();
        let me = cpus::this();
        me.tally.kicked.load(Relaxed) + me.tally.stale.load(Relaxed)
    }

    fn take_kicks() {
        let me = cpus::this();
        if events::take(me.port.load(Relaxed)) {
            count(&me.tally.stale);
        }
    }

    fn nap() {
        calls::give_way();
    }
}

impl Kernel for Xen {
    const NAME: &'static str = "xen";
    type Aware = Self;
    type Native = NativeXen;

    fn stolen_ns(cpu: usize) -> u64 {
        start::runstate(cpu).time[abi::RUNNABLE].load(Relaxed)
    }

    fn tick_every_us(us: Option<u32>) {
        timer::tick_every_us(us);
    }

    fn exit(_code: u8) -> ! {
        calls::reboot()
    }
}
