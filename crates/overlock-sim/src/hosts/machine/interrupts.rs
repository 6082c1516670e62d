//! Interrupts between vCPUs.

use overlock_vcpu::host::Vcpu;
use overlock_vcpu::host::sched::Event as Told;

use super::{Event, HostMachine};

impl HostMachine<'_> {
    pub(crate) fn interrupt(&mut self, from: u32, to: u32, number: u32) {
        let state = &mut self.vcpus[to as usize];
        state.pending |= 1 << (number & 31);
        state.owes = true;
        if state.pcpu.is_some() {
            state.accounts.evictions += 1;
            self.core.add(self.core.now + self.costs.interrupt, Event::Interrupt { vcpu: to });
        }
        let known = if self.hidden_ipis { to } else { from };
        self.tell(Told::Ipi { from: Vcpu(known), to: Vcpu(to) });
    }

    /// Delivers an interrupt to `vcpu`, which continues at once to take it.
    pub(super) fn interrupted(&mut self, vcpu: u32) {
        let state = &self.vcpus[vcpu as usize];
        if state.pcpu.is_none() || state.pending == 0 || state.in_handler {
            return;
        }
        self.rouse(vcpu);
        self.core.plan(vcpu, self.core.now);
    }

    /// The next interrupt that the current vCPU takes, and the work it has left after that.
    pub(super) fn take_interrupt(&mut self) -> Option<(u32, u64)> {
        let now = self.core.now;
        let vcpu = self.core.current;
        let state = &mut self.vcpus[vcpu as usize];
        if state.in_handler || state.pcpu.is_none() {
            return None;
        }
        if state.pending == 0 {
            if std::mem::take(&mut state.owes) {
                self.tell(Told::Answered { vcpu: Vcpu(vcpu) });
            }
            return None;
        }
        // Its own clock may have ended its sleep. Then it still watches lines, which the handler's
        // loads would make it forget.
        state.spin.wakes(vcpu, &mut self.lines);
        state.spin.breaks_off();
        let number = state.pending.trailing_zeros();
        state.pending &= state.pending - 1;
        state.in_handler = true;
        let left = state.at.saturating_sub(now);
        state.at = now;
        Some((number, left))
    }

    pub(super) fn end_interrupt(&mut self, left: u64) {
        let state = self.cpu();
        state.in_handler = false;
        state.at += left;
    }
}
