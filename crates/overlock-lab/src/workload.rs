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

mod histogram;
mod locks;
mod mix;
mod profile;
mod record;
mod tally;

pub use self::histogram::Histogram;
use self::locks::{Counted, with_lock};
pub use self::locks::{LOCKS, Locks, UseLock};
use self::mix::Mix;
pub use self::profile::Profile;
pub use self::record::{PerCpu, Record, WaitNs};
use crate::Error;
use crate::engine::{Config, Engine};

/// Runs `profile` under the lock called `lock` on engine `E`.
///
/// # Errors
/// Those of [`Engine::run`], and [`Error::Config`] if there is no such lock.
pub fn run<E: Engine>(config: &Config, profile: &Profile, lock: &str) -> Result<Record, Error> {
    struct Run<'a, 'b, E>(&'a Config<'b>, &'a Profile, &'a str, std::marker::PhantomData<E>);

    impl<E: Engine> UseLock for Run<'_, '_, E> {
        type Output = Result<Record, Error>;

        fn with<L: overlock::ConstLock + 'static>(self) -> Self::Output {
            let Self(config, profile, lock, _) = self;
            profile.check()?;
            let mix = Mix::<L>::new(profile, config.vcpus);
            let before = Counted::now();
            let outcome = E::run(config, &mix)?;
            let counters = Counted::now().since(&before);
            Ok(Record::new::<E>(config, profile, lock, &outcome, mix.tallies(), counters))
        }
    }

    with_lock::<E::World, _>(lock, Run::<E>(config, profile, lock, std::marker::PhantomData))
        .unwrap_or_else(|| {
            let known = LOCKS.join(", ");
            Err(Error::Config(format!("no lock is called {lock}; there are {known}")))
        })
}
