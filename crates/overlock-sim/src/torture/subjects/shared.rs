// SPDX-License-Identifier: MIT OR Apache-2.0
//! `Refresh` as a subject: not a lock, but a value that CPUs ask for, with a number for each
//! refresh.

use overlock::Refresh;

use crate::Oracle;
use crate::torture::conditions::Verb;
use crate::torture::kind::{Kind, Layout, LockVerbs, Promise, Role, Survives};
use crate::torture::platform::{ByAddress, ByNumber, Inject, SpinOnly, SwitchedOff, Waiting};
use crate::torture::subject::{Subject, UNFAIR, bare, place};

/// A CPU that waits for a refresh waits for the refresher's CPU.
const SHARED: Promise = Promise { layout: Layout::Opaque, survives: Survives::Nobody, ..UNFAIR };

pub(super) static SUBJECTS: &[Subject] = &[
    shared::<ByNumber, Right>("refresh"),
    shared::<ByAddress, Right>("refresh-by-address"),
    shared::<SwitchedOff, Right>("off-refresh"),
    shared::<SpinOnly, Right>("native-refresh"),
];

pub(super) static BROKEN: &[Subject] = &[
    known_bad::<Stale>("broken-stale-refresh", &[Oracle::Freshness]),
    known_bad::<Waits>("broken-last-refresh", &[Oracle::Progress]),
];

const fn shared<W: Waiting, M: Meaning>(name: &'static str) -> Subject {
    bare::<W>(name, kind::<W, M>())
}

const fn kind<W: Waiting, M: Meaning>() -> Kind {
    Kind { timed: false, role: Role::Value, promise: SHARED, place: place_shared::<W, M> }
}

/// `Refresh` as one of several kinds.
pub(super) const fn right<W: Waiting>() -> Kind {
    kind::<W, Right>()
}

const fn known_bad<M: Meaning>(name: &'static str, known_bad: &'static [Oracle]) -> Subject {
    Subject { known_bad, ..shared::<ByNumber, M>(name) }
}

fn place_shared<W: Waiting, M: Meaning>(line: *mut u8) -> &'static dyn LockVerbs {
    place(line, Sharing::<W, M>(Refresh::zeroed(), std::marker::PhantomData))
}

/// Which call answers which request.
trait Meaning: Send + Sync + 'static {
    fn meant(verb: Verb) -> Verb {
        verb
    }
}

struct Right;
impl Meaning for Right {}

/// Accepts a refresh that is under way as fresh.
struct Stale;
impl Meaning for Stale {
    fn meant(verb: Verb) -> Verb {
        if verb == Verb::Fresh { Verb::Join } else { verb }
    }
}

/// Waits for the refresh under way even if only the last value was asked for.
struct Waits;
impl Meaning for Waits {
    fn meant(verb: Verb) -> Verb {
        if verb == Verb::Last { Verb::Join } else { verb }
    }
}

#[repr(transparent)]
struct Sharing<W: Waiting, M: Meaning>(Refresh<u128, Inject<W>>, std::marker::PhantomData<M>);

/// A one in each word.
const ONES: u128 = 0x1_0000_0001_0000_0001_0000_0001;

impl<W: Waiting, M: Meaning> LockVerbs for Sharing<W, M> {
    fn ask(&self, verb: Verb, compute: &dyn Fn() -> u32) -> Option<u32> {
        let compute = || u128::from(compute()) * ONES;
        let value = match M::meant(verb) {
            Verb::Fresh => self.0.fresh(compute),
            Verb::Last => self.0.last(),
            _ => self.0.join(compute),
        };
        let number = value as u32;
        (value == u128::from(number) * ONES).then_some(number)
    }
}
