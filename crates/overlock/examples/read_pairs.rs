// SPDX-License-Identifier: MIT OR Apache-2.0
//! The cost of an uncontended pair for reading: ours, with and without the bias, and std's, in
//! interleaved rounds; and how two readers scale.

#![expect(clippy::print_stdout, reason = "its output is a table")]

use std::hint::black_box;
use std::sync::{Barrier, RwLock as Std};
use std::thread;
use std::time::{Duration, Instant};

use overlock::platform::Threads;
use overlock::{RwLock, ThreadRwLock};

const PAIRS: u32 = 2_000_000;

fn timed(pair: impl Fn()) -> f64 {
    let began = Instant::now();
    for _ in 0..PAIRS {
        pair();
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(PAIRS)
}

/// Pairs per microsecond of `threads` threads.
fn rate(threads: usize, pair: impl Fn() + Sync) -> f64 {
    let start = Barrier::new(threads);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    let (began, mut pairs) = (Instant::now(), 0);
                    while began.elapsed() < Duration::from_millis(50) {
                        (0..1_000).for_each(|_| pair());
                        pairs += 1_000;
                    }
                    f64::from(pairs) / began.elapsed().as_secs_f64() / 1e6
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let (biased, plain, std) =
        (ThreadRwLock::new(1_u64), RwLock::<u64, Threads>::new(1), Std::new(1_u64));
    let read_biased = || _ = black_box(*biased.read());
    let read_plain = || _ = black_box(*plain.read());
    let read_std = || _ = black_box(*std.read().unwrap());
    let data = 1_u64;
    let none = || {
        for _ in 0..8 {
            black_box(data);
        }
    };
    let write_biased = || *biased.write() += 1;
    let write_plain = || *plain.write() += 1;
    let write_std = || *std.write().unwrap() += 1;
    let mut rows: [(&str, Vec<f64>); 14] = [
        "biased read, ns",
        "plain read, ns",
        "std read, ns",
        "biased write, ns",
        "plain write, ns",
        "std write, ns",
        "biased, 1 reader",
        "biased, 2 readers",
        "plain, 1",
        "plain, 2",
        "std, 1",
        "std, 2",
        "no lock, 1",
        "no lock, 2",
    ]
    .map(|name| (name, Vec::new()));
    for _ in 0..9 {
        let round = [
            timed(read_biased),
            timed(read_plain),
            timed(read_std),
            timed(write_biased),
            timed(write_plain),
            timed(write_std),
            rate(1, read_biased),
            rate(2, read_biased),
            rate(1, read_plain),
            rate(2, read_plain),
            rate(1, read_std),
            rate(2, read_std),
            rate(1, none),
            rate(2, none),
        ];
        rows.iter_mut().zip(round).for_each(|((_, values), value)| values.push(value));
    }
    for (name, values) in rows {
        println!("{name:>20} {:8.2}", median(values));
    }
}
