//! One suite for every lock on every platform; `busted.rs` shows that the oracles notice faults.
//!
//! Adding a lock or a platform is one line in `suite!`.

use std::time::Duration;

use crate::support::likeness::Spinning;
use crate::support::oracle::{self, new};
use overlock::counters::Uncounted;
use overlock::platform::{Native, Shared, Threads};
use overlock::raw::{Narrow, Wide};
use overlock::{Hybrid, Queued, TestAndSet, Ticket};

macro_rules! suite {
    ($($name:ident: $lock:ty, threads $threads:expr;)*) => {$(
        mod $name {
            use super::*;

            #[test]
            fn excludes() {
                oracle::excludes(new::<$lock>, $threads, 20_000 / $threads as u64, 3).unwrap();
            }

            #[test]
            fn tries_truly() {
                oracle::tries_truly(new::<$lock>).unwrap();
            }

            #[test]
            fn loses_no_waiter() {
                oracle::loses_no_waiter(new::<$lock>, $threads, 20, Duration::from_millis(2)).unwrap();
            }
        }
    )*};
}

suite! {
    test_and_set_threads: TestAndSet<Threads>, threads 16;
    test_and_set_shared: TestAndSet<Shared>, threads 16;
    test_and_set_native: TestAndSet<Native>, threads 2;
    ticket_threads: Ticket<Threads>, threads 16;
    narrow_ticket_threads: Ticket<Threads, Uncounted, Narrow>, threads 16;
    ticket_native: Ticket<Native>, threads 2;
    queued_threads: Queued<Threads>, threads 16;
    queued_native: Queued<Native>, threads 2;
    queued_spinning: Queued<Spinning>, threads 2;
    hybrid_threads: Hybrid<Threads>, threads 16;
    hybrid_native: Hybrid<Native>, threads 2;
    hybrid_spinning: Hybrid<Spinning>, threads 2;
}

#[test]
fn queues_serve_in_order() {
    oracle::serves_in_order(new::<Ticket<Threads>>, 12).unwrap();
    oracle::serves_in_order(new::<Ticket<Threads, Uncounted, Narrow>>, 12).unwrap();
    oracle::mostly_serves_in_order(new::<Queued<Threads>>, 12).unwrap();
    oracle::mostly_serves_in_order(new::<Hybrid<Threads>>, 12).unwrap();
}

fn no_thread_touches_it_after_its_last_release<L: oracle::Subject>() {
    oracle::leaves_memory_alone::<L>(3_000).unwrap();
}

each_lock! { no_thread_touches_it_after_its_last_release }

#[test]
fn locks_are_small_and_start_as_zeros() {
    assert_eq!(size_of::<TestAndSet<Threads>>(), 4);
    assert_eq!(size_of::<Ticket<Threads, Uncounted, Wide>>(), 4);
    assert_eq!(size_of::<Ticket<Threads, Uncounted, Narrow>>(), 2);
    assert_eq!(size_of::<Queued<Threads>>(), 4);
    assert_eq!(size_of::<Hybrid<Threads>>(), 4);
    static STATIC: Hybrid<Threads> = Hybrid::new();
    // SAFETY: a lock of four bytes, which no thread uses.
    assert_eq!(unsafe { *(&raw const STATIC).cast::<u32>() }, 0);
}

#[test]
fn locks_print_their_names() {
    assert_eq!(format!("{:?}", TestAndSet::<Threads>::new()), "TestAndSet { locked: false, .. }");
    assert_eq!(format!("{:?}", Ticket::<Threads>::new()), "Ticket { locked: false, .. }");
    assert_eq!(format!("{:?}", Queued::<Threads>::new()), "Queued { locked: false, .. }");
    assert_eq!(format!("{:?}", Hybrid::<Threads>::new()), "Hybrid { locked: false, .. }");
}
