//! `Loom`: the platform on which every interleaving happens.
//!
//! A CPU is a thread of the model. [`World`] sets what else a run explores. Anything that depends
//! on the world and not on the scheduler (spurious wake-ups, time-outs, a full table) is a world of
//! its own, so that each model stays small.
//!
//! | clause | answer |
//! |---|---|
//! | P0 | The cells and the fence of loom. Tests weaken an ordering, or number states wrongly, on purpose. |
//! | P1, P3 | Two ways to halt. [`Halt::Futex`]: the word is compared under the one lock of a kernel that a kick takes too; a kick finds the CPU that sleeps on the address and is forgotten if there is none. [`Halt::Token`]: the word is compared without any lock, and a kick leaves a token with the CPU, which ends its present or next halt, as KVM's `pv_unhalted` does. Memory is ordered only by a token that ends a halt. |
//! | P2 | [`World::spurious`] halts of each CPU end at once. |
//! | P4 | See P3. Only the address of the word is used. |
//! | P6 | The first few pauses of an acquisition do nothing, so that the budgets of spin loops are spent and the paths behind them explored. Later ones yield, so that loom sees that a spin loop depends on another CPU. |
//! | P7, P8 | The CPUs of a model are numbered as they are started. [`World::numberless`] CPUs have no number. |
//! | P9 | Each CPU has a clock, which advances by [`World::tick_ns`] at each reading: budgets are spent after two readings. This goes far beyond the clause: the clocks of two CPUs differ by as much as their numbers of readings. No lock may rely on more for its safety. |
//! | P10 | `WAITS` is a parameter. |
//! | P11 | A sequence runs under a lock of its CPU, and `membarrier` takes the locks of all other CPUs in turn: sequences under way end, and those that begin later see what was written before. Depending on [`World::barrier`] it may refuse, or lie; the models must find a lie. |
//!
//! With [`Halt::Futex`], loom finds a lost wake-up as a deadlock. With [`Halt::Token`], a CPU that
//! polls its token for ever is one.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release};

use loom::sync::atomic::AtomicBool;
use loom::sync::{Condvar, Mutex};
use overlock::atomic::Atomic;
use overlock::platform::{Bucket, CheapRelease, Costs, Cpu, LEVELS, Platform, Slot};

use super::cells::{Byte, Half, Part, Trail, Word};
use super::sites;
use super::states::Numbers;

/// The most CPUs that a model can have.
pub(crate) const CPUS: usize = 4;

const NODE_CELLS: usize = 4;

/// After how many polls a token counts as lost.
const POLLS_MAX: u32 = 100;

/// The model of CPUs, with or without halting, which are found by number or by address. See the
/// [module documentation](self).
#[derive(Debug)]
pub(crate) struct Loom<const WAITS: bool, const BY_ADDRESS: bool, const CHEAP: bool = false>;

/// If `CHEAP`, releases by sequences of two steps.
#[derive(Debug)]
pub(crate) struct Sequences<const CHEAP: bool>;

