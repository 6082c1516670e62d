// SPDX-License-Identifier: MIT OR Apache-2.0
//! `overlock boot`: the same locks inside a kernel, on an emulated machine, under KVM, under Xen.
//!
//! The kernel measures. This command builds it, starts it, reads its records and prints the
//! results. All rounds of all locks run in one boot, in turns.

mod args;
mod guest;
mod machine;
mod results;
mod said;

use crate::Outcome;
use crate::machine::Machine as Host;
use crate::output::{self, Sink};
use crate::progress::Progress;
use crate::record::RunRecord;
use crate::{interrupt, sys};
use anyhow::{Result, anyhow, bail};
use overlock_world::clock::Stamps;
use results::Setting;
use said::{Check, Said, Sample};
use serde::Serialize;
use std::time::Duration;

pub(crate) use args::BootArgs;
use args::World;
use guest::Ended;
use machine::Machine;

/// How many checks there are, for the progress; Xen has two fewer.
const CHECKS: usize = 50;

/// A check, as a record.
#[derive(Serialize)]
struct CheckRecord<'a> {
    kind: &'static str,
    world: &'static str,
    #[serde(flatten)]
    check: &'a Check,
}

/// Runs the sub-command.
pub(crate) fn main(args: &BootArgs) -> Result<Outcome> {
    let locks = args.locks().map_err(|name| anyhow!("no lock is called {name}"))?;
    if args.halt_by_call && args.on != World::Tcg {
        bail!("--halt-by-call needs --on tcg: no other world halts so");
    }
    interrupt::watch()?;
    let Some(image) = machine::image()? else {
        interrupt::tell_that_nothing_is_done();
        return Ok(Outcome::Interrupted);
    };
    let machine = Machine::new(args, &image, &plan(args, &locks))?;
    let mut sink = Sink::open(&args.output)?;
    sink.record(&RunRecord::new(&Host::observe(&Stamps::calibrate()), args.seed))?;
    if args.on == World::Kvm && machine.stand_in {
        output::complain(
            "note: the kernel plays KVM's side of the interface itself, on an emulated machine",
        );
    }
    let steps =
        if args.verify { CHECKS } else { locks.len() * args.cpus().len() * args.runs as usize };
    let heard = Heard {
        progress: Progress::new(steps as u64),
        samples: Vec::new(),
        checks: 0,
        failed: false,
    };
    let (heard, ended) = listen(args, machine, heard, &mut sink)?;
    interrupt::tell(!heard.samples.is_empty() || heard.checks > 0);
    let fine = report(args, heard, &mut sink)?;
    sink.end(match ended {
        Ended::Interrupted => Outcome::Interrupted,
        Ended::Whole { fine: true } if fine => Outcome::Fine,
        Ended::Whole { .. } => Outcome::CheckFailed,
    })
}

/// What the kernel has said so far.
struct Heard {
    progress: Progress,
    samples: Vec<Sample>,
    checks: u32,
    failed: bool,
}

/// The kernel's command line.
fn plan(args: &BootArgs, locks: &[&str]) -> String {
    let work = match (&args.work, args.verify) {
        (Some(work), _) => work.as_str(),
        (None, true) => "contract:conformance:nesting",
        (None, false) => "micro",
    };
    let cpus: Vec<String> = args.cpus().iter().map(ToString::to_string).collect();
    let mut plan = format!(
        "do={work} cpus={} ms={} runs={} cs={} ncs={} seed={} nopvspin={}",
        cpus.join(":"),
        (args.seconds * 1e3).round().max(1.0),
        args.runs,
        args.cs.0,
        args.ncs.0,
        args.seed,
        u8::from(args.nopvspin),
    );
    if args.halt_by_call {
        plan += " halt=call";
    }
    if let Some(broken) = &args.broken {
        plan += &format!(" broken={broken}");
    }
    if args.verify {
        // Native locks need a time slice for each change of hands where there are more CPUs than
        // processors.
        plan += " locks=test-and-set:ticket:queued:hybrid ops=4000 ticks=20";
    } else {
        plan += &format!(" locks={} ops={}", locks.join(":"), args.ops);
    }
    plan
}

/// Listens to the kernel until it ends. A failure ends the command, but not before the results so
/// far are reported.
fn listen(
    args: &BootArgs,
    machine: Machine,
    mut heard: Heard,
    sink: &mut Sink,
) -> Result<(Heard, Ended)> {
    let world = name(args.on);
    let timeout = Duration::from_secs_f64(args.timeout + args.seconds);
    heard.progress.say("starts");
    let ended = guest::run(machine, timeout, |said| {
        match said {
            Said::Started { cpus } => heard.progress.say(&format!("{cpus} CPUs are up")),
            Said::Mode { locks, why } if !why.is_empty() => {
                heard.progress.suspend(|| output::complain(&format!("note: locks {locks}: {why}")));
            }
            Said::Begin { what } => heard.progress.say(&what),
            Said::Alive { ops } => heard.progress.say(&format!("{ops} acquisitions so far")),
            Said::Sample(sample) => {
                heard.progress.say(&format!("{} on {} CPUs", sample.lock, sample.cpus));
                heard.progress.step();
                heard.samples.push(sample);
            }
            Said::Check(check) => {
                heard.progress.step();
                heard.checks += 1;
                heard.failed |= !check.fine;
                sink.record(&CheckRecord { kind: "check", world, check: &check })?;
                let verdict = if check.fine { "fine" } else { "FAILED" };
                let found = if check.found.is_empty() { "" } else { ": " };
                let line = format!("  {verdict:6}  {}{found}{}", check.what, check.found);
                heard.progress.suspend(|| sink.people(&line))?;
            }
            _ => {}
        }
        Ok(())
    });
    heard.progress.finish();
    match ended {
        Ok(ended) => Ok((heard, ended)),
        Err(error) => {
            report(args, heard, sink)?;
            Err(error)
        }
    }
}

/// The world's name in records and tables.
fn name(world: World) -> &'static str {
    match world {
        World::Tcg => "tcg",
        World::Kvm => "kvm",
        World::Xen => "xen",
    }
}

/// Reports the results. Returns whether no update was lost and no check failed.
fn report(args: &BootArgs, heard: Heard, sink: &mut Sink) -> Result<bool> {
    let pcpus = match args.on {
        World::Xen => args.pcpus,
        _ => u32::try_from(sys::allowed_cpus()).unwrap_or(u32::MAX),
    };
    let setting = Setting { world: name(args.on), pcpus, cs_ns: args.cs.0, ncs_ns: args.ncs.0 };
    let all = results::gather(heard.samples);
    let mut fine = !heard.failed;
    sink.csv(&["world", "lock", "cpus", "pcpus", "ops_per_s", "lost"].map(str::to_owned))?;
    for runs in &all {
        let record = runs.record(&all, &setting);
        sink.record(&record)?;
        sink.csv(&record.csv())?;
        if runs.unsent() > 0 {
            let unsent = runs.unsent();
            output::complain(&format!(
                "failed: {}: {unsent} kicks arrived that no CPU had sent",
                runs.lock
            ));
            fine = false;
        }
        if runs.lost() > 0 {
            output::complain(&format!("failed: {} lost {} updates", runs.lock, runs.lost()));
            fine = false;
        }
    }
    if !all.is_empty() {
        let world = setting.world;
        sink.people(&format!("{world}, on {pcpus} processors\n{}", results::tables(&all)))?;
    }
    Ok(fine)
}
