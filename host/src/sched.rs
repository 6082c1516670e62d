//! `run`: loads the scheduler for the threads of some processes, tells what it did, and unloads it.

mod abi;
pub(crate) mod compare;
mod loaded;
mod oracle;
mod threads;

use crate::words::Words;
use abi::{Counts, POLICIES, Tally};
use anyhow::{Context, Result, bail, ensure};
use loaded::Loaded;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use threads::Source;

const USAGE: &str = "overlock host run --policy NAME (--cgroup FOLDER | --pids ID,ID...) \
    [--seconds N] [--page PATH] [--check] [--json] [--slice-us N] [--grace-us N]\n\
    The threads of these processes get the policy; all others stay with the kernel's own class.\n\
    Policies: none, yield, skip-spinners, spin-count, load-gate, ipi-first, pv-hint, linux,\n\
    linux-ipi.\n\
    --page puts the page of docs/host.md at PATH, in a BPF file system; --grace-us\n\
    is by how much a holder's slice is extended, once; --check compares every decision with the\n\
    library's. Ctrl-C takes the scheduler away.";

/// A slice, if nothing else is asked for: one tick of a kernel with 250 a second.
const SLICE_US: u64 = 4000;

/// By how much a holder's slice is extended: less than a tick, so the next one ends it.
const GRACE_US: u64 = 1000;

/// Where the kernel says whether a scheduler is loaded.
const STATE: &str = "/sys/kernel/sched_ext/state";
const NAME: &str = "/sys/kernel/sched_ext/root/ops";
const BTF: &str = "/sys/kernel/btf/vmlinux";

#[derive(Debug)]
pub(crate) struct Options {
    policy: u32,
    source: Source,
    seconds: Option<u64>,
    page: Option<PathBuf>,
    check: bool,
    json: bool,
    slice_us: u64,
    grace_us: u64,
    /// To test the kernel's watchdog: threads wait for ever.
    stalls: bool,
    /// How many threads there were at the start.
    threads: u32,
}

impl Options {
    fn parse(words: &[String]) -> Result<Option<Self>> {
        let (mut policy, mut source) = (None, None);
        let (mut seconds, mut page) = (None, None);
        let (mut slice_us, mut grace_us) = (SLICE_US, GRACE_US);
        let (mut check, mut json, mut stalls) = (false, false, false);
        let mut words = Words::new(words, USAGE);
        while let Some(word) = words.next() {
            match word {
                "--policy" => policy = Some(abi::number(&words.value::<String>(word)?)?),
                "--cgroup" => source = Some(Source::Cgroup(words.value(word)?)),
                "--pids" => source = Some(Source::Processes(words.numbers(word)?)),
                "--seconds" => seconds = Some(words.value(word)?),
                "--page" => page = Some(words.value(word)?),
                "--slice-us" => slice_us = words.value(word)?,
                "--grace-us" => grace_us = words.value(word)?,
                "--check" => check = true,
                "--json" => json = true,
                "--stall-for-a-test" => stalls = true,
                "--help" | "-h" => return Ok(None),
                _ => return words.unknown(word),
            }
        }
        let policy = policy.with_context(|| format!("run wants --policy\n{USAGE}"))?;
        let source = source.with_context(|| format!("run wants --cgroup or --pids\n{USAGE}"))?;
        ensure!((100..=100_000).contains(&slice_us), "a slice has 100 to 100000 microseconds");
        ensure!(grace_us <= 50_000, "an extension has 0 to 50000 microseconds");
        Ok(Some(Self {
            policy,
            source,
            seconds,
            page,
            check,
            json,
            slice_us,
            grace_us,
            stalls,
            threads: 0,
        }))
    }
}

/// Says why nothing can be loaded here, if that is so.
fn look(root: bool) -> Result<()> {
    ensure!(
        Path::new(BTF).exists(),
        "the kernel has no BTF ({BTF}): nothing can be loaded into it"
    );
    ensure!(
        Path::new(STATE).exists(),
        "the kernel has no sched_ext ({STATE}): it takes Linux 6.12 or later with \
         CONFIG_SCHED_CLASS_EXT"
    );
    let state = std::fs::read_to_string(STATE).unwrap_or_default();
    if state.trim() != "disabled" {
        let name = std::fs::read_to_string(NAME).unwrap_or_else(|_| "unknown".into());
        bail!("another scheduler is loaded: {} ({})", name.trim(), state.trim());
    }
    ensure!(root, "loading a scheduler needs root");
    Ok(())
}

/// Why a run ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Asked,
    Gone(String),
    ThrownOut(String),
}

