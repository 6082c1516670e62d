//! `load`: threads that take turns at one lock. A waiter spins, then yields its processor: a spin
//! that the host's scheduler hears of.

#![expect(unsafe_code, reason = "yields of the processor")]

use crate::page::{Page, Record};
use crate::words::Words;
use anyhow::{Context, Result, ensure};
use overlock::platform::Native;
use overlock::{RawLock as _, TestAndSet};
use overlock_results::stats::jain;
use serde_json::json;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

const USAGE: &str = "overlock host load [--threads N] [--ms N] [--cs-us N] [--ncs-us N] \
    [--page PATH] [--mark]\n\
    --page tells the host who holds; --mark writes it into a recording that is being made.";

/// Pauses between two yields of a waiter. Long enough that a lock which is about to be free is met
/// without a system call, short beside a slice.
const PAUSES: u32 = 200;

#[derive(Debug)]
struct Options {
    threads: usize,
    ms: u64,
    cs_us: u64,
    ncs_us: u64,
    page: Option<PathBuf>,
    mark: bool,
}

/// What all threads see.
#[derive(Debug)]
struct Shared {
    lock: TestAndSet<Native>,
    /// The record of the holder, plus one.
    owner: AtomicU32,
    stop: AtomicBool,
    options: Options,
    page: Option<Page>,
    marker: Option<File>,
}

#[derive(Debug, Default)]
struct Done {
    ops: u64,
    yields: u64,
    granted: u64,
    waits_ns: Vec<u64>,
}

/// Does what the words after `load` say.
pub(crate) fn main(words: &[String]) -> Result<()> {
    let mut options =
        Options { threads: 4, ms: 1000, cs_us: 20, ncs_us: 20, page: None, mark: false };
    let mut words = Words::new(words, USAGE);
    while let Some(word) = words.next() {
        match word {
            "--threads" => options.threads = words.value(word)?,
            "--ms" => options.ms = words.value(word)?,
            "--cs-us" => options.cs_us = words.value(word)?,
            "--ncs-us" => options.ncs_us = words.value(word)?,
            "--page" => options.page = Some(words.value(word)?),
            "--mark" => options.mark = true,
            "--help" | "-h" => return super::say(&format!("{USAGE}\n")),
            _ => return words.unknown(word),
        }
    }
    ensure!((1..=63).contains(&options.threads), "a load has 1 to 63 threads");
    run(options)
}

fn run(options: Options) -> Result<()> {
    let page = options.page.as_deref().map(Page::open).transpose()?;
    let marker = "/sys/kernel/tracing/trace_marker";
    let marker = options.mark.then(|| OpenOptions::new().write(true).open(marker));
    let marker = marker.transpose().context("--mark needs tracefs, and root")?;
    let (lock, owner) = (TestAndSet::new(), AtomicU32::new(0));
    let shared = Shared { lock, owner, stop: AtomicBool::new(false), options, page, marker };
    let begun = Instant::now();
    let done = thread::scope(|scope| {
        let start = |_| scope.spawn(|| hammer(&shared));
        let threads: Vec<_> = (0..shared.options.threads).map(start).collect();
        thread::sleep(Duration::from_millis(shared.options.ms));
        shared.stop.store(true, Relaxed);
        let join = |thread: thread::ScopedJoinHandle<'_, Result<Done>>| thread.join();
        let done = threads.into_iter().map(join).map(|done| match done {
            Ok(done) => done,
            Err(_) => Err(anyhow::anyhow!("a thread panicked")),
        });
        done.collect::<Result<Vec<Done>>>()
    })?;
    let ns = begun.elapsed().as_nanos() as u64;
    let ops: Vec<u64> = done.iter().map(|of| of.ops).collect();
    let mut waits: Vec<u64> = done.iter().flat_map(|of| of.waits_ns.iter().copied()).collect();
    waits.sort_unstable();
    let at = |part: usize| waits.get((waits.len() * part).div_ceil(1000).max(1) - 1).copied();
    let sum: u64 = ops.iter().sum();
    super::say(&format!(
        "{}\n",
        json!({
            "kind": "load", "threads": shared.options.threads, "ns": ns, "ops": ops,
            "ops_per_s": (sum as f64 * 1e9 / ns as f64).round(), "jain": jain(&ops),
            "yields": done.iter().map(|of| of.yields).sum::<u64>(),
            "granted": done.iter().map(|of| of.granted).sum::<u64>(),
            "wait_ns": {"p50": at(500), "p99": at(990), "p999": at(999), "max": waits.last()},
        })
    ))
}

fn hammer(shared: &Shared) -> Result<Done> {
    let record = shared.page.as_ref().map(Page::join).transpose()?;
    let mut done = Done::default();
    while !shared.stop.load(Relaxed) {
        busy(shared.options.ncs_us);
        let begun = Instant::now();
        acquire(shared, record, &mut done);
        done.waits_ns.push(begun.elapsed().as_nanos() as u64);
        busy(shared.options.cs_us);
        release(shared, record, &mut done);
        done.ops += 1;
    }
    if let Some((_, record)) = record {
        record.leave();
    }
    Ok(done)
}

fn acquire(shared: &Shared, record: Option<(usize, &Record)>, done: &mut Done) {
    let mut pauses = 0;
    // The host may read it at any time: it says who holds from before the lock is taken.
    let holds = |count| {
        if let Some((_, record)) = record {
            record.holds.store(count, Relaxed);
        }
    };
    loop {
        holds(1);
        if shared.lock.try_lock() {
            break;
        }
        holds(0);
        pauses += 1;
        if pauses % PAUSES != 0 {
            std::hint::spin_loop();
            continue;
        }
        if let Some((_, record)) = record {
            record.holder.store(shared.owner.load(Relaxed), Relaxed);
        }
        if pauses == PAUSES {
            mark(shared, "waits");
        }
        done.yields += 1;
        // SAFETY: no arguments.
        unsafe { libc::sched_yield() };
    }
    mark(shared, "holds");
    if let Some((place, record)) = record {
        record.holder.store(0, Relaxed);
        shared.owner.store(place as u32 + 1, Relaxed);
    }
}

fn release(shared: &Shared, record: Option<(usize, &Record)>, done: &mut Done) {
    mark(shared, "frees");
    shared.owner.store(0, Relaxed);
    // SAFETY: this thread has the lock.
    unsafe { shared.lock.unlock() };
    let Some((_, record)) = record else { return };
    record.holds.store(0, Relaxed);
    // The slice was over, and the host waited for the release.
    if record.granted.swap(0, Relaxed) != 0 {
        done.granted += 1;
        // SAFETY: no arguments.
        unsafe { libc::sched_yield() };
    }
}

/// Writes into the recording, which may have been switched off.
fn mark(shared: &Shared, verb: &str) {
    if let Some(mut marker) = shared.marker.as_ref() {
        // In one piece: each write is an event.
        let _ = marker.write_all(format!("overlock: {verb} 0x1").as_bytes());
    }
}

/// Uses the processor for so long, off or on it.
fn busy(us: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(us) {
        std::hint::spin_loop();
    }
}
