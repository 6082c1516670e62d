//! `overlock trace`: why do a program's threads wait?
//!
//! `overlock-trace` watches them and says why; here the program is started, and the findings are
//! told. A program keeps its standard output and its exit code, so the report goes to standard
//! error.

mod args;
mod cures;
mod diagnosis;
mod rows;
mod show;
#[cfg(test)]
mod tests;
mod worst;

pub(crate) use args::TraceArgs;

use crate::interrupt;
use crate::outcome::Outcome;
use crate::output::{self, Sink};
use anyhow::{Context, Result, bail};
use overlock_programs::{self as launch, Child, Ended, Launch, Process, Unpacked, find};
use overlock_results::row::Row;
use overlock_trace::{Files, LIBRARY, Needs, Opened, Session, Start, Wanted, folded};
use std::path::Path;
use std::time::{Duration, Instant};

/// The exit code if a program can't be traced: its own codes are others, as `timeout` and `env`
/// have it.
const FAILED: u8 = 125;

/// Runs the sub-command.
pub(crate) fn main(args: &TraceArgs) -> Result<Outcome> {
    match trace(args) {
        Err(error) if args.pid.is_none() => {
            output::complain(&format!("overlock: {error:#}"));
            Ok(Outcome::Code(FAILED))
        }
        done => done,
    }
}

fn trace(args: &TraceArgs) -> Result<Outcome> {
    if !Path::new("/proc/self").exists() {
        bail!(
            "/proc is not mounted, and trace reads there which threads a program has and what code \
             they run; mount it: mount -t proc proc /proc"
        );
    }
    let mut sink = Sink::open(args.json, args.out.as_deref())?;
    if args.pid.is_none() {
        sink = sink.on_stderr();
    }
    interrupt::watch()?;
    if let Some(pid) = args.pid {
        can_be_watched(pid)?;
    }
    let note = |text: &str| output::complain(&format!("overlock: {text}"));
    let mut plan = if args.pid.is_some() { None } else { Some(plan(args)?) };
    let can_preload = || match &plan {
        Some(plan) if args.source == Wanted::Auto && launch::is_go(&plan.program) => {
            bail!("threads of Go make their system calls themselves, which no library sees")
        }
        Some(plan) => launch::refuse(&plan.program),
        None => bail!("a program that runs already can't be given a library"),
    };
    let opened = Opened::new(args.source, &can_preload, &note)?;
    // The library lies in a file for as long as the program runs.
    let _library = match (opened.needs(), &mut plan) {
        (Some(needs), Some(plan)) => Some(preload(needs, plan)?),
        _ => None,
    };
    let mut program = plan.map(launch::start).transpose()?;
    let own = program.as_ref().map_or(0, |child| child.id().cast_unsigned());
    let (pid, start) = args.pid.map_or((own, Start::Fresh), |pid| (pid, Start::Running));
    let files = Files {
        timeline: args.timeline.iter().any(|file| !is_profile(file)),
        profile: args.timeline.iter().any(|file| is_profile(file)),
    };
    let mut session = Session::new(opened, (pid, start), files, &note)?;
    let ended = watch(args, &mut session, program.as_mut())?;
    let seen = session.end();
    seen.doubts.iter().for_each(|text| note(text));

    let found = &seen.findings;
    // Describing the machine takes a while.
    if args.json || args.out.is_some() {
        sink.begin(None)?;
        rows::rows(found, seen.source).iter().try_for_each(|row| sink.record(row))?;
        if let Some(window) = seen.window.clone() {
            sink.record(&Row::Timeline(Box::new(window)))?;
        }
    }
    if let Some(file) = &args.folded {
        write(file, &folded(found))?;
    }
    for file in &args.timeline {
        let text = if is_profile(file) { &seen.profile } else { &seen.timeline };
        text.as_ref().map_or(Ok(()), |text| write(file, text))?;
    }
    sink.people(&show::text(found, args.top.get()))?;
    let mut ended = ended;
    if let (None, Some(program)) = (&ended, &mut program)
        && !interrupt::seen()
    {
        output::complain("overlock: the watching has ended, and the program goes on");
        while !interrupt::seen() && ended.is_none() {
            let exit = program.wait(Duration::from_millis(100))?;
            ended = exit.map(|exit| exit.status.into());
        }
    }
    sink.end(match ended {
        _ if interrupt::seen() => Outcome::Interrupted,
        None => Outcome::Fine,
        Some(ended) => ended.into(),
    })
}

/// Whether a timeline of this name is for the Firefox Profiler.
fn is_profile(file: &Path) -> bool {
    file.as_os_str().as_encoded_bytes().ends_with(b".profile.json")
}

fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("can't write {}", file.display()))
}

/// Watches until the program has ended, time is up, or Ctrl-C has come.
fn watch(
    args: &TraceArgs,
    session: &mut Session,
    mut program: Option<&mut Child>,
) -> Result<Option<Ended>> {
    let started = Instant::now();
    let is_over = || args.length.is_some_and(|length| started.elapsed() >= length);
    while !interrupt::seen() && !is_over() {
        session.turn();
        match (&mut program, args.pid) {
            (Some(program), _) => {
                if let Some(exit) = program.wait(Duration::ZERO)? {
                    return Ok(Some(exit.status.into()));
                }
            }
            (None, Some(pid)) if has_ended(pid) => break,
            _ => {}
        }
    }
    // Ctrl-C reaches the program, too; its last words belong to it.
    if interrupt::seen()
        && let Some(program) = program
    {
        let exit = program.wait(Duration::from_secs(1))?;
        return Ok(exit.map(|exit| exit.status.into()));
    }
    Ok(None)
}

/// Returns whether a process is gone, or only waits for its parent to ask how it ended. Its first
/// thread may end before the others.
fn has_ended(pid: u32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return true };
    let process = Process::of(pid.cast_signed());
    process.is_none_or(|process| process.is_zombie) && threads.count() <= 1
}

fn plan(args: &TraceArgs) -> Result<Launch> {
    let (program, rest) = args.command.split_first().context("no program was given")?;
    Ok(Launch::new(find(program)?, rest.to_vec()))
}

/// Lets the program load the library that tells of its waits.
fn preload(needs: Needs, plan: &mut Launch) -> Result<Unpacked> {
    let library = Unpacked::new("liboverlock_trace.so", LIBRARY)?;
    let (name, value) = needs.variable;
    plan.variables.push((name.into(), Some(value.into())));
    plan.variables.push(("LD_PRELOAD".into(), Some(launch::preload_list(&library.path()))));
    plan.inherit = Some(needs.descriptor);
    Ok(library)
}

fn can_be_watched(pid: u32) -> Result<()> {
    if !Path::new(&format!("/proc/{pid}/task")).exists() {
        bail!("there is no process {pid}; pgrep -a NAME lists processes by name");
    }
    Ok(())
}
