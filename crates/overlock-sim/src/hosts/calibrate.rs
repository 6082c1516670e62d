//! Measures the costs that the simulator charges, on this machine.
//!
//! | figure | how |
//! |---|---|
//! | `pause`, `clock`, `rmw`, `full` | loops of a million, while another CPU spins |
//! | the ways of a line | two threads that count one word up in turns, for each pair of CPUs |
//! | `call` | a single vCPU that kicks itself; `halt` is half of it |
//! | `kick` | a thread that wakes one that sleeps on another CPU |
//! | `switch` | two vCPUs on one pCPU that pass a token to and fro, less one and a half calls |
//! | `wake` | a hand-over among 4 vCPUs on 2 pCPUs, less half of a call |
//! | `evict` | by how much spinners overrun their slices |
//! | `port`, `notes` | a read of the PM timer; an uncontended pair, less its parts |
//!
//! The other costs are assumed, and marked as such.

use super::{Costs, Figure, HostProfile};
use anyhow::{Context, Result, bail};
use overlock_bench::clock::{Clock, ticks};
use overlock_bench::experiment::Host;
use overlock_bench::workload::Profile;
use overlock_bench::{Job, World};
use overlock_programs::{interrupt, may_run_on, run_on};
use overlock_results::Run;
use overlock_results::locks::HAND_OVER;
use overlock_results::stats::median;
use std::hint::{black_box, spin_loop};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::*, fence};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

/// Iterations of a timed loop.
const LOOP: u32 = 200_000;
/// How often each loop and run is repeated; the median counts.
const REPEATS: usize = 5;
/// Turns of a word between two threads, how often they are timed, and the share of these times that
/// is shorter than the one that counts: CPU time that other processes take is not part of the
/// line's way.
const TURNS: u32 = 1_000;
const SPELLS: usize = 40;
const SHORTER: usize = SPELLS / 4;
/// How often a sleeping thread is woken, and the nanoseconds that it has to fall asleep.
const WAKES: u32 = 200;
const ASLEEP_NS: u64 = 200_000;

/// Measures this machine, which has `cpus` CPUs of this `model`, and returns the file of its
/// profile; `lab` has vCPUs on this machine.
///
/// # Errors
/// If a run fails, or there is only one CPU.
pub fn calibrate(lab: &dyn World, cpus: usize, model: &str) -> Result<String> {
    let about = format!("{cpus} CPUs of {model}, measured by overlock doctor --calibrate");
    let mut text = format!(
        "about = {about:?}\nkind = \"measured\"\njitter_percent = 5\n\n[topology]\nsockets = 1\n\
         clusters = 1\ncores = {cpus}\nthreads = 1\n\n[costs]\n"
    );
    for (cost, Figure { ns, source }) in costs(lab)?.each() {
        text += &format!("{cost} = {{ ns = {ns}, source = {source:?} }}\n");
    }
    // A profile that cannot be read back is not a profile.
    HostProfile::parse("calibrated", &text)?;
    Ok(text)
}

fn measured(ns: f64, how: &str) -> Figure {
    Figure { ns: ns.max(0.0).round() as u64, source: format!("overlock doctor --calibrate: {how}") }
}

fn assumed(ns: u64, why: &str) -> Figure {
    Figure { ns, source: format!("assumed: {why}") }
}

