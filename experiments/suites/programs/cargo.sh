#!/bin/sh
# Cargo and rustc build, test and document a small library with threads.
set -eu
export CARGO_HOME="$PWD/home" CARGO_NET_OFFLINE=true
cargo init -q --lib --name small --vcs none .
cat >src/lib.rs <<'END'
//! Counts.
use std::sync::{Arc, Condvar, Mutex};
/// Counts on some threads.
pub fn count(threads: u32) -> u32 {
    let shared = Arc::new((Mutex::new(0), Condvar::new()));
    let all: Vec<_> = (0..threads)
        .map(|_| {
            let s = shared.clone();
            std::thread::spawn(move || {
                *s.0.lock().unwrap() += 1;
                s.1.notify_all();
            })
        })
        .collect();
    let mut sum = shared.0.lock().unwrap();
    while *sum < threads { sum = shared.1.wait(sum).unwrap(); }
    all.into_iter().for_each(|t| t.join().unwrap());
    *sum
}
#[cfg(test)] mod tests {
    #[test] fn one() { assert_eq!(super::count(1), 1) }
    #[test] fn many() { assert_eq!(super::count(40), 40) }
    #[test] #[should_panic] fn panics() { panic!() }
}
END
RUSTFLAGS='-C codegen-units=8 -O' cargo test -q --lib 2>&1 | grep -E '^test result' | sed 's/;[^;]*$//'
