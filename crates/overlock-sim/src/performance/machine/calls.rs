// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of a vCPU: the way from its coroutine to the machine.
//!
//! The machine belongs to the one OS thread that runs it. Each call borrows it for a moment and
//! never across a change of coroutine, nor while the host asks the program something.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use overlock_host::sched::SpinSource;

use super::{Guest, Machine};
use crate::atomic_cell::Access;

/// Room for a workload and an interrupt on top of it, unoptimised.
const STACK: usize = 128 << 10;

type Fiber = Coroutine<(), (), (), DefaultStack>;
type Handle = Cell<*const Yielder<(), ()>>;

thread_local! {
    static MACHINE: Cell<*mut Machine<'static>> = const { Cell::new(ptr::null_mut()) };
    /// Whether the host runs, not a vCPU, so that accesses take no time.
    static ON_HOST: Cell<bool> = const { Cell::new(true) };
    static YIELDERS: Cell<*const Handle> = const { Cell::new(ptr::null()) };
}

/// Runs a machine until all vCPUs have ended, or the rest never will. The error names a vCPU that
/// panicked, and its message.
pub(crate) fn enter(machine: &mut Machine<'_>) -> Result<(), (u32, String)> {
    let vcpus = machine.vcpus.len();
    let yielders: Vec<Handle> = (0..vcpus).map(|_| Cell::new(ptr::null())).collect();
    MACHINE.set(ptr::from_mut(machine).cast());
    YIELDERS.set(yielders.as_ptr());
    let mut fibers: Vec<Fiber> = (0..vcpus).map(fiber).collect();
    let ran = catch_unwind(AssertUnwindSafe(|| {
        with(Machine::start);
        while let Some(vcpu) = with(Machine::next) {
            ON_HOST.set(false);
            let result = fibers[vcpu as usize].resume(());
            ON_HOST.set(true);
            if let CoroutineResult::Return(()) = result {
                with(|m| m.ended(vcpu));
            }
        }
    }));
    ON_HOST.set(true);
    // vCPUs that have not ended are unwound; whatever they do meanwhile takes no time.
    drop(fibers);
    let vcpu = with(|m| m.current);
    MACHINE.set(ptr::null_mut());
    YIELDERS.set(ptr::null());
    let Err(panic) = ran else { return Ok(()) };
    let text = panic.downcast_ref::<String>().cloned();
    match text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)) {
        Some(text) => Err((vcpu, text)),
        None => resume_unwind(panic),
    }
}

/// The coroutine of a vCPU.
fn fiber(vcpu: usize) -> Fiber {
    let stack = DefaultStack::new(STACK).expect("there is address space for a vCPU's stack");
    Fiber::with_stack(stack, move |yielder, ()| {
        handle(vcpu).set(ptr::from_ref(yielder));
        with(|m| m.guest).run();
    })
}

/// The cell that holds the yielder of a vCPU.
fn handle(vcpu: usize) -> &'static Handle {
    // SAFETY: `YIELDERS` points to one cell per vCPU while there are fibers, and only fibers ask.
    unsafe { &*YIELDERS.get().add(vcpu) }
}

