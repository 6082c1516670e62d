// SPDX-License-Identifier: MIT OR Apache-2.0
//! Can a world be written outside the laboratory, and run the laboratory's experiment file?
//!
//! This one is as simple as a world can be: virtual time, and vCPUs in turns. A vCPU is a thread
//! that runs while it has the baton. Each has a clock of its own. Of the vCPUs on a pCPU, the one
//! that is furthest behind has the baton, until it is a little ahead of the next. Slices rotate.
//! Nothing in it depends on real time, so a run is the same every time.

use std::cell::Cell as LocalCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, Ordering, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, OnceLock};
use std::time::Duration;

use overlock::atomic::{Atomic, ConstAtomic};
use overlock::platform::{Bucket, Cpu, Platform, ReadModifyWrite, Slot};
use overlock_world::experiment::Experiment;
use overlock_world::locks::{HAND_OVER, Lock};
use overlock_world::row::{Point, relate};
use overlock_world::workload::{Profile, run};
use overlock_world::{
    Accounts, Config, Engine, Error, Failed, Job, NoYields, Outcome, Program, Run, Vcpu, Verbs,
    World,
};

/// The cost of an access to a cell, a pause and a call to the host, in nanoseconds.
const ACCESS: u64 = 10;
const PAUSE: u64 = 50;
const CALL: u64 = 500;
/// How far ahead of the next vCPU one may get before it passes the baton on.
const SKEW: u64 = 10_000;

/// A cell whose every access takes time.
#[derive(Debug)]
struct Timed<A>(A);

macro_rules! timed {
    ($($int:ty => $cell:ty),*) => {$(
        // SAFETY: each method is that of the cell inside.
        unsafe impl Atomic<$int> for Timed<$cell> {
            fn load(&self, order: Ordering) -> $int { step(ACCESS); self.0.load(order) }
            fn store(&self, v: $int, order: Ordering) { step(ACCESS); self.0.store(v, order) }
            fn swap(&self, v: $int, order: Ordering) -> $int { step(ACCESS); self.0.swap(v, order) }
            fn fetch_add(&self, v: $int, o: Ordering) -> $int { step(ACCESS); self.0.fetch_add(v, o) }
            fn fetch_sub(&self, v: $int, o: Ordering) -> $int { step(ACCESS); self.0.fetch_sub(v, o) }
            fn fetch_or(&self, v: $int, o: Ordering) -> $int { step(ACCESS); self.0.fetch_or(v, o) }
            fn fetch_and(&self, v: $int, o: Ordering) -> $int { step(ACCESS); self.0.fetch_and(v, o) }
            fn compare_exchange(
                &self, current: $int, new: $int, success: Ordering, failure: Ordering,
            ) -> Result<$int, $int> {
                step(ACCESS);
                self.0.compare_exchange(current, new, success, failure)
            }
        }
        // SAFETY: it holds zero.
        unsafe impl ConstAtomic<$int> for Timed<$cell> {
            const ZERO: Self = Self(<$cell>::new(0));
        }
    )*};
}
timed!(u8 => AtomicU8, u16 => AtomicU16, u32 => AtomicU32);

/// The state of a vCPU.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stand {
    Queued,
    Running { slice_end: u64 },
    Halted { deadline: Option<u64> },
    Ended,
}

#[derive(Debug)]
struct One {
    stand: Stand,
    /// Its own clock.
    now: u64,
    since: u64,
    kicked: bool,
    pending: u32,
    interrupted: bool,
    life: Accounts,
}

#[derive(Debug)]
struct State {
    all: Vec<One>,
    queue: VecDeque<usize>,
    pcpus: usize,
    slice: u64,
    baton: usize,
}

