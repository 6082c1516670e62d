//! `overlock run`: an unmodified program under a chosen lock.
//!
//! The program keeps the terminal, the signals and the exit code; this process only waits beside
//! it, passes on signals that are sent to it instead, and tells afterwards what was counted: to
//! standard error, because standard output is the program's, or to a file.
//!
//! A program that goes into the background is waited for as well: its counters are not final before
//! its end, and it would go on under the lock unnoticed.

use super::args::RunArgs;
use super::conclusion::Seen;
use crate::outcome::Outcome;
use crate::output::{self, ResultFile};
use crate::table::Table;
use anyhow::{Context, Result, bail};
use overlock_programs::{self as launch, Counted, Ended, LIBC, NONE, Shared, Target, Watch};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::low_level::siginfo::Cause;
use std::mem::MaybeUninit;
use std::time::Duration;

/// How often this process looks for signals.
const POLL: Duration = Duration::from_millis(100);

/// Signals that are passed on to the program when another process has sent them to this one, as
/// supervisors do. Signals of the terminal (Ctrl-C, Ctrl-\) come from the kernel and reach the
/// program directly; here they only must not kill.
const PASSED_ON: [i32; 6] =
    [libc::SIGTERM, libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

pub(crate) fn main(args: &RunArgs) -> Result<Outcome> {
    let [lock] = &args.lock[..] else {
        bail!("a program runs under one lock, but {} are named", args.lock.join(" and "));
    };
    launch::known(lock)?;
    if let [word, dashes, ..] = &args.command[..]
        && dashes == "--"
    {
        // What stands before the dashes was meant as a lock.
        launch::known(&word.to_string_lossy())?;
    }
    if let [word, _, ..] = &args.command[..]
        && !word.as_encoded_bytes().starts_with(b"-")
        && let Err(no_program) = launch::find(word)
        && let Err(no_lock) = launch::known(&word.to_string_lossy())
    {
        // The word may have been meant as a lock.
        bail!("{no_program:#}; {no_lock}");
    }
    let target = Target::new(&args.command, &[lock.to_owned()])?;
    if lock == LIBC && args.out.is_some() {
        bail!(
            "under {LIBC} nothing counts, so --out would stay empty; use {NONE} to count its waits"
        );
    }
    let out = args.out.as_deref().map(ResultFile::create).transpose()?;
    let shared = if lock == LIBC { None } else { Some(Shared::new()?) };

    // A signal that is ignored here (`nohup`) must be ignored there; a handler would undo that.
    let signals = PASSED_ON.iter().filter(|signal| !is_ignored(**signal));
    let mut signals = SignalsInfo::<WithOrigin>::new(signals).context("can't watch for signals")?;
    let mut child = launch::start(target.plan(lock, shared.as_ref()))?;
    let mut watch = Watch::new(&target);
    let exit = loop {
        if let Some(exit) = child.wait(watch.pause().min(POLL))? {
            break exit;
        }
        signals
            .pending()
            .filter(|origin| matches!(origin.cause, Cause::Sent(_)))
            .for_each(|origin| child.signal(origin.signal));
        if shared.is_some() {
            watch.look();
        }
    };
    wait_for_orphans(&target, &mut signals);
    let ended = Ended::from(exit.status);
    if let Some(shared) = shared {
        let counted = shared.read();
        let seen = Seen {
            program: &target.path,
            counted: &counted,
            blind: &watch.reasons(),
            wall_s: exit.wall.as_secs_f64(),
            cpu_s: exit.usage.cpu_seconds,
        };
        match out {
            // The program has ended, and will not run again for its counters.
            Some(file) => keep_counters(&target, &counted, file).inspect_err(|_| {
                print_counters(&target, &seen, true);
                output::complain(&format!("overlock: the program {ended}"));
            })?,
            None => print_counters(&target, &seen, args.json),
        }
    }
    Ok(ended.into())
}

fn is_ignored(signal: i32) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: only reads the setting, and `action` is writable and of the right type.
    unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: all-zero bytes are a valid sigaction, so it is initialised even if the call failed.
    unsafe { action.assume_init() }.sa_sigaction == libc::SIG_IGN
}

/// Waits for processes that the program has left behind. The first signal is passed on to them, and
/// ends most; another kills them.
fn wait_for_orphans(target: &Target, signals: &mut SignalsInfo<WithOrigin>) {
    launch::reap_orphans();
    let mut left = launch::orphans();
    if let Some(orphan) = left.first() {
        output::complain(&format!(
            "overlock: {} has ended, but left {} of its processes behind ({}, process {}); waiting \
             for the end of them all; Ctrl-C or SIGTERM ends them",
            target.typed(),
            left.len(),
            orphan.name,
            orphan.pid
        ));
    }
    let mut was_told = false;
    while !left.is_empty() {
        std::thread::sleep(POLL.min(Duration::from_millis(20)));
        for origin in signals.pending() {
            let signal = if was_told { libc::SIGKILL } else { origin.signal };
            left.iter().for_each(|orphan| orphan.signal(signal));
            was_told = true;
        }
        launch::reap_orphans();
        left = launch::orphans();
    }
}

/// Writes the counters of the program's processes to a file, one line each.
fn keep_counters(target: &Target, counted: &Counted, mut file: ResultFile) -> Result<()> {
    if !counted.is_loaded() {
        output::complain(&format!("overlock: {}", target.unloaded(counted)));
    }
    counted.processes.iter().try_for_each(|counts| file.write(&counts.record().to_string()))?;
    file.end()
}

/// Prints the counters of the program's processes: one object each, or what they mean and their
/// sum.
fn print_counters(target: &Target, seen: &Seen<'_>, json: bool) {
    let counted = seen.counted;
    if !counted.is_loaded() {
        output::complain(&format!("overlock: {}", target.unloaded(counted)));
        seen.blind.iter().for_each(|why| output::complain(&format!("overlock: {why}")));
    } else if json {
        let records = counted.processes.iter().map(|counts| counts.record().to_string());
        records.for_each(|record| output::complain(&record));
    } else {
        seen.sentences().iter().for_each(|text| output::complain(&format!("overlock: {text}")));
        let (count, library) = (counted.count(), target.library.as_ref());
        let plural = if count == 1 { "process" } else { "processes" };
        output::complain(&format!(
            "overlock: counters of {count} {plural}, with {}",
            library.map_or_else(String::new, |library| library.describe()),
        ));
        if let Some(table) = table(counted) {
            output::complain(&table.to_string());
        }
    }
}

fn table(counted: &Counted) -> Option<Table> {
    let mut table = Table::new(&["counter", "events"]);
    let sums = counted.sums();
    for (name, sum) in &sums {
        // By the name that `overlock reference` knows.
        let name = name.strip_prefix("events.").unwrap_or(name);
        table.row(vec![name.to_owned(), sum.to_string()]);
    }
    (!sums.is_empty()).then_some(table)
}
