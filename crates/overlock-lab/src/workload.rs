// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the vCPUs do: one loop, whose lengths and habits are data.
//!
//! ```text
//!  think ─► (lock one of several ─► section ─► [shootdown] ─► unlock) × sections
//!    ▲                                                               │
//!    └── [sleep] ◄── [read the PM timer] ◄───────────────────────────┘
//! ```
//!
//! A [`Profile`] says how long and how often. Those in `profiles/` are modelled on known loads;
//! each says where its numbers come from, and which of them were simply chosen.

mod hand_over;
mod histogram;
mod locks;
mod mix;
mod profile;
mod record;
mod tally;

use std::sync::{Mutex, PoisonError};

use self::hand_over::Ring;
pub use self::histogram::Histogram;
use self::locks::{Counted, in_order, with_lock};
pub use self::locks::{LOCKS, Locks, UseLock};
use self::mix::Mix;
pub use self::profile::Profile;
use self::record::Seen;
pub use self::record::{Losses, PerCpu, Record, WaitNs};
use crate::Error;
use crate::engine::{Config, Engine};

/// Held while a run counts what happens in its locks.
static COUNTING: Mutex<()> = Mutex::new(());

/// Stands in the place of a lock's name for what a lock of strict order could do at best: vCPUs
/// that hand a token round, each change of hands one section, one kick and one halt.
///
/// Nothing else of a profile is done: the work between sections would hide the limit.
pub const HAND_OVER: &str = "hand-over";

/// Runs `profile` under the lock called `lock`, or [`HAND_OVER`], on engine `E`.
///
/// # Errors
/// Those of [`Engine::run`], and [`Error::Config`] if there is no such lock, or `profile` is one
/// that no run could do.
pub fn run<E: Engine>(config: &Config, profile: &Profile, lock: &str) -> Result<Record, Error> {
    profile.check()?;
    if lock == HAND_OVER {
        let ring = Ring::new(profile, config.vcpus);
        let outcome = E::run(config, &ring)?;
        let seen = Seen { tallies: ring.tallies(), locks: Vec::new(), counters: Vec::new() };
        return Ok(Record::new::<E>(config, profile, lock, &outcome, seen));
    }
    struct Run<'a, 'b, E>(&'a Config<'b>, &'a Profile, &'a str, std::marker::PhantomData<E>);

    impl<E: Engine> UseLock for Run<'_, '_, E> {
        type Output = Result<Record, Error>;

        fn with<L: overlock::ConstLock + 'static>(self) -> Self::Output {
            let Self(config, profile, lock, _) = self;
            let mix = Mix::<L>::new(profile, config.vcpus, in_order(lock));
            // The counters are the process's, so no other run may count between the two looks.
            let counting = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
            let before = Counted::now();
            let outcome = E::run(config, &mix)?;
            let counters = Counted::now().since(&before);
            drop(counting);
            let seen = Seen { tallies: mix.tallies(), locks: mix.losses(), counters };
            Ok(Record::new::<E>(config, profile, lock, &outcome, seen))
        }
    }

    with_lock::<E::World, _>(lock, Run::<E>(config, profile, lock, std::marker::PhantomData))
        .unwrap_or_else(|| {
            let known = LOCKS.join(", ");
            Err(Error::Config(format!("no lock is called {lock}; there are {known}")))
        })
}