impl State {
    /// Lets vCPUs onto pCPUs, wakes those whose time has come, and passes the baton.
    fn pass(&mut self, moment: u64) {
        for vcpu in 0..self.all.len() {
            let one = &self.all[vcpu];
            if let Stand::Halted { deadline: Some(deadline) } = one.stand
                && deadline <= moment
            {
                self.wake(vcpu, deadline);
            }
        }
        let running = |one: &One| matches!(one.stand, Stand::Running { .. });
        while self.all.iter().filter(|one| running(one)).count() < self.pcpus
            && let Some(vcpu) = self.queue.pop_front()
        {
            let one = &mut self.all[vcpu];
            let start = moment.max(one.since);
            one.life.steal_ns += start - one.since;
            one.now = start;
            one.stand = Stand::Running { slice_end: start + self.slice };
        }
        let on_cpu = self.all.iter().enumerate().filter(|(_, one)| running(one));
        if let Some((vcpu, _)) = on_cpu.min_by_key(|(_, one)| one.now) {
            self.baton = vcpu;
            return;
        }
        // All vCPUs sleep: time jumps to the first that wants to be woken.
        let due = self.all.iter().filter_map(|one| match one.stand {
            Stand::Halted { deadline } => deadline,
            _ => None,
        });
        let Some(due) = due.min() else {
            assert!(self.all.iter().all(|one| one.stand == Stand::Ended), "all sleep for ever");
            return;
        };
        self.pass(due);
    }

    fn wake(&mut self, vcpu: usize, at: u64) {
        let one = &mut self.all[vcpu];
        match one.stand {
            Stand::Halted { .. } => {
                let at = at.max(one.since);
                one.life.halted_ns += at - one.since;
                (one.stand, one.since) = (Stand::Queued, at);
                self.queue.push_back(vcpu);
            }
            Stand::Queued | Stand::Running { .. } => one.kicked = true,
            Stand::Ended => {}
        }
    }
}

struct Machine {
    state: Mutex<State>,
    turns: Vec<Condvar>,
    duration: u64,
    /// Delivers an interrupt to the program.
    interrupt: fn(*const (), u32),
    program: *const (),
}

// SAFETY: all vCPUs share the program, as every `Program` allows.
unsafe impl Sync for Machine {}

