//! The page that this kernel shares with the scheduler of its host, if there is one: who holds the
//! lock of the run, and who waits for whom. Its layout is docs/host.md's.

use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::cpus::{self, MAX};
use crate::machine::io::outb;
use crate::plan::CommandLine;
use crate::say;

/// Where the monitor maps it.
const AT: usize = 0xd000_0000;

/// The monitor's port by which a CPU yields its processor.
const YIELD: u16 = 0xf5;

/// What one CPU says of itself, but for the thread that it is in the host: that says the monitor.
#[repr(C)]
struct Record {
    thread: AtomicU32,
    holds: AtomicU32,
    /// The record of the holder, plus one.
    holder: AtomicU32,
    next: [AtomicU32; 4],
    granted: AtomicU32,
    reserved: [AtomicU32; 8],
}

const _: () = assert!(size_of::<Record>() == 64);

/// The first CPU's record, plus one; 0 if there is no page.
static FIRST: AtomicUsize = AtomicUsize::new(0);
static WAITS: [AtomicBool; MAX] = [const { AtomicBool::new(false) }; MAX];
static OWNER: AtomicU32 = AtomicU32::new(0);
/// How often the host has extended a holder's slice.
static GRANTED: AtomicU64 = AtomicU64::new(0);

/// Learns from the command line where the records are.
pub(super) fn join(plan: CommandLine<'_>) {
    FIRST.store(plan.number("page", 0) as usize, Relaxed);
}

/// Reports how often the host has extended a holder's slice.
pub(super) fn tell() {
    if FIRST.load(Relaxed) > 0 {
        say!("{{\"kind\":\"page\",\"granted\":{}}}", GRANTED.load(Relaxed));
    }
}

/// The record of `cpu`, and its number plus one.
#[inline]
fn record(cpu: usize) -> Option<(&'static Record, u32)> {
    let first = FIRST.load(Relaxed);
    let number = first + cpu;
    // SAFETY: the monitor has mapped the page, and says that each CPU has a record in it; all of it
    // is atomic integers. The header is as long as a record.
    (first > 0).then(|| (unsafe { &*with_exposed_provenance(AT + number * 64) }, number as u32))
}

/// Says to all that wait who holds.
fn name(holder: u32) {
    OWNER.store(holder, Relaxed);
    for (cpu, waits) in WAITS.iter().enumerate().take(cpus::started()) {
        if let Some((record, _)) = record(cpu).filter(|_| waits.load(Relaxed)) {
            record.holder.store(holder, Relaxed);
        }
    }
}

#[inline]
pub(super) fn asks(cpu: usize) {
    if let Some((own, _)) = record(cpu) {
        own.holder.store(OWNER.load(Relaxed), Relaxed);
        WAITS[cpu].store(true, Relaxed);
    }
}

#[inline]
pub(super) fn holds(cpu: usize) {
    if let Some((own, number)) = record(cpu) {
        WAITS[cpu].store(false, Relaxed);
        own.holds.store(1, Relaxed);
        own.holder.store(0, Relaxed);
        name(number);
    }
}

/// `cpu` is about to release it.
#[inline]
pub(super) fn frees(cpu: usize) {
    if record(cpu).is_some() {
        name(0);
    }
}

/// `cpu` has released it. If the host has extended its slice for that, it yields.
#[inline]
pub(super) fn has_freed(cpu: usize) {
    if let Some((own, _)) = record(cpu) {
        own.holds.store(0, Relaxed);
        if own.granted.swap(0, Relaxed) != 0 {
            GRANTED.fetch_add(1, Relaxed);
            // SAFETY: the monitor has nothing behind this port but a yield.
            unsafe { outb(YIELD, 0) };
        }
    }
}
