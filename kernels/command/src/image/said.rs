//! What the kernel says: one JSON record per line.

use overlock_bench::SelfCheck;
use overlock_results::WaitNs as Waits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Said {
    Started {
        cpus: u32,
    },
    /// Whether locks wait, and why not if not.
    Mode {
        locks: String,
        why: String,
    },
    Sample(Sample),
    /// What the host has counted during that run.
    Host {
        counters: BTreeMap<String, u64>,
    },
    Begin {
        what: String,
    },
    /// A long run is under way; the number of acquisitions so far.
    Alive {
        ops: u64,
    },
    Check(SelfCheck),
    /// One CPU's waits by outcome.
    Cpu {},
    Panic {
        why: String,
    },
    /// It has done everything it was asked for.
    End {
        fine: bool,
    },
    /// A record that can't be read: something came in between.
    #[serde(skip)]
    Garbled(String),
}

/// What every record begins with.
const RECORD: &str = "{\"kind\":";

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Sample {
    pub(super) lock: String,
    pub(super) cpus: u32,
    pub(super) round: u64,
    /// How long it lasted.
    pub(super) ns: u64,
    /// What each CPU did.
    pub(super) ops: Vec<u64>,
    pub(super) wait_ns: Waits,
    /// Updates under the lock that were lost: must be 0.
    pub(super) lost: u64,
    /// Nanoseconds that vCPUs were ready without a processor, all together.
    pub(super) stolen_ns: u64,
    /// Events in the lock, and in the platform.
    pub(super) counters: BTreeMap<String, u64>,
}

impl Said {
    /// What a line says, if it is one of the kernel's.
    pub(super) fn parse(line: &str) -> Option<Self> {
        let record = line[line.find(RECORD)?..].trim();
        Some(serde_json::from_str(record).unwrap_or_else(|_| Self::Garbled(record.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_others_are_no_records() {
        assert!(Said::parse("(XEN) Brought up 2 CPUs").is_none());
        assert!(Said::parse("{broken").is_none());
        let half = Said::parse("{\"kind\":\"sample\",\"lo[    9.1] rcu: INFO");
        assert!(matches!(half, Some(Said::Garbled(_))), "{half:?}");
        assert!(matches!(
            Said::parse("\u{1b}[2J{\"kind\":\"end\",\"fine\":true}\r"),
            Some(Said::End { fine: true })
        ));
    }

    #[test]
    fn a_sample_is_read_whole() {
        let line = r#"{"kind":"sample","world":"xen","workload":"micro","lock":"hybrid","cpus":2,
            "round":0,"cs_ns":0,"ncs_ns":0,"ns":2000000000,"ops":[3,5],
            "wait_ns":{"p50":1,"p99":2,"p999":3,"max":4},"lost":0,"stolen_ns":9,
            "counters":{"kicks":7}}"#;
        let Some(Said::Sample(sample)) = Said::parse(line) else { panic!("no sample") };
        assert_eq!((&sample.ops[..], sample.counters["kicks"]), (&[3, 5][..], 7));
    }
}