fn costs(lab: &dyn World) -> Result<Costs> {
    let mut cpus = (0..1024).filter(|&cpu| may_run_on(cpu));
    let two =
        cpus.next().zip(cpus.next()).context("there is only one CPU, and two are measured")?;
    let word = AtomicU32::new(0);
    let adds = || _ = word.fetch_add(1, Relaxed);
    let lone_rmw = per_turn(adds);
    let [pause, clock, rmw, full] = beside_a_spinner(two, || {
        let reads = || _ = black_box(ticks());
        let fences = || {
            word.store(1, Relaxed);
            fence(SeqCst);
        };
        [per_turn(spin_loop), per_turn(reads), per_turn(adds), per_turn(fences)]
    })?;
    let line = transfer()? - rmw;
    let kick = wakes_between(two)?;
    let turn = |r: &Run| 1e9 / r.ops_per_s.max(1.0);
    // The vCPU hands the token to itself: one kick, and no halt.
    let call = median_of(lab, "micro", HAND_OVER, (1, 1), turn)?;
    // With one pCPU, a turn is a kick, the way out of a halt, and a switch of vCPUs.
    let switch = median_of(lab, "micro", HAND_OVER, (2, 1), turn)? - 1.5 * call;
    let row = |r: &Run| r.wait_ns.p50 as f64 / 3.0;
    let hand_over = median_of(lab, "micro", HAND_OVER, (4, 2), row)?;
    let evict = median_of(lab, "micro", "native-ticket", (4, 2), |r| r.overrun_ns)?;
    let port = median_of(lab, "pmtimer", "hybrid", (1, 1), |r| r.timer_read_ns)?;
    let pair = 1e9 / median_of(lab, "micro", "native-test-and-set", (1, 1), |r| r.ops_per_s)?;
    // In the simulator, such a pair is these two accesses and `notes`.
    let notes = pair - 2.0 * lone_rmw;
    let way = || measured(line, "a turn of two CPUs that count a word up, less a fetch_add");
    Ok(Costs {
        hit: assumed(1, "a load from the first-level cache"),
        rmw: measured(rmw, "a fetch_add in a loop"),
        smt: way(),
        cluster: way(),
        socket: way(),
        remote: way(),
        memory: assumed(90, "local memory"),
        share: assumed(10, "copies of a shared line leave its home one every 10 ns"),
        pause: measured(pause, "a pause in a loop"),
        clock: measured(clock, "a reading of the time stamp counter in a loop"),
        notes: measured(notes, "an uncontended pair, less its accesses"),
        acquire: assumed(0, "loads of x86 acquire"),
        release: assumed(0, "stores of x86 release"),
        full: measured(full, "a full fence in a loop"),
        call: measured(call, "a single vCPU that kicks itself"),
        kick: measured(kick, "a thread that wakes one that sleeps on another CPU"),
        halt: measured(call / 2.0, "half of a call: the way out"),
        wake: measured(hand_over - call / 2.0, "a hand-over, less half of a call"),
        switch: measured(
            switch,
            "two vCPUs on one pCPU that pass a token to and fro, less 1.5 calls",
        ),
        evict: measured(evict, "by how much spinners overrun their slices"),
        interrupt: measured(evict, "assumed to be as long as evict"),
        port: measured(port, "a read of the PM timer without a lock"),
        device: assumed(30, "reading the clock and scaling"),
    })
}

/// Measures on one CPU while another one spins: in a run all are busy, and two that are threads of
/// one core, which a virtual machine may not know, slow each other down.
fn beside_a_spinner<T: Send>(
    (one, other): (usize, usize),
    measure: impl FnOnce() -> T + Send,
) -> Result<T> {
    let is_done = AtomicBool::new(false);
    let spins = || {
        run_on(other)?;
        while !is_done.load(Relaxed) {
            spin_loop();
        }
        Ok(None)
    };
    let measures = || {
        let measured = run_on(one).map(|()| Some(measure()));
        is_done.store(true, Relaxed);
        Ok(measured?)
    };
    both(measures, spins)?.context("nothing was measured")
}

/// Returns the nanoseconds of one turn of a loop.
fn per_turn(mut turn: impl FnMut()) -> f64 {
    let clock = Clock::start();
    let spans: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let start = clock.now_ns();
            (0..LOOP).for_each(|_| turn());
            (clock.now_ns() - start) as f64 / f64::from(LOOP)
        })
        .collect();
    median(&spans).unwrap_or(0.0)
}

/// Returns the nanoseconds that a line takes from one CPU to another: the median over all pairs of
/// the first eight CPUs. It does not distinguish threads of one core, nor sockets.
fn transfer() -> Result<f64> {
    let cpus: Vec<usize> = (0..1024).filter(|&cpu| may_run_on(cpu)).take(8).collect();
    let mut ways = Vec::new();
    for (at, &one) in cpus.iter().enumerate() {
        for &other in &cpus[at + 1..] {
            let mut spells: Vec<f64> =
                (0..SPELLS).map(|_| turns(one, other)).collect::<Result<_>>()?;
            spells.sort_by(f64::total_cmp);
            ways.push(spells[SHORTER]);
        }
    }
    median(&ways).context("no line can move between two CPUs")
}

