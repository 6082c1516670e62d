//! A thread waits for a mutex of Rust's standard library.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::Mutex;
use std::time::Duration;

static LOCK: Mutex<()> = Mutex::new(());
static IS_COMING: AtomicBool = AtomicBool::new(false);

#[inline(never)]
fn takes() {
    drop(LOCK.lock().unwrap());
}

fn main() {
    let held = LOCK.lock().unwrap();
    let second = std::thread::spawn(|| {
        IS_COMING.store(true, Relaxed);
        takes();
    });
    while !IS_COMING.load(Relaxed) {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(50));
    drop(held);
    second.join().unwrap();
}
