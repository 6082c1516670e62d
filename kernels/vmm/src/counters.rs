//! What KVM counts for a machine, by its files below debugfs.

use std::fs;
use std::path::PathBuf;

/// The counts that tell how locks wait.
const NAMES: [&str; 6] =
    ["hypercalls", "halt_exits", "halt_wakeup", "halt_attempted_poll", "exits", "irq_injections"];

/// Where the counts of this process's machine are.
#[derive(Debug)]
pub(crate) struct Counters {
    folder: Option<PathBuf>,
    before: [u64; NAMES.len()],
}

impl Counters {
    /// Those of the machine that this process has just made. None, without debugfs.
    pub(crate) fn find() -> Self {
        let own = format!("{}-", std::process::id());
        let folders = fs::read_dir("/sys/kernel/debug/kvm").into_iter().flatten().flatten();
        let folder = folders
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|it| it.to_string_lossy().starts_with(&own)));
        Self { folder, before: [0; NAMES.len()] }
    }

    /// What was counted since the last call, as the kernel's records are written.
    pub(crate) fn since(&mut self) -> Option<String> {
        let folder = self.folder.as_ref()?;
        let now: [u64; NAMES.len()] = NAMES.map(|name| {
            let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        });
        let counts = NAMES
            .iter()
            .zip(now.iter().zip(self.before))
            .map(|(name, (now, then))| format!("\"{name}\":{}", now.saturating_sub(then)));
        let all = counts.collect::<Vec<_>>().join(",");
        self.before = now;
        Some(format!("{{\"kind\":\"host\",\"counters\":{{{all}}}}}"))
    }
}
