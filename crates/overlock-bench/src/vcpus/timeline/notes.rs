//! The state of each vCPU over time, as its host notes it.

use super::{Window, prepared};
use overlock_results::timeline::Stint;

/// The notes of a run. Room is allocated before it, because a host may note in a signal handler.
#[derive(Debug)]
pub struct Notes {
    window: Window,
    lives: Vec<Life>,
}

#[derive(Debug)]
struct Life {
    /// Its present state, which has begun and not ended.
    now: Stint,
    stints: Vec<Stint>,
}

impl Notes {
    /// Makes notes for this many vCPUs, all of which are halted.
    pub fn new(window: Window, vcpus: u32) -> Self {
        let life = |vcpu| {
            let halted = |since_ns| (vcpu, "halted", None, since_ns, u64::MAX);
            Life { now: halted(0), stints: prepared(vcpus, halted(u64::MAX)) }
        };
        Self { window, lives: (0..vcpus).map(life).collect() }
    }

    pub fn note(&mut self, vcpu: u32, (state, pcpu): (&'static str, Option<u32>), now_ns: u64) {
        let life = &mut self.lives[vcpu as usize];
        if (life.now.1, life.now.2) == (state, pcpu) {
            return;
        }
        let stint = life.until(now_ns);
        if self.window.has(stint.3, stint.4) && life.stints.len() < life.stints.capacity() {
            life.stints.push(stint);
        }
        life.now = (vcpu, state, pcpu, now_ns, u64::MAX);
    }

    /// Returns the stints of `vcpu`, including the one that goes on, unless there was no room for
    /// those before it.
    pub fn of(&self, vcpu: u32, now_ns: u64) -> Vec<Stint> {
        let life = &self.lives[vcpu as usize];
        let mut stints = life.stints.clone();
        let last = life.until(now_ns);
        if self.window.has(last.3, last.4) && stints.len() < life.stints.capacity() {
            stints.push(last);
        }
        stints
    }
}

impl Life {
    fn until(&self, to_ns: u64) -> Stint {
        let (vcpu, state, pcpu, from_ns, _) = self.now;
        (vcpu, state, pcpu, from_ns, to_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stints_follow_each_other_and_the_last_goes_on() {
        let mut notes = Notes::new(Window { from_ns: 100, to_ns: 200 }, 2);
        let (running, ready) = (("running", Some(1)), ("ready", None));
        notes.note(0, running, 50);
        notes.note(0, ready, 150);
        // It already is.
        notes.note(0, ready, 160);
        notes.note(0, running, 170);
        let expected = [
            (0, "running", Some(1), 50, 150),
            (0, "ready", None, 150, 170),
            (0, "running", Some(1), 170, 900),
        ];
        assert_eq!(notes.of(0, 900), expected);
        assert_eq!(notes.of(1, 900), [(1, "halted", None, 0, 900)]);
    }
}
