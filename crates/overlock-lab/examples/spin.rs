//! Counts under a test-and-set lock on real vCPUs: `cargo run --example spin -- VCPUS PCPUS MS`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::Duration;

use overlock_lab::{Config, Engine, KvmEngine, Program, ThreadsEngine, Vcpu, World};

struct Count {
    lock: AtomicBool,
    sum: AtomicU64,
    each: [AtomicU64; 256],
}

impl<W: World> Program<W> for Count {
    fn run(&self, vcpu: Vcpu<W>) {
        while !vcpu.stopping() {
            while self.lock.swap(true, Acquire) {
                std::hint::spin_loop();
            }
            self.sum.store(self.sum.load(Relaxed) + 1, Relaxed);
            self.lock.store(false, Release);
            self.each[vcpu.number() as usize].fetch_add(1, Relaxed);
        }
    }
}

fn main() {
    let args: Vec<u64> = std::env::args().skip(1).map(|a| a.parse().unwrap()).collect();
    let count =
        Count { lock: false.into(), sum: 0.into(), each: [const { AtomicU64::new(0) }; 256] };
    let mut config = Config::new(args[0] as u32, args[1] as u32);
    config.duration = Duration::from_millis(args[2]);
    let run = if args.len() > 3 {
        ThreadsEngine::run(&config, &count)
    } else {
        KvmEngine::run(&config, &count)
    };
    match run {
        Ok(outcome) => println!("{outcome:#?}"),
        Err(error) => println!("error: {error}"),
    }
    println!("sum {:?}", count.sum);
    println!("each {:?}", &count.each[..args[0] as usize]);
}