/// CPUs that halt in their slot and are kicked by number, like vCPUs.
pub(crate) type Halting = Loom<true, false>;
/// CPUs that halt on any word and are kicked by its address, like threads.
pub(crate) type ByAddress = Loom<true, true>;
/// As [`Halting`], with cheap releases.
pub(crate) type Cheap = Loom<true, false, true>;
/// As [`ByAddress`], with cheap releases.
pub(crate) type CheapByAddress = Loom<true, true, true>;
/// CPUs that never halt.
pub(crate) type Spinning = Loom<false, false>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Halt {
    /// It sleeps under a kernel's lock.
    Futex,
    /// It waits until it has a token.
    Token,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Barrier {
    /// It cuts sequences off, as it should.
    Done,
    /// It does nothing, and returns false.
    Refused,
    /// It does nothing but returns true, which is wrong.
    Pretended,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) halt: Halt,
    /// How many halts of each CPU end at once, spuriously.
    pub(crate) spurious: u32,
    /// Whether a halt with a deadline lasts until the deadline; otherwise it lasts until a kick.
    pub(crate) timeouts: bool,
    /// How far each reading of the clock advances it.
    pub(crate) tick_ns: u64,
    /// How far the clock of each CPU is ahead of that of the CPU before it.
    pub(crate) ahead_ns: u64,
    /// How many pauses between two halts do nothing: enough to spend the budgets of spin loops.
    /// Further pauses yield.
    pub(crate) pauses: u32,
    /// From this CPU on, CPUs have no number.
    pub(crate) numberless: usize,
    /// Whether the table of waiters is full from the start.
    pub(crate) full: bool,
    /// Whether a failing compare-exchange may see an old value.
    pub(crate) stale_failures: bool,
    /// How many nested interrupts CPU 0 gets: each at its next pause, halt or kick.
    pub(crate) interrupts: usize,
    /// Whether a CPU lets others run before it comes back from a spurious halt, and when it has
    /// found a CPU to kick.
    pub(crate) lingers: bool,
    /// How the states of queue nodes are numbered.
    pub(crate) numbers: Numbers,
    /// What `membarrier` does to sequences.
    pub(crate) barrier: Barrier,
    /// Whether a CPU that owes a kick to writers that go first forgets it.
    pub(crate) forgets: bool,
    /// See [`Costs::reserved_ns`].
    pub(crate) reserved_ns: u64,
    /// See [`Costs::outside_wakes`].
    pub(crate) outside_wakes: u32,
}

/// The worlds of most models.
pub(crate) mod worlds {
    use super::{Barrier, CPUS, Halt, Numbers, World};

    /// Halting under a kernel's lock, with every budget spent at the second reading of the clock.
    pub(crate) const FUTEX: World = World {
        halt: Halt::Futex,
        spurious: 0,
        timeouts: false,
        tick_ns: 10_000_000,
        ahead_ns: 0,
        pauses: 8,
        numberless: CPUS,
        full: false,
        stale_failures: false,
        interrupts: 0,
        lingers: false,
        numbers: Numbers::Right,
        barrier: Barrier::Done,
        forgets: false,
        reserved_ns: u64::MAX,
        outside_wakes: 0,
    };
    pub(crate) const STALE: World = World { stale_failures: true, ..FUTEX };
    pub(crate) const TOKEN: World = World { halt: Halt::Token, ..STALE };
    pub(crate) const SPURIOUS: World = World { spurious: 1, ..FUTEX };
    pub(crate) const SPIN: World = World { pauses: 0, ..STALE };
    pub(crate) const TIMEOUT: World = World { timeouts: true, ..FUTEX };
}

#[derive(Default)]
struct Own {
    clock_ns: Cell<u64>,
    halts: Cell<u32>,
    /// The classes of waiters to which it belongs while it sleeps.
    classes: Cell<u32>,
    pauses: Cell<u32>,
    paused_at: Cell<u64>,
    interrupted: Cell<usize>,
    /// Whether its last change of a read-write lock has cleared `FIRST`.
    owes: Cell<bool>,
}

/// One execution of a model; each execution creates its own.
struct Machine {
    world: World,
    slots: Vec<Slot<Word>>,
    buckets: [Bucket<Word>; 1],
    own: Vec<Own>,
    accesses: Cell<u64>,
    /// The address each CPU sleeps on, or zero.
    kernel: Mutex<[usize; CPUS]>,
    beds: Vec<Condvar>,
    tokens: Vec<AtomicBool>,
    /// Held by each CPU while it is in a sequence.
    sequences: Vec<Mutex<()>>,
    /// How many entries of the table of waiters are in use.
    used: &'static Cell<usize>,
}

thread_local! {
    static KEPT: RefCell<Vec<*mut dyn Any>> = const { RefCell::new(Vec::new()) };
    static MACHINE: Cell<Option<&'static Machine>> = const { Cell::new(None) };
    static HANDLER: Cell<Option<&'static dyn Fn(usize)>> = const { Cell::new(None) };
    static DEADLOCKED: Cell<bool> = const { Cell::new(false) };
}

loom::thread_local! {
    static ME: Cell<usize> = Cell::new(0);
}

