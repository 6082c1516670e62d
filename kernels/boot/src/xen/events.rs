//! Events: Xen's interrupts. One channel a vCPU is for kicks, and masked: a kick ends a poll and
//! interrupts no vCPU. One is for the vCPU's timer.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU32, Ordering::*};

use super::abi::{self, SharedInfo, VcpuInfo};
use super::{calls, timer};
use crate::cpus::{self, MAX};
use crate::machine::interrupts;
use crate::machine::segments::Raw;

/// The page that Xen shares: mapped over this one.
pub static SHARED: Raw<[u8; 4096]> = Raw(UnsafeCell::new([0; 4096]));

/// The ports of the timers.
static TIMERS: [AtomicU32; MAX] = [const { AtomicU32::new(0) }; MAX];

pub fn shared() -> &'static SharedInfo {
    // SAFETY: a page of this layout, all of whose fields are atomics, mapped for good at the start.
    unsafe { &*SHARED.0.get().cast() }
}

pub fn own() -> &'static VcpuInfo {
    &shared().vcpus[cpus::this().number()]
}

fn bit(port: u32) -> (usize, u64) {
    (port as usize / 64, 1 << (port % 64))
}

/// Masks `port`: its events interrupt no vCPU.
pub fn mask(port: u32) {
    let (word, bit) = bit(port);
    shared().mask[word].fetch_or(bit, SeqCst);
}

/// Clears the event on `port`, and returns whether one was pending. No access is moved across it.
pub fn take(port: u32) -> bool {
    let (word, bit) = bit(port);
    shared().pending[word].fetch_and(!bit, SeqCst) & bit != 0
}

/// Makes an event pending on `port`, which must be masked.
pub fn set(port: u32) {
    let (word, bit) = bit(port);
    shared().pending[word].fetch_or(bit, SeqCst);
}

/// Binds this vCPU's channels: the kick's, masked, and the timer's.
pub fn bind() {
    let me = cpus::this();
    let kick = calls::bind(me.number(), None);
    mask(kick);
    me.port.store(kick, SeqCst);
    TIMERS[me.number()].store(calls::bind(me.number(), Some(abi::VIRQ_TIMER)), SeqCst);
}

/// Handles what is pending on this vCPU.
pub(super) fn take_all() {
    let own = own();
    own.upcall_pending.store(0, SeqCst);
    own.pending_words.swap(0, SeqCst);
    // The only channel of this vCPU that is not masked. The channels of all vCPUs share a word, so
    // other bits in it are left alone.
    if take(TIMERS[cpus::this().number()].load(Relaxed)) {
        interrupts::tick();
        timer::ask_for_tick();
    }
}
