//! What a configuration means to the engine, and which it refuses.

use std::time::Duration;

use crate::host::{Nanos, sched};
use overlock_bench::RunConfig;

use crate::lab::Error;

/// The shortest slice, and the shortest time between two samples: about three times what an exit
/// and an entry of a vCPU take on the machine where it was found (16 to 18 µs, KVM itself nested).
/// Where they take longer, vCPUs keep their processors until they have run (H5 in `host.rs`).
const SHORTEST: Duration = Duration::from_micros(50);

pub(crate) fn scheduler(config: &RunConfig) -> sched::Config {
    sched::Config {
        slice: nanos(config.slice),
        grace: nanos(config.critical),
        ..sched::Config::new(config.vcpus, config.pcpus)
    }
}

/// Refuses configurations that make no sense here.
pub(crate) fn check(config: &RunConfig) -> Result<(), Error> {
    config.check()?;
    if config.slice < SHORTEST {
        let slice = config.slice;
        return Err(Error::Config(format!("a slice of {slice:?} is shorter than its switch")));
    }
    if let Some(every) = config.sample_every.filter(|&every| every < SHORTEST) {
        return Err(Error::Config(format!("samples every {every:?} leave no time to run")));
    }
    Ok(())
}

/// Converts the span to the host's unit, up to its maximum: so `Duration::MAX` is for ever.
pub(crate) fn nanos(span: Duration) -> Nanos {
    Nanos(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
}