/// Keeps `value` until the next execution starts.
pub(crate) fn keep<T: 'static>(value: T) -> &'static T {
    let kept = Box::into_raw(Box::new(value));
    KEPT.with_borrow_mut(|all| all.push(kept));
    // SAFETY: the box lives until `open` frees it at the start of the next execution. By then the
    // threads of this execution have ended, or will never run again because it has failed.
    unsafe { &*kept }
}

/// Starts an execution in a `world` with `cpus` CPUs. (Even an idle CPU costs time, because each
/// execution creates every cell anew.)
pub(crate) fn open(world: World, cpus: usize) {
    MACHINE.set(None);
    HANDLER.set(None);
    DEADLOCKED.set(false);
    for kept in KEPT.take() {
        // SAFETY: `keep` made this from a box, and it is taken out of the list once; `keep`
        // explains why nothing uses it any more.
        drop(unsafe { Box::from_raw(kept) });
    }
    let own = |cpu| Own { clock_ns: Cell::new(cpu as u64 * world.ahead_ns), ..Own::default() };
    // An entry of a full table names no waiter.
    let entry = if world.full { 1 << 16 } else { 0 };
    let used = keep(Cell::new(0));
    MACHINE.set(Some(keep(Machine {
        world,
        slots: (0..cpus).map(|_| slot(world.numbers)).collect(),
        buckets: [Bucket::with(|| Word::new(entry, Part::Table(used)))],
        own: (0..cpus).map(own).collect(),
        accesses: Cell::new(0),
        kernel: Mutex::new([0; CPUS]),
        beds: (0..cpus).map(|_| Condvar::new()).collect(),
        tokens: (0..cpus).map(|_| AtomicBool::new(false)).collect(),
        sequences: (0..cpus).map(|_| Mutex::new(())).collect(),
        used,
    })));
}

/// A slot with no node in use.
fn slot(numbers: Numbers) -> Slot<Word> {
    let mut made = 0;
    Slot::with(|| {
        // Each node has four cells, of which the first is its state; the nodes come first.
        let is_state = made < LEVELS * NODE_CELLS && made % NODE_CELLS == 0;
        made += 1;
        Word::new(0, Part::Node(Trail::default(), is_state.then_some(numbers)))
    })
}

/// Sets what an interrupt does. The handler gets the number of interrupts that it is nested in.
pub(crate) fn on_interrupt(handler: &'static dyn Fn(usize)) {
    HANDLER.set(Some(handler));
}

/// Ends an execution after all CPUs have left: checks that no CPU has left an entry in the table of
/// waiters.
pub(crate) fn close() {
    assert_eq!(machine().used.get(), 0, "all CPUs have left, but not the table of waiters");
}

/// Runs `body` on `cpus` CPUs until all are done. The caller is CPU 0.
pub(crate) fn run(cpus: usize, body: impl Fn(usize) + 'static) {
    run_kept(cpus, keep(body));
}

/// Compiled only once, with what loom has to do for a thread.
fn run_kept(cpus: usize, body: &'static dyn Fn(usize)) {
    let others: Vec<_> = (1..cpus)
        .map(|cpu| {
            loom::thread::spawn(move || {
                ME.with(|me| me.set(cpu));
                body(cpu);
            })
        })
        .collect();
    body(0);
    for other in others {
        other.join().expect("a panic of a CPU ends the model");
    }
}

/// The number of the calling CPU.
pub(crate) fn me() -> usize {
    ME.with(Cell::get)
}

/// Advances the calling CPU's clock.
pub(crate) fn pass(ns: u64) {
    let clock = &machine().me().clock_ns;
    clock.set(clock.get() + ns);
}

/// Lets other CPUs run, in a world that lingers.
pub(crate) fn linger() {
    if machine().world.lingers {
        loom::thread::yield_now();
    }
}

pub(crate) const CLEARS_FIRST: &str = "who clears FIRST kicks a waiter";
/// The class of such waiters.
const GOES_FIRST: u32 = 1 << 3;

/// The calling CPU has changed the word of a read-write lock.
pub(crate) fn owes_a_kick(owes: bool) {
    machine().me().owes.set(owes);
}

