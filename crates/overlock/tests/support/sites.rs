// SPDX-License-Identifier: MIT OR Apache-2.0
//! The atomic call sites of the lock source: which were executed, and one whose ordering is weakened.
//!
//! Every access of a lock reaches [`ordering`] with the place in the source it was made from. A site has a name that survives edits
//! elsewhere: file, function, operation, and a number where the function has several such operations:
//! `queue.rs join compare_exchange`.
//!
//! The record is the calling thread's own: loom runs all CPUs of a model on the thread that checks it.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::panic::Location;
use std::path::Path;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

/// A step down from the ordering that the source gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weakening {
    /// `AcqRel` to `Acquire`, `Release` to `Relaxed`; a release fence removed.
    NoRelease,
    /// `AcqRel` to `Release`, `Acquire` to `Relaxed`; an acquire fence removed.
    NoAcquire,
    /// A `SeqCst` fence removed.
    NoFence,
}

impl Weakening {
    /// The steps down from `order`.
    pub fn of(order: Ordering) -> &'static [Self] {
        match order {
            AcqRel => &[Self::NoRelease, Self::NoAcquire],
            Acquire => &[Self::NoAcquire],
            Release => &[Self::NoRelease],
            SeqCst => &[Self::NoFence],
            _ => &[],
        }
    }

    fn apply(self, order: Ordering) -> Ordering {
        match (self, order) {
            (Self::NoRelease, AcqRel) => Acquire,
            (Self::NoAcquire, AcqRel) => Release,
            _ => Relaxed,
        }
    }
}

/// The orderings of one access: of a compare-exchange, the second is that of its failure.
pub type Orders = (Ordering, Ordering);

type Point = (&'static str, u32, u32);

#[derive(Default)]
struct Record {
    /// Executed sites by the address of their location: one site may have several, one for each instance of a generic.
    seen: HashMap<*const Location<'static>, Seen>,
    weakened: Option<(Point, Weakening)>,
}

#[derive(Clone, Copy)]
struct Seen {
    point: Point,
    operation: &'static str,
    orders: Orders,
    weakened: Option<Weakening>,
}

thread_local! {
    static RECORD: RefCell<Record> = RefCell::default();
}

/// Notes that `operation` was executed at `at` with `orders`. Returns the orderings to use.
pub fn ordering(at: &'static Location<'static>, operation: &'static str, orders: Orders) -> Orders {
    RECORD.with_borrow_mut(|record| {
        let weakened = record.weakened;
        let seen = record.seen.entry(at).or_insert_with(|| {
            let point = (at.file(), at.line(), at.column());
            let weakened = weakened.filter(|(site, _)| *site == point).map(|(_, how)| how);
            Seen { point, operation, orders, weakened }
        });
        match seen.weakened {
            Some(how) => (how.apply(orders.0), orders.1),
            None => orders,
        }
    })
}

/// An executed site of the lock source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    /// `file function operation`.
    pub name: String,
    point: Point,
}

/// Forgets which sites were executed, and weakens `site` from here on.
pub fn reset(weakened: Option<(&Site, Weakening)>) {
    let weakened = weakened.map(|(site, how)| (site.point, how));
    RECORD.set(Record { seen: HashMap::new(), weakened });
}

/// The sites executed since the last [`reset`], with the ordering each asked for. Test code has none.
pub fn executed() -> BTreeMap<Site, Ordering> {
    let mut sources = HashMap::new();
    RECORD.with_borrow(|record| {
        let sites = record.seen.values().filter_map(|seen| {
            assert_eq!(seen.orders.1, Relaxed, "a failure ordering that needs a row of its own");
            let (_, path) = seen.point.0.split_once("src/")?;
            let source = sources.entry(path).or_insert_with(|| source(path));
            let name = name(path, source, seen);
            Some((Site { name, point: seen.point }, seen.orders.0))
        });
        sites.collect()
    })
}

fn source(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("can't read {}: {e}", path.display()))
}

fn name(path: &str, source: &str, seen: &Seen) -> String {
    let (_, line, column) = seen.point;
    let before: Vec<&str> = source.lines().take(line as usize).collect();
    let start = before.iter().rposition(|line| function(line).is_some()).expect("code in a fn");
    let function = function(before[start]).expect("found above");
    // How many such operations the function has up to the site's place.
    let call = format!("{}(", seen.operation);
    let (last, rest) = before[start..].split_last().expect("at least the fn line");
    let rest: usize = rest.iter().map(|line| line.matches(&call).count()).sum();
    let upto = (column as usize - 1 + call.len()).min(last.len());
    let nth = rest + last[..upto].matches(&call).count();
    let file = path.rsplit('/').next().expect("a file name");
    let number = if nth > 1 { format!(" {nth}") } else { String::new() };
    format!("{file} {function} {}{number}", seen.operation)
}

/// The name of the function that starts on this line.
fn function(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let (_, rest) = code.split_once("fn ").filter(|_| !code.starts_with("//"))?;
    let end = rest.find(['(', '<'])?;
    rest[..end].chars().all(|c| c.is_alphanumeric() || c == '_').then_some(&rest[..end])
}
