//! A host as a file: its topology, and the cost of everything on it, each figure with its source.
//!
//! The table of costs is in the [module documentation](super).

use overlock_bench::Document;
use serde::{Deserialize, Serialize};

use super::Error;
use super::topology::{PCPUS_MAX, Topology};

/// Where the figures of a profile come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// `overlock doctor --calibrate` measured them.
    Measured,
    /// They are quoted or derived from published figures, or assumed; each says which.
    Literature,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    pub ns: u64,
    /// Who measured it and where, or why it was assumed.
    pub source: String,
}

/// Defines the table of costs: its type, and a version with numbers only.
macro_rules! costs {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The cost of everything, with sources.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct Costs { $($(#[$doc])* pub $name: Figure,)* }

        /// The same costs in nanoseconds.
        #[derive(Clone, Copy, Debug, Default)]
        pub(crate) struct Ns { $(pub(crate) $name: u64,)* }

        impl Costs {
            pub(crate) fn ns(&self) -> Ns {
                Ns { $($name: self.$name.ns,)* }
            }

            pub fn each(&self) -> impl Iterator<Item = (&'static str, &Figure)> {
                [$((stringify!($name), &self.$name),)*].into_iter()
            }
        }
    };
}

costs! {
    /// A load from the CPU's own cache, and the instructions around any access.
    hit,
    /// A locked read-modify-write of a line that the CPU owns.
    rmw,
    /// A line from the other thread of the same core.
    smt,
    /// A line from another core of the same cluster (a shared last-level cache).
    cluster,
    /// A line from another cluster of the same socket.
    socket,
    /// A line from another socket.
    remote,
    /// A line that is in no cache.
    memory,
    /// How long one more reader of a shared line delays the next.
    share,
    /// One pause in a spin loop.
    pause,
    /// A reading of the clock.
    clock,
    /// The bookkeeping of a workload after each critical section.
    notes,
    /// Acquire ordering, beyond what the access costs.
    acquire,
    /// Release ordering, beyond what the access costs.
    release,
    /// A sequentially consistent access, or a full fence, beyond what the access costs.
    full,
    /// A call to the host and back.
    call,
    /// What a kick costs beyond a call if its target sleeps: the host wakes a thread of another
    /// pCPU.
    kick,
    /// From the call that halts until the pCPU is free for others: the way out of the guest.
    halt,
    /// From the middle of the call that kicks, or its equivalent, until the vCPU runs on a pCPU
    /// that was idle.
    wake,
    /// From the moment a pCPU is free until another vCPU runs on it, its way into the guest
    /// included.
    switch,
    /// From the decision to preempt until the vCPU is out.
    evict,
    /// From the sending of an interrupt until a running vCPU's handler starts.
    interrupt,
    /// From the access to a device's port to its emulation and back.
    port,
    /// The PM timer's emulation itself: reading the clock, scaling, storing.
    device,
}

/// Other load on the host, which takes pCPUs from vCPUs that own them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// Nanoseconds between two times at which it takes a pCPU, on average.
    pub every_ns: u64,
    /// Nanoseconds for which it keeps the pCPU, on average.
    pub for_ns: u64,
    pub source: String,
}

/// A host: the cost of everything there, and the source of each figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostProfile {
    /// The name: that of the file.
    #[serde(default)]
    pub name: String,
    pub about: String,
    /// Where the host's figures come from.
    pub kind: Kind,
    /// Sockets, clusters, cores and threads.
    pub topology: Topology,
    /// By how many percent spans of work and transfers of lines vary, in either direction.
    #[serde(default)]
    pub jitter_percent: u64,
    #[serde(default)]
    pub background: Option<Background>,
    pub costs: Costs,
}

/// The profiles that come with this crate.
const BUILT_IN: [(&str, &str); 9] = [
    ("dev-kvm", include_str!("../../hosts/dev-kvm.toml")),
    ("dev-threads", include_str!("../../hosts/dev-threads.toml")),
    ("x5570", include_str!("../../hosts/x5570.toml")),
    ("x7560", include_str!("../../hosts/x7560.toml")),
    ("power8", include_str!("../../hosts/power8.toml")),
    ("e5-2699v3", include_str!("../../hosts/e5-2699v3.toml")),
    ("e5-2620v4", include_str!("../../hosts/e5-2620v4.toml")),
    ("opteron-48", include_str!("../../hosts/opteron-48.toml")),
    ("four-sockets", include_str!("../../hosts/four-sockets.toml")),
];

/// The longest that any cost can be: ten seconds.
const COST_MAX_NS: u64 = 10_000_000_000;