/// Times two threads on two CPUs that count a word up in turns. Each tries with one instruction, so
/// a turn is one way of the line; if one loads the word and the other stores it, it is two.
fn turns(one: usize, other: usize) -> Result<f64> {
    #[repr(align(128))]
    struct Line(AtomicU32);
    let Line(word) = &Line(AtomicU32::new(0));
    let run = |cpu: usize, odd: u32| {
        run_on(cpu)?;
        let mut start = Instant::now();
        for turn in (odd..2 * TURNS).step_by(2) {
            let deadline = Instant::now() + Duration::from_secs(20);
            // ORDERING: Acquire and Release pair with each other: each turn follows the last.
            while word.compare_exchange(turn, turn + 1, AcqRel, Acquire).is_err() {
                if turn % 64 == 0 && Instant::now() > deadline {
                    bail!("CPUs {one} and {other} did not take turns within 20 s");
                }
            }
            if turn < 2 {
                // Both threads have started.
                start = Instant::now();
            }
        }
        Ok(start.elapsed())
    };
    let took = both(|| run(one, 0), || run(other, 1))?;
    Ok(took.as_nanos() as f64 / f64::from(2 * TURNS - 1))
}

/// Does two things at once, and returns the first one's result if neither fails.
fn both<T: Send>(
    one: impl FnOnce() -> Result<T> + Send,
    other: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    thread::scope(|scope| {
        let (one, other) = (scope.spawn(one), scope.spawn(other));
        let joined = |thread: thread::ScopedJoinHandle<'_, Result<T>>| {
            thread.join().unwrap_or_else(|_| bail!("a thread panicked"))
        };
        let done = joined(one);
        joined(other).and(done)
    })
}

/// Returns the nanoseconds for which a thread is busy that wakes one that sleeps on another CPU.
fn wakes_between((one, other): (usize, usize)) -> Result<f64> {
    let (sleeper, woken) = (OnceLock::<Thread>::new(), AtomicU32::new(0));
    let sleeps = || {
        // First of all: the waker waits for it.
        sleeper.get_or_init(thread::current);
        run_on(other)?;
        while woken.load(Relaxed) < WAKES {
            thread::park();
        }
        Ok(0.0)
    };
    let wakes = || {
        if let Err(error) = run_on(one) {
            woken.store(WAKES, Relaxed);
            sleeper.wait().unpark();
            return Err(error.into());
        }
        let clock = Clock::start();
        let mut spans = Vec::new();
        for wake in 1..=WAKES {
            let asleep = clock.now_ns() + ASLEEP_NS;
            while clock.now_ns() < asleep {
                spin_loop();
            }
            woken.store(wake, Relaxed);
            let start = clock.now_ns();
            sleeper.wait().unpark();
            spans.push((clock.now_ns() - start) as f64);
        }
        Ok(median(&spans).unwrap_or(0.0))
    };
    both(wakes, sleeps)
}

/// Returns the median of a figure over some runs of a laboratory.
fn median_of(
    lab: &dyn World,
    workload: &str,
    lock: &str,
    (vcpus, pcpus): (u32, u32),
    figure: impl Fn(&Run) -> f64,
) -> Result<f64> {
    let host = Host { pcpus, seconds: 0.05, ..Host::default() };
    let job = Job::new(Profile::named(workload)?, lock, vcpus, host);
    let runs = (0..REPEATS).map(|_| Ok(figure(&lab.run(&job, interrupt::flag())?)));
    median(&runs.collect::<Result<Vec<_>>>()?).context("no runs")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Neither thread waits for one that has given up.
    #[test]
    fn a_cpu_that_can_not_be_used_ends_the_measurement() {
        const NONE: usize = usize::MAX;
        for two in [(0, NONE), (NONE, 0)] {
            assert!(wakes_between(two).is_err());
            assert!(beside_a_spinner(two, || 0).is_err());
        }
    }
}
