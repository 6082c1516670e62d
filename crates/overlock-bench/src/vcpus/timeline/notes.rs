//! The state of each vCPU over time, as its host notes it.

use super::{Window, prepared};
use overlock_results::timeline::{Standing, Stint};

/// The notes of a run. Room is allocated before it, because a host may note in a signal handler.
#[derive(Debug)]
pub struct Notes {
    window: Window,
    lives: Vec<Life>,
}

#[derive(Debug)]
struct Life {
    /// Its present state, and since when.
    standing: Standing,
    since_ns: u64,
    stints: Vec<Stint>,
}

impl Notes {
    /// Makes notes for this many vCPUs, all of which are halted.
    pub fn new(window: Window, vcpus: u32) -> Self {
        let standing = Standing::Halted;
        let blank = Stint { standing, from_ns: u64::MAX, to_ns: u64::MAX };
        let life = |_| Life { standing, since_ns: 0, stints: prepared(vcpus, blank) };
        Self { window, lives: (0..vcpus).map(life).collect() }
    }

    /// Records that `vcpu` is in this state from `now_ns` on.
    pub fn note(&mut self, vcpu: u32, standing: Standing, now_ns: u64) {
        let life = &mut self.lives[vcpu as usize];
        if life.standing == standing {
            return;
        }
        let stint = life.until(now_ns);
        if self.window.has(stint.from_ns, stint.to_ns) && life.stints.len() < life.stints.capacity()
        {
            life.stints.push(stint);
        }
        (life.standing, life.since_ns) = (standing, now_ns);
    }

    /// Returns the stints of `vcpu`, including the one that goes on, unless there was no room for
    /// those before it.
    pub fn of(&self, vcpu: u32, now_ns: u64) -> Vec<Stint> {
        let life = &self.lives[vcpu as usize];
        let mut stints = life.stints.clone();
        let last = life.until(now_ns);
        if self.window.has(last.from_ns, last.to_ns) && stints.len() < life.stints.capacity() {
            stints.push(last);
        }
        stints
    }
}

impl Life {
    fn until(&self, to_ns: u64) -> Stint {
        Stint { standing: self.standing, from_ns: self.since_ns, to_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stints_follow_each_other_and_the_last_goes_on() {
        let mut notes = Notes::new(Window { from_ns: 100, to_ns: 200 }, 2);
        let running = Standing::Running(1);
        notes.note(0, running, 50);
        notes.note(0, Standing::Ready, 150);
        // It already is.
        notes.note(0, Standing::Ready, 160);
        notes.note(0, running, 170);
        let stint = |standing, from_ns, to_ns| Stint { standing, from_ns, to_ns };
        let expected = [
            stint(Standing::Running(1), 50, 150),
            stint(Standing::Ready, 150, 170),
            stint(Standing::Running(1), 170, 900),
        ];
        assert_eq!(notes.of(0, 900), expected);
        assert_eq!(notes.of(1, 900), [stint(Standing::Halted, 0, 900)]);
    }
}
