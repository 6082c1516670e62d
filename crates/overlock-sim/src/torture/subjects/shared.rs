//! `Refresh` as a subject: not a lock, but a value that CPUs ask for, with a number for each
//! refresh.

use overlock::Refresh;

use crate::Property;
use crate::torture::conditions::Verb;
use crate::torture::kind::{Kind, Layout, LockVerbs, Promise, Role, Survives};
use crate::torture::platform::{ByAddress, ByNumber, Inject, SpinOnly, SwitchedOff, Waiting};
use crate::torture::subject::{Subject, UNFAIR, bare, place};

/// A CPU that waits for a refresh waits for the refresher's CPU.
const SHARED: Promise = Promise { layout: Layout::Opaque, survives: Survives::Nobody, ..UNFAIR };

pub(super) static SUBJECTS: &[Subject] = &[
    shared::<ByNumber, RIGHT>("refresh"),
    shared::<ByAddress, RIGHT>("refresh-by-address"),
    shared::<SwitchedOff, RIGHT>("off-refresh"),
    shared::<SpinOnly, RIGHT>("native-refresh"),
];

pub(super) static BROKEN: &[Subject] = &[
    known_bad::<STALE>("broken-stale-refresh", &[Property::Freshness]),
    known_bad::<WAITS>("broken-last-refresh", &[Property::Progress]),
];

const fn shared<W: Waiting, const FAULT: u8>(name: &'static str) -> Subject {
    bare::<W>(name, kind::<W, FAULT>())
}

const fn kind<W: Waiting, const FAULT: u8>() -> Kind {
    Kind {
        timed: false,
        role: Role::Value,
        promise: SHARED,
        place: |line| place(line, Sharing::<W, FAULT>(Refresh::zeroed())),
    }
}

/// `Refresh` as one of several kinds.
pub(super) const fn right<W: Waiting>() -> Kind {
    kind::<W, RIGHT>()
}

const fn known_bad<const FAULT: u8>(name: &'static str, known_bad: &'static [Property]) -> Subject {
    Subject { known_bad, ..shared::<ByNumber, FAULT>(name) }
}

const RIGHT: u8 = 0;
/// Accepts a refresh that is under way as fresh.
const STALE: u8 = 1;
/// Waits for the refresh under way even if only the last value was asked for.
const WAITS: u8 = 2;

#[repr(transparent)]
struct Sharing<W: Waiting, const FAULT: u8>(Refresh<u128, Inject<W>>);

/// A one in each word.
const ONES: u128 = 0x1_0000_0001_0000_0001_0000_0001;

impl<W: Waiting, const FAULT: u8> LockVerbs for Sharing<W, FAULT> {
    fn ask(&self, verb: Verb, compute: &dyn Fn() -> u32) -> Option<u32> {
        let compute = || u128::from(compute()) * ONES;
        let value = match verb {
            Verb::Fresh if FAULT != STALE => self.0.fresh(compute),
            Verb::Last if FAULT != WAITS => self.0.last(),
            _ => self.0.join(compute),
        };
        let number = value as u32;
        (value == u128::from(number) * ONES).then_some(number)
    }
}
