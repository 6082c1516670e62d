//! Many runs at once: one process for each CPU, which gets one job after the other.
//!
//! The pool uses processes and not threads, because the locks of a run always lie at the same
//! addresses. A host and a job go down as a line of JSON, and the answer comes back as one; a
//! process ends when there are no more jobs.

use anyhow::{Context, Result, anyhow, bail};
use overlock_bench::{Failed, Job, World};
use overlock_programs::{Child, GRACE, interrupt};
use overlock_results::Run;
use overlock_sim::hosts::{HostProfile, More, Simulator};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Write, stdin, stdout};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

/// How often to check for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug, Serialize, Deserialize)]
enum Answer {
    Run(Box<Run>),
    Failed(String),
    /// The job can't be simulated at all.
    Refused(String),
}

/// A run, or what went wrong in it.
type Ran = Result<Run, String>;

/// Names a run, for people.
pub(super) fn name(job: &Job) -> String {
    format!("{job}, seed {}", job.seed)
}

/// Estimates how long a run takes, relative to others.
fn size(job: &Job) -> u64 {
    ((job.host.seconds * 1e9) as u64).saturating_mul(job.cpus.into())
}

/// Runs `jobs` in one process for each CPU, the longest first, and passes each result to `take` as
/// soon as there is one. Ends early when `cancel` is set.
pub(super) fn run(
    simulator: &Simulator,
    jobs: &[&Job],
    cancel: &AtomicBool,
    mut take: impl FnMut(&Job, Ran) -> Result<()>,
) -> Result<()> {
    let mut order: Vec<&Job> = jobs.to_vec();
    order.sort_by_key(|job| std::cmp::Reverse(size(job)));
    let count = std::thread::available_parallelism().map_or(1, usize::from).min(order.len());
    let mut children: Vec<Child> = (0..count).map(|_| spawn()).collect::<Result<_>>()?;
    let next = AtomicUsize::new(0);
    // The child process that gave up its job by itself: it is not killed, and its error is
    // reported.
    let mut lost = None;
    let taken = std::thread::scope(|scope| {
        let (sender, results) = channel();
        for (number, child) in children.iter_mut().enumerate() {
            let pipes = child.stdin.take().zip(child.stdout.take());
            let (next, order, sender) = (&next, &order, sender.clone());
            let send = move |result| sender.send((number, result)).is_ok();
            let host = &simulator.host;
            scope.spawn(move || match pipes {
                Some(pipes) => feed(pipes, host, order, next, &send),
                None => drop(send(Err(anyhow!("a process without pipes")))),
            });
        }
        // The channel closes when the last feeding thread drops its sender.
        drop(sender);
        let taken = loop {
            if cancel.load(Relaxed) {
                break Ok(());
            }
            match results.recv_timeout(LOOK) {
                Ok((_, Ok((at, ran)))) => {
                    let taken = take(order[at], ran);
                    if taken.is_err() {
                        break taken;
                    }
                }
                Ok((number, Err(error))) => {
                    lost = Some(number);
                    break Err(error);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break Ok(()),
            }
        };
        // No child gets another job; if the run ends early, the supervisor kills all other
        // children.
        let left = next.swap(order.len(), Relaxed) < order.len();
        if left || taken.is_err() || cancel.load(Relaxed) {
            let others = (0..).zip(&mut children).filter(|(number, _)| Some(*number) != lost);
            others.for_each(|(_, child)| child.kill());
        }
        taken
    });
    let mut died = None;
    for (number, mut child) in children.into_iter().enumerate() {
        // It ends by itself, because there are no more jobs.
        let exit = match child.wait(GRACE) {
            Ok(None) => child.end(GRACE),
            Ok(Some(exit)) => Ok(exit),
            Err(error) => Err(error),
        };
        let exit = exit.context("a simulating process is lost")?;
        if lost == Some(number) && !exit.status.success() {
            died = Some(exit.status);
        }
    }
    // Children that died of the same Ctrl-C are not an error.
    match (taken, died) {
        _ if cancel.load(Relaxed) => Ok(()),
        (Err(error), Some(status)) => Err(anyhow!("{error:#} ({status})")),
        (taken, _) => taken,
    }
}

fn spawn() -> Result<Child> {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("overlock").arg("sim-child").stdin(Stdio::piped()).stdout(Stdio::piped());
    Child::spawn(&mut command).context("could not start a process for simulations")
}

/// Gives one child process job after job.
fn feed(
    (mut orders, answers): (ChildStdin, ChildStdout),
    host: &HostProfile,
    jobs: &[&Job],
    next: &AtomicUsize,
    send: &dyn Fn(Result<(usize, Ran)>) -> bool,
) {
    let mut answers = BufReader::new(answers);
    loop {
        let at = next.fetch_add(1, Relaxed);
        let Some(job) = jobs.get(at) else { return };
        let answer = ask(&mut orders, &mut answers, host, job);
        let failed = answer.is_err();
        if !send(answer.map(|ran| (at, ran))) || failed {
            return;
        }
    }
}

fn ask(
    orders: &mut ChildStdin,
    answers: &mut impl BufRead,
    host: &HostProfile,
    job: &Job,
) -> Result<Ran> {
    let lost = || format!("{}: the process that simulated it has died", name(job));
    // As text: our broken pipe is not that of the reader of our output.
    let told = |error: std::io::Error| anyhow!("{}: {error}", lost());
    writeln!(orders, "{}", serde_json::to_string(&(host, job))?).map_err(told)?;
    let mut line = String::new();
    answers.read_line(&mut line).map_err(told)?;
    if line.is_empty() {
        bail!(lost());
    }
    match serde_json::from_str(&line).with_context(lost)? {
        Answer::Run(run) => Ok(Ok(*run)),
        Answer::Failed(said) => Ok(Err(said)),
        Answer::Refused(said) => bail!(said),
    }
}

/// Runs in the child process: runs the jobs that it gets until there are no more.
pub(crate) fn obey(more: More) -> Result<()> {
    for line in stdin().lock().lines() {
        let (host, job): (HostProfile, Job) =
            serde_json::from_str(&line?).context("this command is for sim itself")?;
        let answer = match (Simulator { host, more }).run(&job, interrupt::flag()) {
            Ok(run) => Answer::Run(Box::new(run)),
            Err(Failed::Subject(said)) => Answer::Failed(said),
            Err(failed) => Answer::Refused(failed.to_string()),
        };
        let mut stdout = stdout().lock();
        writeln!(stdout, "{}", serde_json::to_string(&answer)?)?;
        stdout.flush()?;
    }
    Ok(())
}
