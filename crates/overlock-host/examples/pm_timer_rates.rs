// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how fast threads can read the PM timer under each rule, and how long the slowest read
//! takes, when there are more threads than CPUs.
//!
//! Run it with `cargo run --release --example pm_timer_rates -- [THREADS] [MILLISECONDS]`, on a
//! quiet machine. The rules take turns, in several rounds; each figure is the median of the rounds.

#![expect(clippy::print_stdout, reason = "an example that measures has to say what it found")]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use overlock_host::Nanos;
use overlock_host::pm_timer::read::{Clamped, Mutexed, Published, Pure, ReadRule, SpinLock};
use overlock_host::pm_timer::{NoSci, PmTimer, Width};

const ROUNDS: usize = 5;

/// The result of one rule in one round: reads per second, and the longest read.
type Sample = (u64, Duration);

fn measure<R: ReadRule + Sync>(rule: R, threads: usize, span: Duration) -> Sample {
    let start = Instant::now();
    let clock = || Nanos(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    let timer = PmTimer::new(Width::Bits32, clock, rule, NoSci);
    let stop = AtomicBool::new(false);
    let (reads, longest) = thread::scope(|scope| {
        let reader = || {
            let (mut reads, mut longest) = (0, Duration::ZERO);
            let mut before = Instant::now();
            // Relaxed: the flag carries no other data.
            while !stop.load(Relaxed) {
                std::hint::black_box(timer.count());
                let after = Instant::now();
                longest = longest.max(after - before);
                before = after;
                reads += 1;
            }
            (reads, longest)
        };
        let readers: Vec<_> = (0..threads).map(|_| scope.spawn(reader)).collect();
        thread::sleep(span);
        stop.store(true, Relaxed);
        let results = readers.into_iter().map(|reader| reader.join().expect("a reader panicked"));
        results.fold((0, Duration::ZERO), |a, b| (a.0 + b.0, a.1.max(b.1)))
    });
    ((reads as f64 / start.elapsed().as_secs_f64()) as u64, longest)
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u64>());
    let mut number = |default| match arguments.next() {
        None => default,
        Some(Ok(number)) if (1..=10_000).contains(&number) => number,
        Some(_) => {
            println!("usage: pm_timer_rates [THREADS] [MILLISECONDS], each from 1 to 10000");
            std::process::exit(2);
        }
    };
    let threads = number(8) as usize;
    let span = Duration::from_millis(number(200));

    let names = ["mutexed", "published", "published, yielding", "clamped", "pure"];
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); names.len()];
    for _ in 0..ROUNDS {
        samples[0].push(measure(Mutexed::new(SpinLock::default()), threads, span));
        samples[1].push(measure(Published::default(), threads, span));
        samples[2].push(measure(Published::new(thread::yield_now), threads, span));
        samples[3].push(measure(Clamped::default(), threads, span));
        samples[4].push(measure(Pure, threads, span));
    }
    println!("{threads} threads, {ROUNDS} rounds of {span:?} each");
    println!("{:<20} {:>14} {:>14}", "rule", "reads/s", "longest");
    for (name, samples) in names.iter().zip(samples) {
        let median = |mut figures: Vec<u128>| {
            figures.sort_unstable();
            figures[figures.len() / 2]
        };
        let rate = median(samples.iter().map(|sample| sample.0.into()).collect());
        let longest = median(samples.iter().map(|sample| sample.1.as_micros()).collect());
        println!("{name:<20} {rate:>14} {longest:>11} µs");
    }
}
