//! A record for each CPU, found through the GS segment.

use core::arch::asm;
use core::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::Release,
};

/// The most CPUs that this kernel starts. Xen has room for 32 in the page that it shares.
pub const MAX: usize = 32;

/// One CPU's record. Only the CPU itself writes most of it; others read.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct PerCpu {
    /// The address of this record: what GS:0 holds.
    own: AtomicUsize,
    number: AtomicU32,
    /// The number of its APIC.
    pub apic: AtomicU32,
    /// Whether it can be kicked (F8).
    pub up: AtomicBool,
    /// How many non-maskable interrupts it is in.
    pub in_nmi: AtomicU32,
    pub ticking: AtomicBool,
    /// Counts of its APIC's timer between two ticks.
    pub tick_counts: AtomicU32,
    /// The event channel it is kicked by, under Xen; zero before there is one.
    pub port: AtomicU32,
    /// How many waits it is inside; more than one where an interrupt waits.
    pub waits_open: AtomicU32,
    /// Kicks of this CPU by hypercall that were begun: see `platform::kvm`.
    pub kicks_begun: AtomicU64,
    /// Those of them that were done.
    pub kicks_done: AtomicU64,
    /// Those that this CPU knows the end of.
    pub kicks_seen: AtomicU64,
    /// Whether an interrupt may have taken a kick with it.
    pub kick_gone: AtomicBool,
    /// What has ended its halt: see `machine::halt`.
    pub ended_by: AtomicU8,
    /// What it counted.
    pub tally: HaltCounts,
}

pub const COUNTS: usize = 11;

/// Waits and kicks by outcome. Written by its CPU, in interrupts too.
#[derive(Debug)]
pub struct HaltCounts {
    /// Waits that found their word changed.
    pub early: AtomicU64,
    /// Waits that gave the CPU up.
    pub halts: AtomicU64,
    /// Of those, the ones that a kick ended.
    pub kicked: AtomicU64,
    /// The ones that their deadline ended.
    pub overdue: AtomicU64,
    /// The ones that something else ended: an interrupt, or a hypervisor of its own accord.
    pub stray: AtomicU64,
    /// Halts that ended with their word unchanged.
    pub futile: AtomicU64,
    pub kicks: AtomicU64,
    /// Kicks that were found by a later wait.
    pub stale: AtomicU64,
    /// Kicks that arrived as interrupts.
    pub arrived: AtomicU64,
    pub ticks: AtomicU64,
    pub nmis: AtomicU64,
}

impl HaltCounts {
    pub fn all(&self) -> [(&'static str, u64); COUNTS] {
        [
            ("early", &self.early),
            ("halts", &self.halts),
            ("kicked", &self.kicked),
            ("overdue", &self.overdue),
            ("stray", &self.stray),
            ("futile", &self.futile),
            ("kicks", &self.kicks),
            ("stale", &self.stale),
            ("arrived", &self.arrived),
            ("ticks", &self.ticks),
            ("nmis", &self.nmis),
        ]
        .map(|(name, count)| (name, count.load(Relaxed)))
    }
}

pub fn count(what: &AtomicU64) {
    what.fetch_add(1, Relaxed);
}

static RECORDS: [PerCpu; MAX] = [const { PerCpu::new() }; MAX];
static STARTED: AtomicUsize = AtomicUsize::new(0);

impl PerCpu {
    const fn new() -> Self {
        // SAFETY: it consists of atomic numbers, and zeros are such.
        unsafe { core::mem::zeroed() }
    }

    #[inline]
    pub fn number(&self) -> usize {
        self.number.load(Relaxed) as usize
    }
}

/// The record of the calling CPU. Its GS base is the address of its record.
#[inline]
pub fn this() -> &'static PerCpu {
    let own: *const PerCpu;
    // SAFETY: the first word of a record is its own address, and GS points to a record from the
    // start of each CPU on. Two such reads of one CPU give the same.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) own, options(pure, readonly, nostack, preserves_flags));
        &*own
    }
}

#[inline]
pub fn of(cpu: usize) -> &'static PerCpu {
    &RECORDS[cpu]
}

/// Prepares the record of CPU number `cpu`, and returns its address, which GS is to be based on.
pub fn prepare(cpu: usize) -> usize {
    let record = &RECORDS[cpu];
    let address = core::ptr::from_ref(record).addr();
    record.own.store(address, Relaxed);
    record.number.store(cpu as u32, Relaxed);
    address
}

/// Marks the calling CPU as up: it can be kicked and given work.
pub fn is_up() {
    let me = this();
    // ORDERING: Release, with the Acquire of `started`: the record is complete.
    me.up.store(true, Release);
    // ORDERING: as above.
    STARTED.fetch_add(1, Release);
}

pub fn started() -> usize {
    // ORDERING: Acquire, with the Release of `is_up`.
    STARTED.load(core::sync::atomic::Ordering::Acquire)
}
