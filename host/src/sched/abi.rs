//! What the scheduler shares with its loader: `bpf/abi.h`, in Rust.

use anyhow::{Result, bail};
use overlock_vcpu::host::sched::yield_to::{Chosen, Missed, NAMES, Skipped};

/// Threads of a group, and processes.
pub(crate) const SLOTS: usize = 64;

/// The policies that the scheduler has, by their numbers.
pub(crate) const POLICIES: [&str; 9] = [
    "none",
    "yield",
    "skip-spinners",
    "spin-count",
    "load-gate",
    "ipi-first",
    "pv-hint",
    "linux",
    "linux-ipi",
];

/// The number of the policy with this name, or why there is none.
pub(crate) fn number(name: &str) -> Result<u32> {
    let known = POLICIES.join(", ");
    match POLICIES.iter().position(|of| *of == name) {
        Some(number) => Ok(number as u32),
        None if NAMES.contains(&name) => {
            bail!(
                "the policy {name} is in the library, but not in the scheduler, which has {known}"
            )
        }
        None => bail!("there is no policy {name}; the scheduler has {known}"),
    }
}

/// `struct settings`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) slice_ns: u64,
    pub(crate) lead_ns: u64,
    pub(crate) grace_ns: u64,
    pub(crate) policy: u32,
    pub(crate) cap: u32,
    pub(crate) has_page: u32,
    pub(crate) tells: u32,
    pub(crate) stalls: u32,
    pub(crate) modes: u32,
}

impl Settings {
    /// Its bytes, as the scheduler reads them.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let words = [self.policy, self.cap, self.has_page, self.tells, self.stalls, self.modes];
        let long = [self.slice_ns, self.lead_ns, self.grace_ns];
        let long = long.iter().flat_map(|of| of.to_ne_bytes());
        long.chain(words.iter().flat_map(|of| of.to_ne_bytes())).collect()
    }
}

/// `enum kind`.
pub(crate) const RUNS: u8 = 0;
pub(crate) const WORKED: u8 = 1;
pub(crate) const IPI: u8 = 2;
pub(crate) const SPIN: u8 = 3;

/// `struct event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) number: u64,
    pub(crate) at: u64,
    pub(crate) running: u64,
    pub(crate) halted: u64,
    pub(crate) spinning: u64,
    pub(crate) ahead: u64,
    pub(crate) used: u64,
    pub(crate) in_user: u64,
    pub(crate) group: u32,
    pub(crate) kind: u8,
    pub(crate) slot: u8,
    pub(crate) other: u8,
    pub(crate) verdict: u8,
    pub(crate) why: u8,
    pub(crate) slots: u8,
    pub(crate) pcpus: u8,
    pub(crate) holder: u8,
    pub(crate) next: [u8; 4],
}

const _: () = assert!(size_of::<Event>() == 80);

impl Event {
    /// Reads one as the scheduler wrote it.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; size_of::<Self>()] = bytes.get(..size_of::<Self>())?.try_into().ok()?;
        let long = |n: usize| u64::from_ne_bytes(std::array::from_fn(|byte| bytes[n * 8 + byte]));
        let group = u32::from_ne_bytes(std::array::from_fn(|byte| bytes[64 + byte]));
        let [kind, slot, other, verdict, why, slots, pcpus, holder, a, b, c, d] =
            std::array::from_fn(|n| bytes[68 + n]);
        Some(Self {
            number: long(0),
            at: long(1),
            running: long(2),
            halted: long(3),
            spinning: long(4),
            ahead: long(5),
            used: long(6),
            in_user: long(7),
            group,
            kind,
            slot,
            other,
            verdict,
            why,
            slots,
            pcpus,
            holder,
            next: [a, b, c, d],
        })
    }
}

/// How often each reason was given: `struct tally`, and the oracle's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) to: [u64; Chosen::ALL.len()],
    pub(crate) plain: [u64; Missed::ALL.len()],
    pub(crate) stay: [u64; Missed::ALL.len()],
    pub(crate) skipped: [u64; Skipped::ALL.len()],
}

impl Tally {
    /// Every reason that was given: its kind, its name, and how often.
    pub(crate) fn reasons(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let to = Chosen::ALL.iter().zip(self.to).map(|(why, n)| ("to", why.name(), n));
        let missed = |kind, of: [u64; 10]| {
            Missed::ALL.iter().zip(of).map(move |(why, n)| (kind, why.name(), n))
        };
        let skipped =
            Skipped::ALL.iter().zip(self.skipped).map(|(why, n)| ("skipped", why.name(), n));
        to.chain(missed("plain", self.plain))
            .chain(missed("stay", self.stay))
            .chain(skipped)
            .filter(|&(_, _, n)| n > 0)
    }
}

/// What the scheduler counted besides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) moved: u64,
    pub(crate) gone: u64,
    pub(crate) extended: u64,
    pub(crate) held: u64,
    pub(crate) deposed: u64,
    pub(crate) returned: u64,
}

pub(crate) fn read_tally(bytes: &[u8]) -> Option<(Tally, Counts)> {
    let mut words = bytes
        .chunks_exact(8)
        .map(|word| u64::from_ne_bytes(std::array::from_fn(|byte| word[byte])));
    let mut tally = Tally::default();
    let lists = [&mut tally.to[..], &mut tally.plain, &mut tally.stay, &mut tally.skipped];
    for place in lists.into_iter().flatten() {
        *place = words.next()?;
    }
    let [events, lost, moved, gone, extended, held, deposed, returned] =
        std::array::from_fn(|_| words.next().unwrap_or_default());
    Some((tally, Counts { events, lost, moved, gone, extended, held, deposed, returned }))
}