/// Does what the words after `run` say.
pub(crate) fn main(words: &[String]) -> Result<ExitCode> {
    let Some(mut options) = Options::parse(words)? else {
        super::say(&format!("{USAGE}\n"))?;
        return Ok(ExitCode::SUCCESS);
    };
    look(threads::is_root())?;
    let found = options.source.threads()?;
    ensure!(!found.is_empty(), "{} has no threads", options.source);
    threads::stop_at_signals();
    options.threads = found.len() as u32;
    let mut loaded = Loaded::new(&options)?;
    loaded.attach()?;
    let ended = watch(&options, &mut loaded);
    // Whatever happened, the threads go back first: then none of them sees the scheduler go.
    options.source.threads().iter().for_each(|found| threads::take(found));
    threads::give_back();
    loaded.detach();
    let ended = ended?;
    let (tally, counts) = loaded.counted()?;
    let checked = options.check.then(|| loaded.check(&options, &tally, counts));
    super::say(&if options.json {
        as_json(&options, &ended, &tally, counts, checked.as_ref())
    } else {
        as_text(&options, &ended, &tally, counts, checked.as_ref())
    })?;
    let is_bad = matches!(ended, Ended::ThrownOut(_)) || matches!(checked, Some(Err(_)));
    Ok(ExitCode::from(u8::from(is_bad)))
}

/// Gives the scheduler all threads of the source, also new ones, until something ends that.
fn watch(options: &Options, loaded: &mut Loaded) -> Result<Ended> {
    let begun = Instant::now();
    super::note(&format!("{} has the policy {}", options.source, policy_name(options)));
    loop {
        match options.source.threads() {
            // A cgroup without threads may get some again.
            Ok(found) => threads::take(&found),
            Err(error) => return Ok(Ended::Gone(error.to_string())),
        }
        loaded.poll(Duration::from_millis(100))?;
        if let Some(why) = loaded.exited()? {
            return Ok(Ended::ThrownOut(why));
        }
        let over = |seconds| begun.elapsed() >= Duration::from_secs(seconds);
        if threads::STOP.load(Relaxed) || options.seconds.is_some_and(over) {
            return Ok(Ended::Asked);
        }
    }
}

fn policy_name(options: &Options) -> &'static str {
    POLICIES[options.policy as usize]
}

type Checked = std::result::Result<u64, String>;

fn as_text(
    options: &Options,
    ended: &Ended,
    tally: &Tally,
    counts: Counts,
    checked: Option<&Checked>,
) -> String {
    let mut said = match ended {
        Ended::Asked => "The scheduler is unloaded.\n".to_owned(),
        Ended::Gone(why) => format!("The scheduler is unloaded: {why}.\n"),
        Ended::ThrownOut(why) => format!("The kernel threw the scheduler out: {why}.\n"),
    };
    for (kind, why, count) in tally.reasons() {
        said += &format!("  {kind:<8} {why:<18} {count:>10}\n");
    }
    said += &format!("  chosen threads: {} ran at once, {} had gone\n", counts.moved, counts.gone);
    if options.page.is_some() {
        said += &format!(
            "  slices extended for holders: {}, of which {} gave the processor back by a yield; holders \
             that lost their processor: {} at the end of a slice, {} to other classes\n",
            counts.extended, counts.returned, counts.held, counts.deposed
        );
    }
    match checked {
        None => {}
        Some(Ok(events)) => {
            said += &format!("  oracle: the same answers and counts, {events} events\n");
        }
        Some(Err(why)) => said += &format!("  oracle: {why}\n"),
    }
    said
}

fn as_json(
    options: &Options,
    ended: &Ended,
    tally: &Tally,
    counts: Counts,
    checked: Option<&Checked>,
) -> String {
    let (how, why) = match ended {
        Ended::Asked => ("asked", ""),
        Ended::Gone(why) => ("gone", why.as_str()),
        Ended::ThrownOut(why) => ("thrown-out", why.as_str()),
    };
    let mut reasons = serde_json::Map::new();
    for (kind, why, count) in tally.reasons() {
        reasons.insert(format!("{kind} {why}"), count.into());
    }
    let line = json!({
        "kind": "host", "policy": policy_name(options), "page": options.page.is_some(),
        "ended": how, "why": why, "reasons": reasons, "moved": counts.moved, "gone": counts.gone,
        "extended": counts.extended, "held": counts.held, "deposed": counts.deposed,
        "returned": counts.returned,
        "events": counts.events, "lost": counts.lost,
        "oracle": checked.map(|of| of.as_ref().map_or_else(Clone::clone, |_| "same".into())),
    });
    format!("{line}\n")
}