/// Borrows the machine of this thread.
#[inline]
pub(crate) fn with<R>(call: impl FnOnce(&mut Machine<'static>) -> R) -> R {
    let machine = MACHINE.get();
    assert!(!machine.is_null(), "only vCPUs of a simulated host may do this");
    // SAFETY: `enter` has set the pointer to the machine that it borrows until it returns, and
    // accesses the machine only through here. There is one thread, and no call is made within
    // another: while the machine calls back into the program, the program may only use cells, which
    // then do not come here (`ON_HOST`).
    call(unsafe { &mut *machine })
}

/// Whether the host runs, or nothing does: time then stands still.
#[inline]
pub(crate) fn is_on_host() -> bool {
    ON_HOST.get()
}

/// Lets the host ask the program something.
pub(super) fn ask<R>(question: impl FnOnce() -> R) -> R {
    let before = ON_HOST.replace(true);
    let answer = question();
    ON_HOST.set(before);
    answer
}

/// Lets others run until this vCPU's next event.
fn suspend() {
    let yielder = handle(with(|m| m.current) as usize).get();
    // SAFETY: this is that vCPU's fiber, whose yielder lives on its own stack for as long as it
    // runs.
    unsafe { &*yielder }.suspend(());
}

/// Waits until the machine's time has reached this vCPU's time.
#[inline]
pub(crate) fn sync() {
    let ready = with(|m| {
        let at = m.vcpus[m.current as usize].at;
        // If others are due at the same moment, it is this vCPU's turn.
        let ready = at < m.horizon || at == m.now;
        if ready {
            m.now = m.now.max(at);
        }
        ready
    });
    if !ready && !is_on_host() {
        wait_turn();
    }
}

/// Plans this vCPU's next step, lets others run until then, and takes interrupts meanwhile.
#[cold]
fn wait_turn() {
    loop {
        with(|m| m.plan(m.current));
        suspend();
        if is_on_host() || deliver() {
            return;
        }
    }
}

/// Lets others run until there is an event for this vCPU, which sleeps or has lost its pCPU.
fn wait_event() {
    suspend();
    if !is_on_host() {
        deliver();
    }
}

/// Takes the pending interrupts. Returns whether this vCPU's time has come.
fn deliver() -> bool {
    while let Some((number, left)) = with(Machine::take_interrupt) {
        with(|m| m.guest).interrupt(number);
        with(|m| m.end_interrupt(left));
    }
    with(|m| m.vcpus[m.current as usize].at <= m.now)
}

/// Spends this vCPU's own time.
#[inline]
pub(crate) fn spend(ns: u64) {
    if !is_on_host() {
        with(|m| m.cpu().at += ns);
    }
}

/// Computes for `ns`, varied a little in either direction.
pub(crate) fn work(ns: u64) {
    if ns > 0 && !is_on_host() {
        with(|m| {
            let ns = m.lines.varied(ns, &mut m.rng);
            m.cpu().at += ns;
        });
    }
}

/// Accesses the cell at `address`, which `change` may change.
#[inline]
pub(crate) fn access(
    address: usize,
    kind: Access,
    order_ns: impl FnOnce(&Machine<'_>) -> u64,
    change: impl FnOnce() -> bool,
) {
    sync();
    if is_on_host() {
        change();
        return;
    }
    with(|m| {
        m.accesses += 1;
        let vcpu = m.current as usize;
        let pcpu = m.vcpus[vcpu].pcpu.unwrap_or(0);
        let line = m.lines.find(address);
        let done = m.lines.access(line, kind, pcpu, m.vcpus[vcpu].at, &mut m.rng);
        let order_ns = order_ns(m);
        let state = &mut m.vcpus[vcpu];
        state.at = done.at + order_ns;
        if kind == Access::Load {
            state.spin.reads(line, m.lines.version(line));
        } else {
            state.spin.writes();
        }
        if change() {
            m.lines.change(line);
            if m.lines.is_watched(line) {
                m.wake_watchers(line, done.seen);
            }
        }
    });
}

/// Pauses once in a loop that waits, or sleeps in it. `bounded` is for loops that read the clock.
pub(crate) fn relax(bounded: bool) {
    if is_on_host() {
        return;
    }
    if with(|m| m.begin_pause(bounded)) {
        wait_event();
        if is_on_host() {
            return;
        }
    }
    if with(Machine::end_pause) {
        long_spin();
        with(|m| m.begin_loop());
    }
}

/// Reports a long spin to the host.
pub(crate) fn long_spin() {
    call(
        |costs| costs.call,
        |m, vcpu| {
            m.vcpus[vcpu as usize].accounts.long_spins += 1;
            m.long_spin(vcpu, SpinSource::Reported);
        },
    );
}

/// Calls the host, which performs `what`. The vCPU may lose its pCPU during the call.
pub(crate) fn call(
    takes: impl FnOnce(&super::Ns) -> u64,
    what: impl FnOnce(&mut Machine<'static>, u32),
) {
    if is_on_host() {
        return;
    }
    with(|m| {
        let ns = takes(&m.costs);
        m.cpu().at += ns;
    });
    sync();
    with(|m| what(m, m.current));
    while !is_on_host() && with(|m| m.cpu().pcpu.is_none()) {
        wait_event();
    }
}

/// The running program, as the host sees it.
pub(crate) struct Hosted<'run, P>(pub(crate) &'run P);

impl<P: overlock_world::Program<crate::performance::Simulated>> Guest for Hosted<'_, P> {
    fn run(&self) {
        self.0.run(overlock_world::Vcpu::current());
    }
    fn interrupt(&self, number: u32) {
        self.0.interrupt(overlock_world::Vcpu::current(), number);
    }
    fn hint(&self, vcpu: u32) -> overlock_world::Hint {
        self.0.hint(vcpu)
    }
    fn truth(&self, vcpu: u32) -> overlock_world::Hint {
        self.0.truth(vcpu)
    }
    fn progress(&self, vcpu: u32) -> u64 {
        self.0.progress(vcpu)
    }
    fn was_away(&self, vcpu: u32, since_ns: u64, until_ns: u64) {
        self.0.was_away(vcpu, since_ns, until_ns);
    }
}
