//! A load for one spin lock of a Linux guest, to compare its kernel's locks with ours: the first
//! and only process of that guest.
//!
//! One thread sleeps on a futex. A thread on each CPU wakes, over and over, sleepers that do not
//! exist: each call takes the lock of the futex's hash bucket, finds the sleeper to be none of
//! those that it asks for, and releases the lock. What is counted are these calls.
//!
//! The words in `/guest` are `hammer`, the number of CPUs, milliseconds, rounds, and the name that
//! the records give the lock. They go to the monitor's serial port by I/O instructions.

use std::arch::asm;
use std::fmt::Write as _;
use std::fs;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use crate::options::Result;
use crate::vcpu::{END, SERIAL};

/// Sleepers are woken by these bits: the one has the first, the hammers ask for the second.
const SLEEPER: u32 = 1;
const NOBODY: u32 = 2;
/// How many calls of each thread are timed.
const TIMED: usize = 100_000;

fn out(port: u16, byte: u8) {
    // SAFETY: the monitor's ports, which this process may use.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nostack, preserves_flags)) };
}

fn say(line: &str) {
    line.bytes().chain([b'\n']).for_each(|byte| out(SERIAL, byte));
}

fn futex(word: &AtomicU32, operation: i32, value: u32, bits: u32) {
    let no_time: *const libc::timespec = std::ptr::null();
    // SAFETY: a word that lives on, no deadline, and no second word.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            no_time,
            word.as_ptr(),
            bits,
        );
    }
}

struct Shared {
    word: AtomicU32,
    ended: AtomicBool,
    ready: Barrier,
}

fn stay_on(cpu: usize) {
    // SAFETY: a set of CPUs is plain data, and the thread is this one.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Hammers until the end. Returns how often, and how long calls took.
fn hammer(shared: &Shared, cpu: usize) -> (u64, Vec<u64>) {
    stay_on(cpu);
    let mut took = Vec::with_capacity(TIMED);
    shared.ready.wait();
    let mut calls = 0;
    while !shared.ended.load(Relaxed) {
        let before = Instant::now();
        futex(&shared.word, libc::FUTEX_WAKE_BITSET, 1, NOBODY);
        if took.len() < TIMED {
            took.push(before.elapsed().as_nanos() as u64);
        }
        calls += 1;
    }
    (calls, took)
}

/// Nanoseconds that the vCPUs were ready without a processor, by what the host has told.
fn stolen_ns() -> u64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let all = text.lines().next().unwrap_or_default();
    // In ticks of 10 ms, which is what Linux shows on x86.
    let ticks = all.split_ascii_whitespace().nth(8).and_then(|ticks| ticks.parse::<u64>().ok());
    ticks.unwrap_or(0) * 10_000_000
}

fn round(cpus: usize, run: Duration, lock: &str, number: u64) {
    let shared = Shared {
        word: AtomicU32::new(0),
        ended: AtomicBool::new(false),
        ready: Barrier::new(cpus + 1),
    };
    say(&format!("{{\"kind\":\"begin\",\"what\":\"{lock} on {cpus} CPUs\"}}"));
    let stolen = stolen_ns();
    let (all, ns) = thread::scope(|scope| {
        scope.spawn(|| {
            while !shared.ended.load(Relaxed) {
                futex(&shared.word, libc::FUTEX_WAIT_BITSET, 0, SLEEPER);
            }
        });
        let threads: Vec<_> = (0..cpus)
            .map(|cpu| {
                scope.spawn({
                    let shared = &shared;
                    move || hammer(shared, cpu)
                })
            })
            .collect();
        shared.ready.wait();
        let begun = Instant::now();
        thread::sleep(run);
        shared.ended.store(true, Relaxed);
        let ns = begun.elapsed().as_nanos() as u64;
        let all: Vec<_> = threads.into_iter().filter_map(|thread| thread.join().ok()).collect();
        shared.word.store(1, Relaxed);
        futex(&shared.word, libc::FUTEX_WAKE_BITSET, 1, SLEEPER);
        (all, ns)
    });
    let stolen = stolen_ns().saturating_sub(stolen);
    let ops: Vec<String> = all.iter().map(|(calls, _)| calls.to_string()).collect();
    let mut took: Vec<u64> = all.into_iter().flat_map(|(_, took)| took).collect();
    took.sort_unstable();
    let at = |share: usize| took.get(took.len() * share / 1000).copied().unwrap_or(0);
    let mut record = format!(
        "{{\"kind\":\"sample\",\"lock\":\"{lock}\",\"cpus\":{cpus},\"round\":{number},\"ns\":{ns},\
         \"ops\":[{}],",
        ops.join(",")
    );
    let _ = write!(
        record,
        "\"wait_ns\":{{\"p50\":{},\"p99\":{},\"p999\":{},\"max\":{}}},\"lost\":0,\
         \"stolen_ns\":{stolen},\"counters\":{{}}}}",
        at(500),
        at(990),
        at(999),
        took.last().copied().unwrap_or(0)
    );
    say(&record);
}

/// Does what the words ask for, and ends the machine. Does not return.
pub(crate) fn run(words: &str) -> ! {
    // SAFETY: this process is the first of its machine, and these are the monitor's ports.
    let may = unsafe { libc::ioperm(SERIAL.into(), 8, 1) | libc::ioperm(END.into(), 1, 1) } == 0;
    if may {
        let hammered = rounds(words);
        if let Err(error) = &hammered {
            say(&format!("{{\"kind\":\"panic\",\"why\":\"{error}\"}}"));
        }
        say(&format!("{{\"kind\":\"end\",\"fine\":{}}}", hammered.is_ok()));
        out(END, u8::from(hammered.is_err()));
    }
    // Linux panics when its first process ends, and the machine with it.
    std::process::exit(1)
}

fn rounds(words: &str) -> Result<()> {
    let mut words = words.split_ascii_whitespace().skip(1);
    let mut next = || words.next().ok_or("a word is missing in /guest");
    let (cpus, ms, rounds): (usize, u64, u64) =
        (next()?.parse()?, next()?.parse()?, next()?.parse()?);
    let lock = next()?;
    say(&format!("{{\"kind\":\"started\",\"cpus\":{cpus}}}"));
    (0..rounds).for_each(|number| round(cpus, Duration::from_millis(ms), lock, number));
    Ok(())
}
