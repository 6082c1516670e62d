//! A spinner's pause, which may turn into sleep: see [`spin`](super::super::spin).

use super::HostMachine;
use crate::engine::Access;
use crate::hosts::coherence::Reached;
use crate::hosts::spin::{GAP_NS, Only, Sleep};

/// A sleep that only an event ends.
const FOR_EVER: u64 = u64::MAX / 4;

impl HostMachine<'_> {
    /// Begins a pause of the current vCPU. Returns whether the vCPU sleeps until there is an event.
    pub(super) fn begin_pause(&mut self, bounded: bool) -> bool {
        let (window, pause) = (self.window(self.core.current), self.costs.pause.max(1));
        let Self { vcpus, lines, core, .. } = self;
        let vcpu = core.current;
        let state = &mut vcpus[vcpu as usize];
        let at = state.at;
        if window > 0 && at.saturating_sub(state.spin.last_pause) > GAP_NS {
            state.spin.first_pause = at;
        }
        let told_at = match window {
            0 => FOR_EVER,
            _ => (state.spin.first_pause + window + pause).max(at + pause),
        };
        let until = match state.spin.pauses(at, bounded, lines) {
            Sleep::No => {
                state.at += pause;
                return false;
            }
            Sleep::For(span) => (at + span + pause).min(told_at),
            Sleep::UntilChange => told_at,
        };
        let until = Some(until).filter(|&until| until < FOR_EVER);
        if let Some(until) = until.filter(|&until| core.is_free_until(until)) {
            state.spin.skips_to(until - pause);
            state.at = until;
            return false;
        }
        state.spin.falls_asleep(at, until, pause, vcpu, lines);
        match until {
            Some(until) => {
                state.at = until;
                core.plan(vcpu, until);
            }
            None => {
                state.at = FOR_EVER;
                core.withdraw(vcpu);
            }
        }
        true
    }

    /// Ends a pause. Returns whether to report a long spin to the host.
    pub(super) fn end_pause(&mut self) -> bool {
        let window = self.window(self.core.current);
        let Self { vcpus, lines, core, costs, .. } = self;
        let vcpu = core.current;
        let state = &mut vcpus[vcpu as usize];
        // The spinner still watches its lines if its own clock ended the sleep.
        if state.spin.wakes(vcpu, lines).is_some() {
            state.spin.skips_to(state.at.saturating_sub(costs.pause.max(1)));
        }
        state.spin.last_pause = state.at;
        window > 0 && state.at.saturating_sub(state.spin.first_pause) > window
    }

    /// Makes the load of a woken spinner that is in vain, and lets the spinner sleep on. Returns
    /// whether it did; if not, the vCPU's coroutine has to continue.
    pub(super) fn repeats(&mut self, vcpu: u32) -> bool {
        let Self { vcpus, lines, rng, core, .. } = self;
        let state = &mut vcpus[vcpu as usize];
        let Some((line, only, is_coming)) = state.spin.takes_in_vain(lines) else { return false };
        let Some(pcpu) = state.pcpu else { return false };
        if state.pending != 0 || state.owes || state.in_handler || self.books_at_stop.is_some() {
            return false;
        }
        if !is_coming {
            state.spin.last_pause = state.at;
        }
        if let Reached::Arrives(at) = lines.reach(line, Access::Load, pcpu, state.at, rng) {
            state.at = at;
            state.spin.awaits_line();
            core.plan(vcpu, at);
            return true;
        }
        self.accesses += 1;
        let done = state.at + lines.own_ns(Access::Load) + only.order_ns;
        state.at = done;
        state.spin.sleeps_on(line, Only { done, ..only }, vcpu, lines);
        true
    }

    pub(super) fn begin_loop(&mut self) {
        let state = self.cpu();
        state.spin.breaks_off();
        state.spin.first_pause = state.at;
        state.spin.last_pause = state.at;
    }
}
