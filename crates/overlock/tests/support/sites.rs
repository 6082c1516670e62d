//! The atomic call sites of the lock source: which were executed, and the one whose ordering is
//! weakened.
//!
//! Every access of a lock reaches [`access`] with its place in the source. A site has a name that
//! survives edits elsewhere: file, function, operation, and a number if the function has several
//! such operations, as in `enqueue.rs enqueue update`.
//!
//! The record belongs to the calling thread: loom runs all CPUs of a model on the thread that
//! checks it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::panic::Location;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering::{self, AcqRel, Acquire, Relaxed, Release, SeqCst};

/// The orderings one step below `order`. Weakening a fence to `Relaxed` removes it.
pub(crate) fn steps_down(order: Ordering) -> &'static [Ordering] {
    match order {
        AcqRel => &[Acquire, Release],
        Acquire | Release | SeqCst => &[Relaxed],
        _ => &[],
    }
}

/// The orderings of one access. The second is that of a compare-exchange's failure.
pub(crate) type Orders = (Ordering, Ordering);

/// The role of an access to a queue node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The node's own CPU makes it new.
    Renews,
    /// The last CPU that can reach the node releases it.
    Frees,
    /// A kick for a wait of this kind, which may come when the node already serves another wait.
    Kicks(Kind),
    /// The node's own CPU looks whether it can have its old place back. It learns nothing that
    /// other CPUs could learn from it.
    Looks,
    /// Any other access.
    Uses,
}

/// The source file that gives a node's state its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// `queue.rs`: `Queued` and `Hybrid`.
    Queue,
    /// `ticket.rs`
    Ticket,
    /// `park.rs`: `TestAndSet` and `Refresh`.
    Park,
}

/// The functions whose accesses to nodes are more than plain uses.
const ROLES: &[(&str, &str, Role)] = &[
    ("raw/queue/enqueue.rs", "enqueue", Role::Renews),
    ("slot.rs", "left_in", Role::Looks),
    ("slot/node.rs", "release", Role::Frees),
    ("raw/queue/kick.rs", "kick_head", Role::Kicks(Kind::Queue)),
    ("raw/ticket.rs", "kick_next", Role::Kicks(Kind::Ticket)),
    ("raw/ticket/gone.rs", "skip", Role::Kicks(Kind::Ticket)),
    ("park.rs", "kick_halted", Role::Kicks(Kind::Park)),
];

impl Role {
    fn of(site: &str) -> Self {
        let mut parts = site.split(' ');
        let (file, function) = (parts.next(), parts.next());
        let is_it = |path: &str, name| path.rsplit('/').next() == file && Some(name) == function;
        let role = ROLES.iter().find(|(path, name, _)| is_it(path, *name));
        match role.map_or(Self::Uses, |(.., role)| *role) {
            // The swap that links a node behind another is of the other's cell (Q-O1).
            Self::Renews if parts.next() == Some("swap") => Self::Uses,
            role => role,
        }
    }
}

/// Checks that every function with a role exists: a renamed function would lose its role.
pub(crate) fn check_roles() {
    for (path, name, _) in ROLES {
        let source = source(path);
        assert!(source.lines().any(|line| function(line) == Some(name)), "no {name} in {path}");
    }
}

