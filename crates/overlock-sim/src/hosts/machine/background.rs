//! Other load on the host, which takes pCPUs from vCPUs that own them.

use super::{Event, HostMachine};

impl HostMachine<'_> {
    /// Plans when other load next takes `pcpu`, if there is any.
    pub(super) fn plan_background(&mut self, pcpu: u32) {
        if let Some(background) = &self.background {
            let after = self.rng.below(2 * background.every_ns) + 1;
            self.core.add(self.core.now + after, Event::Background { pcpu });
        }
    }

    /// Lets other load on the host take `pcpu` for a while. The scheduler does not know about it.
    pub(super) fn background(&mut self, pcpu: u32) {
        let most = self.background.as_ref().map_or(0, |background| 2 * background.for_ns);
        let ns = self.rng.below(most + 1);
        if let Some(owner) = self.scheduler.owner(pcpu) {
            self.vcpus[owner as usize].accounts.run_delay_ns += ns;
            self.delay(owner, ns);
        }
        self.plan_background(pcpu);
    }
}