impl HostProfile {
    /// The names of the profiles that come with this crate.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|&(name, _)| name)
    }

    /// The profile with this name that comes with this crate.
    ///
    /// # Errors
    /// If there is no such profile.
    pub fn named(name: &str) -> Result<Self, Error> {
        let found = BUILT_IN.iter().find(|(known, _)| *known == name);
        let (_, text) = found.ok_or_else(|| {
            let known: Vec<_> = Self::names().collect();
            let known = known.join(", ");
            Error::Config(format!("no host is called {name}; there are {known}"))
        })?;
        Self::parse(name, text)
    }

    /// Parses the profile in `text`, the contents of the file called `file`.
    ///
    /// # Errors
    /// What is wrong with the text, with its line and what was expected.
    pub fn parse(file: &str, text: &str) -> Result<Self, Error> {
        let document = Document::new(file, text);
        let mut profile: Self = document.read()?;
        document.name().clone_into(&mut profile.name);
        match profile.mistake() {
            Some((key, what)) => Err(document.refuse(&[&key], what).into()),
            None => Ok(profile),
        }
    }

    /// Why nothing can be simulated on this host, and which of its keys is to blame.
    fn mistake(&self) -> Option<(String, String)> {
        let Topology { sockets, clusters, cores, threads } = self.topology;
        let pcpus = [sockets, clusters, cores, threads]
            .into_iter()
            .try_fold(1_u32, |product, n| product.checked_mul(n))
            .filter(|pcpus| (1..=PCPUS_MAX).contains(pcpus));
        let told = |key: &str, what: String| Some((key.to_owned(), what));
        if pcpus.is_none() {
            let what = format!(
                "{sockets} sockets of {clusters} clusters of {cores} cores of {threads} threads \
                 are no host that can be simulated; choose 1 to {PCPUS_MAX} pCPUs in all"
            );
            return told("topology", what);
        }
        if self.jitter_percent > 50 {
            let what = format!("jitter_percent is {}; choose 0 to 50", self.jitter_percent);
            return told("jitter_percent", what);
        }
        if let Some((cost, figure)) = self.costs.each().find(|(_, f)| f.ns > COST_MAX_NS) {
            let (ns, key) = (figure.ns, format!("costs.{cost}"));
            return told(&key, format!("{key} is {ns} ns; choose at most {COST_MAX_NS} (10 s)"));
        }
        let background = self.background.as_ref();
        if background.is_some_and(|b| b.every_ns == 0 || b.for_ns >= b.every_ns) {
            let what = "background.for_ns must be below background.every_ns".into();
            return told("background.for_ns", what);
        }
        None
    }

    /// About how long a halt, a kick and a wake-up take together, in nanoseconds: what the
    /// laboratory measures as the duration of a hand-over.
    pub fn wake_ns(&self) -> u64 {
        let Ns { call, wake, .. } = self.costs.ns();
        (call / 2 + wake).max(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_profiles_parse_and_every_figure_has_a_source() {
        for name in HostProfile::names() {
            let host = HostProfile::named(name).unwrap();
            assert_eq!(host.name, name);
            for (cost, figure) in host.costs.each() {
                assert!(figure.source.len() >= 5, "{name}: {cost} has no source");
            }
            let literature = host.costs.each().filter(|(_, f)| f.source.contains("literature"));
            let marked = literature.count() > 0;
            assert_eq!(marked, host.kind == Kind::Literature, "{name}");
        }
    }

    #[test]
    fn mistakes_are_refused_with_line_and_expectation() {
        let good = include_str!("../../hosts/dev-kvm.toml");
        let pause = good.lines().find(|line| line.starts_with("pause = ")).unwrap();
        let background = "[background]\nevery_ns = 5\nfor_ns = 5\nsource = ''\n[costs]";
        let number = "expected a whole number, 0";
        for (from, to, at, expected) in [
            ("sockets = 1", "sockets = -1", "sockets = -1", number),
            ("sockets = 1", "sockets = 0", "[topology]", "choose 1 to 512 pCPUs"),
            (
                "sockets = 1",
                "sockets = 1\ncolour = 1",
                "colour",
                "unknown field `colour`, expected",
            ),
            ("sockets = 1", "sockets = 4000000000", "[topology]", "choose 1 to 512 pCPUs"),
            ("[costs]", "[costs]\nmagic = { ns = 1, source = 'none' }", "magic", "field `magic`"),
            ("[costs]", background, "for_ns", "for_ns must be below background.every_ns"),
            ("jitter_percent = 5", "jitter_percent = 51", "jitter", "is 51; choose 0 to 50"),
            (pause, "pause = { ns = -5, source = 's' }", "pause =", number),
            (pause, "pause = { ns = 99000000000, source = 's' }", "pause =", "choose at most"),
        ] {
            assert!(good.contains(from), "{from}");
            let bad = good.replacen(from, to, 1);
            let line = 1 + bad.lines().position(|line| line.starts_with(at)).unwrap();
            let error = HostProfile::parse("my/mine.toml", &bad).unwrap_err().to_string();
            assert!(error.starts_with(&format!("my/mine.toml:{line}: ")), "{line}: {error}");
            assert!(error.contains(expected), "{error}");
        }
    }
}