type Point = (&'static str, u32, u32);

#[derive(Default)]
struct Record {
    /// The executed sites by the address of their location, and the operation. One site may have
    /// several locations, one for each instance of a generic; and a helper that loads before it
    /// changes a word has one location for both.
    seen: HashMap<(*const Location<'static>, &'static str), Seen>,
    reached: BTreeSet<&'static str>,
    weakened: Option<(Point, &'static str, Ordering)>,
}

#[derive(Clone, Copy)]
struct Seen {
    point: Point,
    operation: &'static str,
    orders: Orders,
    role: Role,
    weakened: Option<Ordering>,
}

thread_local! {
    static RECORD: RefCell<Record> = RefCell::default();
    /// Files of the lock source by path.
    static SOURCES: RefCell<HashMap<&'static str, Rc<str>>> = RefCell::default();
}

/// Notes that `operation` was executed at `at` with `orders`. Returns the orderings to use, and the
/// role of the access to a node.
pub(crate) fn access(
    at: &'static Location<'static>,
    operation: &'static str,
    orders: Orders,
) -> (Orders, Role) {
    RECORD.with_borrow_mut(|record| {
        let weakened = record.weakened;
        let seen = record.seen.entry((&raw const *at, operation)).or_insert_with(|| {
            let point = (at.file(), at.line(), at.column());
            let is_it = |site: &(Point, &str, _)| site.0 == point && site.1 == operation;
            let weakened = weakened.filter(is_it).map(|(.., order)| order);
            let role = name(point, operation).map_or(Role::Uses, |name| Role::of(&name));
            Seen { point, operation, orders, role, weakened }
        });
        match seen.weakened {
            Some(order) => ((order, orders.1), seen.role),
            None => (orders, seen.role),
        }
    })
}

/// An executed site of the lock source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Site {
    /// `file function operation`.
    pub(crate) name: String,
    point: Point,
    operation: &'static str,
}

/// Forgets which sites were executed, and weakens `weakened` from here on.
pub(crate) fn reset(weakened: Option<(&Site, Ordering)>) {
    let weakened = weakened.map(|(site, order)| (site.point, site.operation, order));
    RECORD.set(Record { weakened, ..Record::default() });
}

/// Notes an event that is not a call site of its own.
pub(crate) fn reach(what: &'static str) {
    RECORD.with_borrow_mut(|record| record.reached.insert(what));
}

/// The events that [`reach`] has noted since the last [`reset`].
pub(crate) fn reached() -> BTreeSet<&'static str> {
    RECORD.with_borrow(|record| record.reached.clone())
}

/// The sites executed since the last [`reset`], with the ordering that each asked for. Test code
/// has no sites.
pub(crate) fn executed() -> BTreeMap<Site, Ordering> {
    RECORD.with_borrow(|record| {
        let sites = record.seen.values().filter_map(|seen| {
            assert_eq!(seen.orders.1, Relaxed, "a failure ordering that needs a row of its own");
            let name = name(seen.point, seen.operation)?;
            let site = Site { name, point: seen.point, operation: seen.operation };
            Some((site, seen.orders.0))
        });
        sites.collect()
    })
}

/// The text of a file of the lock source.
fn source(path: &'static str) -> Rc<str> {
    let read = || {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(path);
        fs::read_to_string(&path).unwrap_or_else(|e| panic!("can't read {}: {e}", path.display()))
    };
    SOURCES
        .with_borrow_mut(|sources| Rc::clone(sources.entry(path).or_insert_with(|| read().into())))
}

/// The name of the site, or `None` if the place is not in the lock source.
fn name((file, line, column): Point, operation: &str) -> Option<String> {
    let (_, path) = file.split_once("src/")?;
    let source = source(path);
    let before: Vec<&str> = source.lines().take(line as usize).collect();
    let start = before.iter().rposition(|line| function(line).is_some()).expect("code in a fn");
    let function = function(before[start]).expect("found above");
    // The number of such operations in the function, up to and including this site.
    let (last, rest) = before[start..].split_last().expect("at least the fn line");
    // `word/queue.rs` has two helpers for the compare-and-swaps of a lock's word.
    let here = &last[column as usize - 1..];
    let helper = ["cas", "update"].into_iter().find(|name| here.starts_with(&format!("{name}(")));
    let helper = helper.filter(|_| operation == "compare_exchange");
    let call = format!("{}(", helper.unwrap_or(operation));
    let rest: usize = rest.iter().map(|line| line.matches(&call).count()).sum();
    let upto = (column as usize - 1 + call.len()).min(last.len());
    let nth = rest + last[..upto].matches(&call).count();
    let operation = helper.unwrap_or(operation);
    let file = path.rsplit('/').next().expect("a file name");
    let number = if nth > 1 { format!(" {nth}") } else { String::new() };
    Some(format!("{file} {function} {operation}{number}"))
}

fn function(line: &str) -> Option<&str> {
    let code = line.trim_start();
    let (_, rest) = code.split_once("fn ").filter(|_| !code.starts_with("//"))?;
    let end = rest.find(['(', '<'])?;
    rest[..end].chars().all(|c| c.is_alphanumeric() || c == '_').then_some(&rest[..end])
}