thread_local! {
    static HERE: LocalCell<Option<(&'static Machine, usize)>> = const { LocalCell::new(None) };
}

fn here() -> (&'static Machine, usize) {
    HERE.get().expect("this thread is no vCPU")
}

/// Spends `ns` of the calling vCPU's time, performs `act`, waits for the baton, and then takes
/// interrupts.
fn turn<T>(ns: u64, act: impl FnOnce(&mut State, usize) -> T) -> T {
    let (machine, own) = here();
    let mut state = machine.state.lock().unwrap();
    let one = &mut state.all[own];
    one.now += ns;
    one.life.ran_ns += ns;
    let now = one.now;
    let result = act(&mut state, own);
    if let Stand::Running { slice_end } = state.all[own].stand
        && slice_end <= now
        && !state.queue.is_empty()
    {
        state.all[own].life.preemptions += 1;
        (state.all[own].stand, state.all[own].since) = (Stand::Queued, now);
        state.queue.push_back(own);
    }
    let others = state.all.iter().enumerate().filter(|(n, _)| *n != own);
    let running = others.filter(|(_, one)| matches!(one.stand, Stand::Running { .. }));
    let next = running.map(|(_, one)| one.now).min();
    let stays = matches!(state.all[own].stand, Stand::Running { .. });
    if !stays || next.is_none_or(|next| next + SKEW < now) {
        state.pass(now);
        machine.turns[state.baton].notify_one();
    }
    while state.baton != own && state.all[own].stand != Stand::Ended {
        state = machine.turns[own].wait(state).unwrap();
    }
    while state.all[own].pending != 0 && !state.all[own].interrupted {
        let number = state.all[own].pending.trailing_zeros();
        state.all[own].pending &= !(1 << number);
        state.all[own].interrupted = true;
        drop(state);
        (machine.interrupt)(machine.program, number);
        state = machine.state.lock().unwrap();
        state.all[own].interrupted = false;
    }
    result
}

fn step(ns: u64) {
    if HERE.get().is_some() {
        turn(ns, |_, _| ());
    }
}

fn see<T>(act: impl FnOnce(&One) -> T) -> T {
    let (machine, own) = here();
    act(&machine.state.lock().unwrap().all[own])
}

fn halt(deadline: Option<u64>) {
    turn(CALL, |state, own| {
        let one = &mut state.all[own];
        one.life.halts += 1;
        if one.pending == 0 && !std::mem::take(&mut one.kicked) {
            (one.stand, one.since) = (Stand::Halted { deadline }, one.now);
        }
    });
}

fn interrupt(targets: impl Fn(usize) -> bool, number: u32) {
    turn(CALL, |state, own| {
        state.all[own].life.interrupts += 1;
        let now = state.all[own].now;
        for target in (0..state.all.len()).filter(|&target| targets(target)) {
            state.all[target].pending |= 1 << number;
            if matches!(state.all[target].stand, Stand::Halted { .. }) {
                state.wake(target, now);
            }
        }
    });
}

/// The platform of locks in this world.
#[derive(Clone, Copy, Debug)]
struct Turns<const WAITS: bool>;

struct Table<W>(Vec<Slot<W>>, Vec<Bucket<W>>);

fn table<W: ConstAtomic<u32>>() -> Table<W> {
    Table((0..1024).map(|_| Slot::new()).collect(), (0..256).map(|_| Bucket::new()).collect())
}

macro_rules! platform {
    ($waits:literal) => {
        // SAFETY: a CPU is a thread with a number of its own, cells are atomics, and the machine
        // remembers kicks of CPUs that have not halted yet.
        unsafe impl Platform for Turns<$waits> {
            type Byte = Timed<AtomicU8>;
            type Half = Timed<AtomicU16>;
            type Word = Timed<AtomicU32>;
            type Release = ReadModifyWrite;
            const WAITS: bool = $waits;

            fn fence(order: Ordering) {
                std::sync::atomic::fence(order);
            }
            fn relax() {
                step(PAUSE);
            }
            fn cpu() -> Option<Cpu> {
                Cpu::new(here().1)
            }
            fn slot(cpu: Cpu) -> &'static Slot<Self::Word> {
                &Self::table().0[cpu.index()]
            }
            fn waiters() -> &'static [Bucket<Self::Word>] {
                &Self::table().1
            }
            fn wait(word: &Self::Word, expected: u32, deadline_ns: Option<u64>) {
                RoundRobin::halt_unless(word, expected, deadline_ns);
            }
            fn kick(_: *const Self::Word, cpu: Cpu) {
                RoundRobin::kick(cpu.index() as u32);
            }
            fn now_ns() -> u64 {
                RoundRobin::now_ns()
            }
        }

        impl Turns<$waits> {
            fn table() -> &'static Table<Timed<AtomicU32>> {
                static TABLE: OnceLock<Table<Timed<AtomicU32>>> = OnceLock::new();
                TABLE.get_or_init(table)
            }
        }
    };
}
platform!(true);
platform!(false);

/// The world.
#[derive(Clone, Copy, Debug)]
struct RoundRobin;

impl Verbs for RoundRobin {
    type Word = Timed<AtomicU32>;
    type Aware = Turns<true>;
    type Native = Turns<false>;
    type Ordered = Turns<true>;
    type Notes = overlock::platform::Unbiased;

