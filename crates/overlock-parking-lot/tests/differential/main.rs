//! Do random programs of calls return and block here as with `parking_lot`?
//!
//! Threads are stepped: each makes a call when told. The specification in `model.rs` says what may
//! return, and what may block. It accepts parking_lot, and after most steps it allows one outcome
//! only; after the others, one of several waiters wins, or a deadline passes or does not. So what
//! it accepts of ours is what parking_lot might do.
//!
//! `OVERLOCK_SEED=N` runs one seed again, and `OVERLOCK_PROGRAMS=N` so many.

mod calls;
mod driver;
mod family;
mod machine;
mod model;
mod program;
mod twins;

use std::any::type_name;
use std::{env, panic, thread};

use driver::{STEPPED, Threads};
use family::{Family, Locks};
use machine::Machine;
use model::Kind::{Fair, Mutex, Reentrant, Rw};
use program::{Cast, THREADS, run, shrink};

family!(Ours, overlock_parking_lot);
family!(Theirs, parking_lot);

const STEPS: usize = 40;
const GIVES: bool = cfg!(feature = "send_guard");
const RW: Cast = Cast {
    name: "rwlock",
    kinds: &[Rw, Rw],
    has_once: false,
    has_condvar: false,
    has_barrier: false,
    is_posix: false,
    gives: GIVES,
};
const MUTEX: Cast = Cast { name: "mutex", kinds: &[Mutex, Mutex], has_condvar: true, ..RW };
const FAIR: Cast = Cast { name: "fair", kinds: &[Fair, Fair], ..RW };
const REENTRANT: Cast = Cast { name: "reentrant", kinds: &[Reentrant, Reentrant], ..RW };
const ONCE: Cast = Cast { name: "once", kinds: &[Mutex], has_once: true, has_condvar: true, ..RW };

/// Panics of stepped threads are results, and not reported.
fn be_quiet_about_results() {
    static QUIET: std::sync::Once = std::sync::Once::new();
    QUIET.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if thread::current().name() != Some(STEPPED) {
                report(info);
            }
        }));
    });
}

/// Runs programs until one fails, and returns the shortest like it.
fn search(cast: &Cast, programs: u64, mut new: impl FnMut() -> Box<dyn Machine>) -> Option<String> {
    be_quiet_about_results();
    let number = |name| env::var(name).ok().map(|value| value.parse::<u64>().expect("a number"));
    let programs = number("OVERLOCK_PROGRAMS").unwrap_or(programs);
    let seeds = number("OVERLOCK_SEED").map_or(0..programs, |seed| seed..seed + 1);
    let (mut determined, mut all) = (0, 0);
    for seed in seeds {
        match run(cast, &mut *new(), Err((seed, STEPS))) {
            Ok((some, steps)) => (determined, all) = (determined + some, all + steps),
            Err(failure) => {
                let short = shrink(cast, new, failure);
                return Some(format!("{}, OVERLOCK_SEED={seed}:\n{short}", cast.name));
            }
        }
    }
    // Of few programs it is a matter of chance.
    assert!(all < 400 || determined * 2 > all, "{determined} of {all} steps had one outcome");
    None
}

fn agrees<F: Family>(cast: &Cast, programs: u64) {
    let new = || Box::new(Threads::new(Locks::<F>::new(cast.kinds), THREADS + 1)) as Box<_>;
    if let Some(found) = search(cast, programs, new) {
        panic!("{} {found}", type_name::<F>());
    }
}

/// Both crates answer to one specification.
macro_rules! agree {
    ($($name:ident: $cast:ident, $programs:expr, $($family:ident),*;)*) => {$(
        #[test]
        fn $name() {
            $(agrees::<$family>(&$cast, $programs);)*
        }
    )*};
}

agree! {
    read_write_locks: RW, 150, Theirs, Ours;
    mutexes_and_conditions: MUTEX, 100, Theirs, Ours;
    fair_mutexes: FAIR, 40, Theirs, Ours;
    reentrant_mutexes: REENTRANT, 40, Theirs, Ours;
    closures_run_once: ONCE, 60, Theirs, Ours;
}
