//! What the vCPUs do: one loop, whose lengths and habits are data.
//!
//! ```text
//!  think ─► (lock one of several ─► section ─► [shootdown] ─► unlock) × sections
//!    ▲                                                               │
//!    └── [sleep] ◄── [read the PM timer] ◄───────────────────────────┘
//! ```
//!
//! A [`Profile`] gives the lengths and frequencies. Those in `profiles/` are modelled on known
//! loads; each names the source of its numbers, and which of them were simply chosen.

mod mix;
mod place;
mod profile;
mod ring;
mod shelf;
pub(crate) mod tally;

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use overlock::ConstLock;

use self::mix::Mix;
pub use self::profile::Profile;
use self::ring::Ring;
use crate::timeline::Window;
use crate::vcpus::engine::{Engine, RunConfig};
use crate::vcpus::locks::{Counted, MoreLocks, NoMore, PUBLISHED_CPUS, UseLock, with_lock};
use crate::vcpus::outcome::{Seen, run_of};
use overlock_results::locks::{HAND_OVER, LOCKS, PUBLISHED, in_order};
use overlock_results::{Error, Run};

/// Held while a run counts the events of its locks.
static COUNTING: Mutex<()> = Mutex::new(());

/// The bounds on what a halt, a kick and a wake-up can take together, in nanoseconds: a shorter
/// time is not a halt, and a longer one includes another vCPU's slice.
const WAKE_NS: (u64, u64) = (1_000, 250_000);

/// The yield policy that acts on what locks publish.
const PV_HINT: &str = "pv-hint";

/// Runs `profile` under the lock called `lock`, or [`HAND_OVER`], on `engine`.
///
/// Before an engine's first run in a process, a run of 20 ms measures what a halt, a kick and a
/// wake-up take there, unless `config` or the engine specifies it.
pub fn run<E: Engine>(
    engine: &E,
    config: &RunConfig,
    profile: &Profile,
    lock: &str,
) -> Result<Run, E::Error> {
    run_with::<E, NoMore>(engine, config, profile, lock)
}

pub fn run_with<E: Engine, M: MoreLocks>(
    engine: &E,
    config: &RunConfig,
    profile: &Profile,
    lock: &str,
) -> Result<Run, E::Error> {
    profile.check()?;
    config.check()?;
    if lock == HAND_OVER {
        return hand_over(engine, config, profile);
    }
    let known = [&LOCKS[..], &PUBLISHED].concat();
    if !known.contains(&lock) {
        let known = known.join(", ");
        return Err(Error(format!("no lock is called {lock}; there are {known}")).into());
    }
    if PUBLISHED.contains(&lock) && config.vcpus > PUBLISHED_CPUS {
        let vcpus = config.vcpus;
        let why = format!("{lock} serves at most {PUBLISHED_CPUS} vCPUs, not {vcpus}");
        return Err(Error(why).into());
    }
    let wake_ns = match config.wake_ns {
        Some(wake_ns) => wake_ns,
        None => wake_ns(engine, config)?,
    };
    let publishes = config.publishes || config.policy == PV_HINT;
    let config = RunConfig { wake_ns: Some(wake_ns), publishes, ..*config };
    let user = Locked { engine, config: &config, profile, lock };
    let ran = if PUBLISHED.contains(&lock) {
        M::with::<E::Verbs, _>(lock, user)
    } else {
        with_lock::<E::Verbs, _>(lock, user)
    };
    ran.unwrap_or_else(|| Err(Error(format!("{lock} is in the program overlock-papers")).into()))
}

struct Locked<'a, E> {
    engine: &'a E,
    config: &'a RunConfig<'a>,
    profile: &'a Profile,
    lock: &'a str,
}

impl<E: Engine> UseLock for Locked<'_, E> {
    type Output = Result<Run, E::Error>;

    fn with<L: ConstLock + 'static>(self) -> Self::Output {
        let Self { engine, config, profile, lock } = self;
        let ordered = in_order(lock);
        let mix = Mix::<E::Verbs, L>::new(profile, config, ordered);
        let mix = mix.noting(Window::of(config), config.vcpus);
        // The counters belong to the process, so no other run may count between the two readings.
        let counting = COUNTING.lock().unwrap_or_else(PoisonError::into_inner);
        let before = Counted::now();
        let outcome = engine.run(config, &mix)?;
        let counters = Counted::now().since(&before);
        drop(counting);
        let seen = Seen { tallies: &mix.tallies, locks: mix.losses(), counters, logs: &mix.logs };
        Ok(run_of(config, outcome, seen))
    }
}

fn hand_over<E: Engine>(
    engine: &E,
    config: &RunConfig,
    profile: &Profile,
) -> Result<Run, E::Error> {
    let ring = Ring::<E::Verbs>::new(profile, config.vcpus);
    let outcome = engine.run(config, &ring)?;
    let seen = Seen { tallies: &ring.tallies, locks: Vec::new(), counters: Vec::new(), logs: &[] };
    Ok(run_of(config, outcome, seen))
}

/// About how long a halt, a kick and a wake-up take together where pCPUs are idle, in nanoseconds:
/// the time per hand-over in a series of them, measured once for each engine and number of pCPUs,
/// at most two.
fn wake_ns<E: Engine>(engine: &E, config: &RunConfig) -> Result<u64, E::Error> {
    /// What a time was measured for: the engine, pCPUs, and how slow wake-ups are made.
    type Of = (&'static str, u32, Duration);
    static MEASURED: Mutex<Option<HashMap<Of, u64>>> = Mutex::new(None);
    if let Some(known) = engine.wake_ns() {
        return Ok(known);
    }
    // With more, the other pCPUs take no part.
    let pcpus = config.pcpus.min(2);
    let mut measured = MEASURED.lock().unwrap_or_else(PoisonError::into_inner);
    let measured = measured.get_or_insert_default();
    if let Some(&known) = measured.get(&(E::NAME, pcpus, config.slow_wake)) {
        return Ok(known);
    }
    let turns = RunConfig {
        duration: Duration::from_millis(20),
        cancel: config.cancel,
        slow_wake: config.slow_wake,
        ..RunConfig::new(2 * pcpus, pcpus)
    };
    let record = hand_over(engine, &turns, &Profile::named("micro")?)?;
    // Between two turns of one vCPU come the turns of the others. The median excludes interruptions
    // of the measurement. A run that was cut short has no turn.
    let turns = u64::from(turns.vcpus - 1).max(1);
    let wake_ns = (record.wait_ns.p50 / turns).clamp(WAKE_NS.0, WAKE_NS.1);
    measured.insert((E::NAME, pcpus, config.slow_wake), wake_ns);
    Ok(wake_ns)
}