    fn number() -> u32 {
        here().1 as u32
    }
    fn count() -> u32 {
        here().0.turns.len() as u32
    }
    fn stopping() -> bool {
        step(1);
        Self::now_ns() >= here().0.duration
    }
    fn now_ns() -> u64 {
        see(|one| one.now)
    }
    fn away_ns() -> u64 {
        see(|one| one.life.steal_ns + one.life.halted_ns)
    }
    fn work_ns(ns: u64) {
        // Works slice by slice, so that it can be taken away in between.
        let slice = here().0.state.lock().unwrap().slice;
        (0..ns / slice).for_each(|_| step(slice));
        if !ns.is_multiple_of(slice) {
            step(ns % slice);
        }
    }
    fn relax() {
        step(PAUSE);
    }
    fn halt_unless(word: &Self::Word, expected: u32, deadline_ns: Option<u64>) {
        if word.load(Relaxed) == expected {
            halt(deadline_ns);
        }
    }
    fn sleep_ns(ns: u64) {
        let deadline = Self::now_ns() + ns;
        while Self::now_ns() < deadline && !Self::stopping() {
            halt(Some(deadline));
        }
    }
    fn kick(target: u32) {
        turn(CALL, |state, own| {
            state.all[own].life.kicks += 1;
            let now = state.all[own].now;
            state.wake(target as usize, now);
        });
    }
    fn interrupt(target: u32, number: u32) {
        interrupt(|other| other == target as usize, number);
    }
    fn interrupt_all(number: u32) {
        let own = here().1;
        interrupt(|other| other != own, number);
    }
    fn yield_to(_: Option<u32>) {
        step(CALL);
    }
    fn long_spin() {
        step(CALL);
    }
    fn pm_timer() -> u32 {
        step(CALL);
        (Self::now_ns() * 3_579_545 / 1_000_000_000) as u32 & 0x00ff_ffff
    }
    fn is_preempted(number: u32) -> bool {
        here().0.state.lock().unwrap().all[number as usize].stand == Stand::Queued
    }
    fn enter_critical() {}
    fn leave_critical() {}
}

/// The engine.
#[derive(Debug)]
struct InTurns;

/// A world is a few lines more.
impl World for InTurns {
    fn name(&self) -> &'static str {
        "turns"
    }

    fn is_real(&self) -> bool {
        false
    }

    fn pcpus(&self) -> u32 {
        2
    }

    fn locks(&self) -> Vec<Lock> {
        Lock::all().collect()
    }

    fn check(&self, _job: &Job) -> Result<(), Error> {
        Ok(())
    }

    fn run(&self, job: &Job, cancel: &AtomicBool) -> Result<Run, Failed> {
        let lock = Lock::named(&job.lock).unwrap();
        Ok(run(self, &job.config(&lock, cancel), &job.profile, lock.built)?)
    }
}

impl Engine for InTurns {
    type Verbs = RoundRobin;
    type Error = Error;
    type Yields = NoYields;
    const NAME: &'static str = "turns";

    fn availability() -> Result<(), Error> {
        Ok(())
    }

    fn wake_ns(&self) -> Option<u64> {
        Some(2 * CALL)
    }

    fn run<P: Program<RoundRobin>>(
        &self,
        config: &Config,
        p: &P,
    ) -> Result<Outcome<NoYields>, Error> {
        // The tables of the platforms belong to the process.
        static ALONE: Mutex<()> = Mutex::new(());
        let _alone = ALONE.lock();
        let life = || One {
            stand: Stand::Queued,
            now: 0,
            since: 0,
            kicked: false,
            pending: 0,
            interrupted: false,
            life: Accounts::default(),
        };
        let vcpus = config.vcpus as usize;
        let (pcpus, slice) = (config.pcpus as usize, config.slice.as_nanos() as u64);
        let all = (0..vcpus).map(|_| life()).collect();
        let mut state = State { all, queue: (0..vcpus).collect(), pcpus, slice, baton: 0 };
        state.pass(0);
        let duration = config.duration.as_nanos() as u64;
        let interrupt = |program: *const (), number| {
            // SAFETY: the pointer was made from this very program, which outlives the machine.
            unsafe { &*program.cast::<P>() }.interrupt(Vcpu::current(), number);
        };
        let program = std::ptr::from_ref(p).cast();
        let turns = (0..vcpus).map(|_| Condvar::new()).collect();
        let state = Mutex::new(state);
        let machine = Machine { state, turns, duration, interrupt, program };
        // SAFETY: only the threads of the scope below use it, and they end before it does.
        let machine: &'static Machine = unsafe { &*std::ptr::from_ref(&machine) };
        std::thread::scope(|scope| {
            for own in 0..vcpus {
                scope.spawn(move || {
                    HERE.set(Some((machine, own)));
                    let mut state = machine.state.lock().unwrap();
                    while state.baton != own {
                        state = machine.turns[own].wait(state).unwrap();
                    }
                    drop(state);
                    p.run(Vcpu::current());
                    turn(0, |state, own| state.all[own].stand = Stand::Ended);
                    HERE.set(None);
                });
            }
        });
        let vcpus = machine.state.lock().unwrap().all.iter().map(|one| one.life.clone()).collect();
        Ok(Outcome { ran: config.duration, ended_ns: duration, vcpus, yields: NoYields {} })
    }
}