/// Whether loom has found that no CPU can continue. All that remains is to unwind the CPU that
/// halted last, which does not access anything any more.
pub(crate) fn is_deadlocked() -> bool {
    DEADLOCKED.get()
}

/// Counts an access to a cell.
pub(crate) fn accessed() {
    let accesses = &machine().accesses;
    accesses.set(accesses.get() + 1);
}

/// Whether a failing compare-exchange may see an old value.
pub(crate) fn stale_failures() -> bool {
    machine().world.stale_failures
}

fn machine() -> &'static Machine {
    MACHINE.get().expect("a model starts with `open`")
}

impl Machine {
    fn me(&self) -> &Own {
        &self.own[me()]
    }

    fn interrupt(&self) {
        let level = self.me().interrupted.get() + 1;
        if me() == 0 && level <= self.world.interrupts {
            self.me().interrupted.set(level);
            HANDLER.get().expect("a model with interrupts has a handler")(level);
        }
    }

    fn pause(&self) {
        let own = self.me();
        // Consecutive pauses count as one.
        if own.paused_at.replace(self.accesses.get()) == self.accesses.get() {
            return;
        }
        own.pauses.set(own.pauses.get() + 1);
        if own.pauses.get() > self.world.pauses {
            loom::thread::yield_now();
        }
    }

    fn halt(&self, word: &Word, holds: impl Fn() -> bool, deadline_ns: Option<u64>) {
        let own = self.me();
        own.pauses.set(0);
        own.halts.set(own.halts.get() + 1);
        if own.halts.get() <= self.world.spurious {
            return linger();
        }
        match deadline_ns {
            Some(at) if self.world.timeouts => {
                if holds() {
                    own.clock_ns.set(own.clock_ns.get().max(at));
                    // A waiter that looks again and again depends on another CPU.
                    if self.world.reserved_ns < u64::MAX {
                        loom::thread::yield_now();
                    }
                }
            }
            _ => match self.world.halt {
                Halt::Futex => self.sleep(std::ptr::from_ref(word), holds),
                Halt::Token => self.poll(holds),
            },
        }
    }

    fn sleep(&self, word: *const Word, holds: impl Fn() -> bool) {
        let mut kernel = self.kernel.lock().expect("a panic ends the model");
        if holds() {
            kernel[me()] = word.addr();
            while kernel[me()] != 0 {
                let slept = catch_unwind(AssertUnwindSafe(|| self.beds[me()].wait(kernel)));
                kernel = match slept {
                    Ok(awake) => awake.expect("a panic ends the model"),
                    Err(deadlock) => {
                        DEADLOCKED.set(true);
                        resume_unwind(deadlock);
                    }
                };
            }
        }
    }

    fn poll(&self, holds: impl Fn() -> bool) {
        if !holds() {
            return;
        }
        let mut polls = 0;
        while !self.tokens[me()].swap(false, Acquire) {
            loom::thread::yield_now();
            polls += 1;
            assert!(polls < POLLS_MAX, "lost wake-up: CPU {} has halted for ever", me());
        }
    }

    /// Runs `steps` so that a [`membarrier`](Self::membarrier) of another CPU waits for their end.
    fn sequence(&self, steps: impl FnOnce() -> bool) -> bool {
        let _inside = self.sequences[me()].lock().expect("a panic ends the model");
        steps()
    }

    fn membarrier(&self) -> bool {
        if self.world.barrier == Barrier::Done {
            for other in (0..self.sequences.len()).filter(|&cpu| cpu != me()) {
                drop(self.sequences[other].lock().expect("a panic ends the model"));
            }
        }
        self.world.barrier != Barrier::Refused
    }

    /// Wakes those of `cpus` that sleep on `word` and are of these classes, but at most `most` of
    /// them.
    fn wake(&self, word: *const Word, cpus: Range<usize>, classes: u32, most: usize) -> bool {
        let mut kernel = self.kernel.lock().expect("a panic ends the model");
        let is_meant = |&sleeper: &usize| {
            kernel[sleeper] == word.addr() && self.own[sleeper].classes.get() & classes != 0
        };
        let sleepers: Vec<_> = cpus.filter(is_meant).collect();
        for &sleeper in sleepers.iter().take(most) {
            kernel[sleeper] = 0;
            self.beds[sleeper].notify_one();
        }
        !sleepers.is_empty()
    }
}

