extern crate std;

use std::sync::mpsc;
use std::thread;

use super::*;
use crate::platform::Threads;

/// A process was forked while a thread that it does not have cleared the words.
#[test]
fn what_another_process_was_clearing_is_cleared() {
    static CONDVAR: RawCondvar<Threads> = RawCondvar::new();
    let other = Threads::generation() + 1;
    CONDVAR.generation.store(other | CLEARING, Relaxed);
    let (ends, ended) = mpsc::channel();
    thread::spawn(move || {
        let notifies = || assert!(CONDVAR.notify_one());
        ends.send(CONDVAR.wait_between(None, notifies, || {}))
    });
    assert_eq!(ended.recv_timeout(Duration::from_secs(20)), Ok(true));
}
