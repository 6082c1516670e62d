// SPDX-License-Identifier: MIT OR Apache-2.0
//! The reason codes of a run, typed until they are printed.

use std::collections::BTreeMap;

use crate::host::sched::yield_to::Tally;
use serde::{Serialize, Serializer};

/// How often each reason was given by the yield policy of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Yields(pub Tally);

impl overlock_bench::Yields for Yields {
    fn codes(&self) -> BTreeMap<String, u64> {
        let Self(tally) = self;
        tally.reasons().map(|(kind, why, count)| (format!("{kind}:{why}"), count)).collect()
    }

    fn hits(&self) -> u64 {
        self.0.hits()
    }
}

impl Serialize for Yields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        overlock_bench::Yields::codes(self).serialize(serializer)
    }
}
