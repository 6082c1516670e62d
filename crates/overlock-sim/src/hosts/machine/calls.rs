//! The calls of a vCPU: the way from its coroutine to the machine.
//!
//! Each call borrows the machine for a moment: see [`engine`](crate::engine).

use std::panic::resume_unwind;
use std::ptr;

use overlock_vcpu::host::sched::SpinSource;

use super::HostMachine;
use crate::engine::{self, Access, Cost, Observer, Touch};
use crate::hosts::coherence::{LineId, Reached};

/// Runs a machine until all vCPUs have ended, or the rest never will. The error names a vCPU that
/// panicked, and its message.
pub(crate) fn enter(machine: &mut HostMachine<'_>) -> Result<(), (u32, String)> {
    // SAFETY: `engine::run` keeps the machine only until it returns, and `'static` reaches no code
    // that could keep a reference from it: vCPUs are unwound by then.
    let machine: &mut HostMachine<'static> = unsafe { &mut *ptr::from_mut(machine).cast() };
    let vcpus = machine.vcpus.len();
    let Err(panic) = engine::run(machine, vcpus) else { return Ok(()) };
    match engine::message(&*panic) {
        Some(text) => Err((machine.core.current, text)),
        None => resume_unwind(panic),
    }
}

/// Borrows the machine of this thread.
#[inline]
pub(crate) fn with<R>(call: impl FnOnce(&mut HostMachine<'static>) -> R) -> R {
    engine::with(call)
}

/// Whether the host runs, or nothing does: time then stands still.
#[inline]
pub(crate) fn is_on_host() -> bool {
    engine::is_on_host::<HostMachine<'static>>()
}

/// Lets the host ask the program something.
pub(super) fn ask<R>(question: impl FnOnce() -> R) -> R {
    <HostMachine<'static> as engine::Machine>::home(|home| home.ask(question))
}

/// Lets others run until this vCPU's next event.
fn suspend() {
    engine::suspend::<HostMachine<'static>>();
}

/// Waits until the machine's time has reached this vCPU's time.
#[inline]
pub(crate) fn sync() {
    let ready = with(|m| m.core.has_turn(m.vcpus[m.core.current as usize].at));
    if !ready && !is_on_host() {
        wait_turn();
    }
}

/// Plans this vCPU's next step, lets others run until then, and takes interrupts meanwhile.
#[cold]
fn wait_turn() {
    loop {
        with(|m| m.plan(m.core.current));
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
    while let Some((number, left)) = with(HostMachine::take_interrupt) {
        with(|m| m.guest).interrupt(number);
        with(|m| m.end_interrupt(left));
    }
    with(|m| m.vcpus[m.core.current as usize].at <= m.core.now)
}

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

/// The atomic cell of a simulated host, holding a `T`.
pub type Timed<T> = engine::Word<T, Coherent>;

/// The cells of vCPUs: an access costs what its cache line costs, and wakes spinners that watch the
/// line.
#[derive(Debug)]
pub struct Coherent;

impl Cost for Coherent {
    /// The line, and when others can see the access; `None` on the host.
    type Charged = Option<(LineId, u64)>;

    #[inline]
    fn charge(touch: &Touch) -> Self::Charged {
        sync();
        if touch.access == Access::ReadModifyWrite && with(HostMachine::drains) {
            sync();
        }
        if is_on_host() {
            return None;
        }
        let (line, reached) = with(|m| {
            m.accesses += 1;
            m.reach(touch)
        });
        let seen = match reached {
            Reached::Here => None,
            Reached::Arrives(at) if touch.access == Access::Store => Some(at),
            Reached::Arrives(at) => {
                with(|m| m.cpu().at = at);
                sync();
                if is_on_host() {
                    return None;
                }
                None
            }
        };
        Some((line, with(|m| m.perform(touch, line, seen))))
    }
}

impl Observer for Coherent {
    #[inline]
    fn sees(touch: &Touch, charged: Self::Charged, old: u32, new: Option<u32>) {
        let Some((line, seen)) = charged else { return };
        if new.is_some_and(|new| new != old) {
            with(|m| {
                m.lines.change(line);
                if m.lines.is_watched(line) {
                    m.wake_watchers(line, touch.address, seen);
                }
            });
        }
    }
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
    if with(HostMachine::end_pause) {
        long_spin();
        with(|m| m.begin_loop());
    }
}

pub(crate) fn long_spin() {
    call(
        |costs| costs.call,
        |m, vcpu| {
            m.vcpus[vcpu as usize].accounts.long_spins += 1;
            m.long_spin(vcpu, SpinSource::Reported);
        },
    );
    while !is_on_host() && with(|m| m.handles()) {
        call(|_| 0, HostMachine::go_on);
    }
}

/// Calls the host, which performs `what`. The vCPU may lose its pCPU during the call.
pub(crate) fn call(
    takes: impl FnOnce(&super::Ns) -> u64,
    what: impl FnOnce(&mut HostMachine<'static>, u32),
) {
    if is_on_host() {
        return;
    }
    with(|m| {
        let ns = m.lines.varied(takes(&m.costs), &mut m.rng);
        let from = m.cpu().at;
        m.cpu().at += ns;
        m.is_in_host(from, from + ns);
    });
    sync();
    with(|m| what(m, m.core.current));
    while !is_on_host() && with(|m| m.cpu().pcpu.is_none()) {
        wait_event();
    }
}

/// Kicks `target`. The kick takes effect half-way through the call: the way to the host takes about
/// as long as the way back.
pub(crate) fn kick(target: u32) {
    if is_on_host() {
        return;
    }
    let call = with(|m| {
        let call = m.lines.varied(m.costs.call, &mut m.rng);
        let from = m.cpu().at;
        m.cpu().at += call / 2;
        m.is_in_host(from, from + call);
        call
    });
    sync();
    with(|m| {
        m.cpu().accounts.kicks += 1;
        let wakes = m.kick(target);
        m.cpu().at += call - call / 2 + wakes;
    });
    while !is_on_host() && with(|m| m.cpu().pcpu.is_none()) {
        wait_event();
    }
}