#[test]
fn the_laboratorys_experiment_file_runs_and_is_the_same_every_time() {
    let text = include_str!("../../../experiments/micro.toml");
    let mut experiment = Experiment::parse("micro", text).unwrap();
    // Each turn is a switch of threads, and a tenth of a second of them takes many seconds.
    experiment.host.seconds = 0.01;
    let results = |experiment: &Experiment| {
        let plan = experiment.plan(&InTurns, 1, |_| Ok(1.0)).unwrap();
        let run = |job: &Job| World::run(&InTurns, job, &AtomicBool::new(false)).unwrap();
        let point = |job| Point::of_runs("turns", true, job, vec![run(job)]);
        let mut points: Vec<Point> = plan.jobs().map(point).collect();
        relate(&mut points);
        points
    };
    let points = results(&experiment);
    assert_eq!(points.len(), 12);
    for point in &points {
        assert_eq!((point.world.as_ref(), point.pcpus), ("turns", Some(2)));
        assert!(point.ops() > 0.0 && point.cpu_s_per_s <= 2.1, "{point:?}");
        assert_eq!(point.steal_s_per_s > Some(0.0), point.cpus == Some(8), "{point:?}");
    }
    let of_1x = |lock: &str| {
        let key = |of: &&Point| (&*of.lock, of.cpus, of.cs_ns) == (lock, Some(8), Some(1000));
        points.iter().find(key).unwrap().of_1x.unwrap().median
    };
    let of_ticket = |lock: &str| {
        let key = |of: &&Point| (&*of.lock, of.cpus, of.cs_ns) == (lock, Some(8), Some(1000));
        points.iter().find(key).unwrap().of_native_ticket.unwrap().median
    };
    // The effects that the project is about show here too.
    assert!(of_1x("native-ticket") < 0.2, "a strict spin lock collapses");
    assert!(of_ticket("hybrid") > 2.0, "one that halts and steals does not");
    experiment.host.seconds = 0.002;
    let text = |points| serde_json::to_string(&points).unwrap();
    assert_eq!(text(results(&experiment)), text(results(&experiment)));
}

#[test]
fn every_profile_and_the_hand_over_run_in_virtual_time() {
    let config = Config { duration: Duration::from_millis(10), ..Config::new(4, 2) };
    for name in Profile::names() {
        let profile = Profile::named(name).unwrap();
        let record = run(&InTurns, &config, &profile, "hybrid").unwrap();
        assert!(record.ops_per_s > 0.0, "{record:?}");
        assert_eq!(record.exits["interrupt"] > 0, name == "ebizzy", "{record:?}");
        assert_eq!(record.timer_backwards, 0);
    }
    let micro = Profile::named("micro").unwrap();
    let record = run(&InTurns, &config, &micro, HAND_OVER).unwrap();
    assert!(record.exits["halt"] > 0 && record.exits["kick"] > 0, "{record:?}");
    assert!(record.ops_per_cpu.max - record.ops_per_cpu.min <= 1, "{record:?}");
}

#[test]
fn a_world_without_weaker_orderings_refuses_what_compares_them() {
    let profile = Profile::named("micro").unwrap();
    let error = run(&InTurns, &Config::new(2, 1), &profile, "sequential-hybrid").unwrap_err();
    assert!(error.to_string().contains("sequential-hybrid does not differ"), "{error}");
}