// SAFETY: the cells say what each operation does, and the table above answers P11.
unsafe impl<const CHEAP: bool> CheapRelease<Word, Half> for Sequences<CHEAP> {
    const EXISTS: bool = CHEAP;

    fn set_lowest_bit(word: &Word) -> bool {
        if CHEAP {
            word.set_lowest_bit(Location::caller())
        } else {
            word.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
        }
    }

    fn clear_low_byte(word: &Word) -> bool {
        let at = Location::caller();
        CHEAP && machine().sequence(|| word.clear_low_byte(at))
    }

    fn add_half(cell: &Half, n: u16, unless: u16) -> bool {
        let at = Location::caller();
        CHEAP && machine().sequence(|| cell.add_unless(at, n, unless))
    }

    fn membarrier() -> bool {
        machine().membarrier()
    }
}

// SAFETY: the table above answers the contract clause by clause.
unsafe impl<const WAITS: bool, const BY_ADDRESS: bool, const CHEAP: bool> Platform
    for Loom<WAITS, BY_ADDRESS, CHEAP>
{
    type Byte = Byte;
    type Half = Half;
    type Word = Word;

    const WAITS: bool = WAITS;
    const KICKS_BY_ADDRESS: bool = BY_ADDRESS;

    type Release = Sequences<CHEAP>;

    fn costs() -> Costs {
        let World { reserved_ns, outside_wakes, .. } = machine().world;
        let costs = Costs::DEFAULT.with_pauses_per_look(1);
        costs.with_reserved_ns(reserved_ns).with_outside_wakes(outside_wakes)
    }

    fn fence(order: Ordering) {
        let at = Location::caller();
        let ((order, _), _) = sites::access(at, "fence", (order, Relaxed));
        if order != Relaxed {
            loom::sync::atomic::fence(order);
        }
    }

    fn relax() {
        let machine = machine();
        machine.interrupt();
        machine.pause();
    }

    fn nap(_ns: u64) {
        loom::thread::yield_now();
    }

    fn cpu() -> Option<Cpu> {
        Cpu::new(me()).filter(|_| me() < machine().world.numberless)
    }

    fn slot(cpu: Cpu) -> &'static Slot<Word> {
        &machine().slots[cpu.index()]
    }

    fn waiters() -> &'static [Bucket<Word>] {
        &machine().buckets
    }

    fn wait(word: &Word, expected: u32, deadline_ns: Option<u64>) {
        Self::wait_as(word, expected, deadline_ns, u32::MAX);
    }

    fn wait_as(word: &Word, expected: u32, deadline_ns: Option<u64>, classes: u32) {
        let machine = machine();
        machine.me().classes.set(classes);
        machine.interrupt();
        machine.halt(word, || word.holds(expected), deadline_ns);
    }

    fn kick(word: *const Word, cpu: Cpu) {
        let machine = machine();
        machine.interrupt();
        match machine.world.halt {
            Halt::Futex => {
                machine.wake(word, cpu.index()..cpu.index() + 1, u32::MAX, 1);
            }
            Halt::Token => {
                // This is a swap, because loom orders the writes of several CPUs only if they are
                // read-modify-writes.
                machine.tokens[cpu.index()].swap(true, Release);
            }
        }
    }

    fn kick_any_of(word: *const Word, classes: u32) -> bool {
        machine().wake(word, 0..CPUS, classes, 1)
    }

    fn kick_every_of(word: *const Word, classes: u32) -> bool {
        let machine = machine();
        let owes = classes == GOES_FIRST && machine.me().owes.get();
        if owes && machine.world.forgets {
            return false;
        }
        let has_kicked = machine.wake(word, 0..CPUS, classes, CPUS);
        if owes && has_kicked {
            sites::reach(CLEARS_FIRST);
        }
        has_kicked
    }

    fn now_ns() -> u64 {
        let machine = machine();
        let clock = &machine.me().clock_ns;
        clock.set(clock.get() + machine.world.tick_ns);
        clock.get()
    }
}
