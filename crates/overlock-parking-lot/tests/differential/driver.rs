//! Threads of this process that are stepped.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::machine::Machine;
use super::model::{Call, End, Outcome, Thread};

/// The name of stepped threads, whose panics are results.
pub(crate) const STEPPED: &str = "stepped";

/// What calls are made of.
pub(crate) trait Subject: Send + Sync + 'static {
    /// Makes a call. A closure that is to stay asks `stay` how to end.
    fn call(&self, thread: Thread, call: Call, stay: &mut dyn FnMut() -> End) -> Outcome;
}

/// Threads of this process.
pub(crate) struct Threads {
    orders: Vec<Sender<Call>>,
    results: Receiver<(Thread, Outcome)>,
    status: Vec<String>,
}

impl Threads {
    pub(crate) fn new(subject: impl Subject, count: usize) -> Self {
        let subject = Arc::new(subject);
        let (say, results) = channel();
        let (tell, told) = channel();
        let orders = (0..count).map(|index| {
            let (order, orders) = channel();
            let (subject, say, tell) = (Arc::clone(&subject), say.clone(), tell.clone());
            let work = move || {
                let here = fs::read_link("/proc/thread-self").expect("/proc is there");
                tell.send((index, format!("/proc/{}", here.display()))).expect("it is awaited");
                work(&*subject, index, &orders, &say);
            };
            thread::Builder::new().name(STEPPED.into()).spawn(work).expect("a thread");
            order
        });
        let orders = orders.collect();
        let mut status: Vec<_> = told.iter().take(count).collect();
        status.sort();
        Self { orders, results, status: status.into_iter().map(|(_, path)| path).collect() }
    }
}

/// What a stepped thread does until it gets no more orders.
fn work(
    subject: &dyn Subject,
    index: Thread,
    orders: &Receiver<Call>,
    say: &Sender<(Thread, Outcome)>,
) -> Option<End> {
    while let Ok(call) = orders.recv() {
        if let Call::Leave(end) = call {
            return Some(end);
        }
        let mut stay = || {
            say.send((index, Outcome::Entered)).ok();
            work(subject, index, orders, say).unwrap_or(End::Returns)
        };
        let call = AssertUnwindSafe(|| subject.call(index, call, &mut stay));
        let outcome = catch_unwind(call).unwrap_or(Outcome::Panicked);
        say.send((index, outcome)).ok();
    }
    None
}

impl Machine for Threads {
    fn start(&mut self, thread: Thread, call: Call) {
        self.orders[thread].send(call).expect("a thread waits for orders");
    }

    fn returned(&mut self) -> Vec<(Thread, Outcome)> {
        self.results.try_iter().collect()
    }

    fn status(&self, thread: Thread) -> String {
        self.status[thread].clone()
    }
}
