//! What one thread did when: its recent past, and sums over all of it.

use super::state::{Site, State, Times};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug)]
struct Segment {
    from: u64,
    to: u64,
    state: State,
    mark: Mark,
}

/// Who ended a sleep, and where, or where a thread was seen to run, if that is known.
pub(crate) type Mark = (u32, Site);

/// The past of a thread, as far back as any open wait reaches.
#[derive(Debug, Default)]
pub(crate) struct Timeline {
    past: VecDeque<Segment>,
    state: State,
    since: u64,
    mark: Mark,
    limit: usize,
    pub(crate) sums: Times,
}

impl Timeline {
    pub(crate) fn new(at: u64, state: State, limit: usize) -> Self {
        Timeline { state, since: at, limit, ..Timeline::default() }
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Returns since when the thread does what it does.
    pub(crate) fn since(&self) -> u64 {
        self.since
    }

    /// Returns for how long the thread has run until a time.
    pub(crate) fn ran(&self, at: u64) -> u64 {
        let now = if self.state == State::Running { at.saturating_sub(self.since) } else { 0 };
        self.sums.of(State::Running) + now
    }

    /// It was seen to run at a place.
    pub(crate) fn ran_at(&mut self, at: u64, site: Site) {
        if self.state == State::Running && self.mark.1 != site {
            if self.mark.1 != Site(0) {
                self.turn(at, State::Running, false, None);
            }
            self.mark.1 = site;
        }
    }

    /// The state changes now; another thread may have ended it. In a wait, a thread that has been
    /// woken goes on waiting until it runs.
    pub(crate) fn turn(&mut self, at: u64, state: State, is_in_wait: bool, ender: Option<Mark>) {
        let (from, to) = (self.since, at.max(self.since));
        let counts_as = match self.state {
            State::Preempted | State::Throttled if is_in_wait => State::Waiting(0, Site(0)),
            state => state,
        };
        self.sums.add(counts_as, to - from);
        let mark = ender.unwrap_or(std::mem::take(&mut self.mark));
        if to > from {
            let now = Segment { from, to, state: self.state, mark };
            match self.past.back_mut() {
                Some(last) if (last.state, last.mark, last.to) == (now.state, mark, from) => {
                    last.to = to;
                }
                _ => self.past.push_back(now),
            }
            if self.past.len() > self.limit {
                self.past.pop_front();
            }
        }
        self.state = state;
        self.since = to;
    }

    /// If the thread is asleep, it is so.
    pub(crate) fn sleeps(&mut self, so: State) {
        if let State::Asleep(..) = self.state {
            self.state = so;
        }
    }

    /// Returns since when the thread did not run last.
    pub(crate) fn last_off(&self) -> Option<u64> {
        let last = self.past.iter().rev().take(2).find(|one| one.state != State::Running);
        last.map(|one| one.from)
    }

    /// What the thread has slept in since then is known now, and maybe who ended that.
    pub(crate) fn slept(&mut self, since: u64, so: State, by: Option<Mark>) {
        let is_since = |one: &&mut Segment| lies_since(since, (one.from, one.to));
        for one in self.past.iter_mut().rev().take_while(is_since) {
            if let State::Asleep(..) = one.state {
                one.state = so;
                one.mark = by.unwrap_or(one.mark);
            }
        }
    }

    /// Forgets what ended before `horizon`.
    pub(crate) fn forget(&mut self, horizon: u64) {
        while self.past.front().is_some_and(|segment| segment.to <= horizon) {
            self.past.pop_front();
        }
    }

    /// Calls `each` with the states between two times, in order and without a gap.
    pub(crate) fn during(&self, from: u64, to: u64, mut each: impl FnMut(u64, u64, State, Mark)) {
        let mut at = from;
        let (from_now, state, mark) = (self.since, self.state, self.mark);
        let current = Segment { from: from_now, to: u64::MAX, state, mark };
        let start = self.past.partition_point(|segment| segment.to <= from);
        for segment in self.past.range(start..).chain([&current]) {
            if at >= to {
                return;
            }
            if segment.from > at {
                let end = segment.from.min(to);
                each(at, end, State::Unknown, Mark::default());
                at = end;
            }
            let end = segment.to.min(to);
            if end > at {
                each(at, end, segment.state, segment.mark);
                at = end;
            }
        }
        if at < to {
            each(at, to, State::Unknown, Mark::default());
        }
    }
}

/// Returns whether most of some time is not before `since`: the kernel's account of a thread's time
/// may be coarse.
pub(crate) fn lies_since(since: u64, (from, to): (u64, u64)) -> bool {
    from >= since || to.saturating_sub(since) > since - from
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Reason;

    fn seen(line: &Timeline, from: u64, to: u64) -> Vec<(u64, u64, State)> {
        let mut seen = Vec::new();
        line.during(from, to, |from, to, state, _| seen.push((from, to, state)));
        seen
    }

    #[test]
    fn states_cover_any_interval() {
        use State::{Preempted, Running, Unknown};
        let mut line = Timeline::new(10, Running, 8);
        line.turn(20, Preempted, false, None);
        line.turn(30, Running, false, None);
        let all = [(5, 10, Unknown), (10, 20, Running), (20, 30, Preempted), (30, 40, Running)];
        assert_eq!(seen(&line, 5, 40), all);
        assert_eq!(seen(&line, 22, 25), [(22, 25, Preempted)]);
        assert_eq!(seen(&line, 30, 30), []);
        line.forget(20);
        assert_eq!(seen(&line, 15, 25), [(15, 20, Unknown), (20, 25, Preempted)]);
        assert_eq!((line.sums.of(Running), line.sums.of(Preempted)), (10, 10));
        line.turn(40, Preempted, true, None);
        line.turn(45, Running, true, None);
        let sums = [Preempted, State::Waiting(0, Site(0))].map(|state| line.sums.of(state));
        assert_eq!(sums, [10, 5], "late is a part of a wait");
    }

    #[test]
    fn what_a_thread_slept_in_may_be_known_late() {
        use State::{Preempted, Running};
        let asleep = |reason| State::Asleep(Reason(reason), Site(0));
        let mut line = Timeline::new(0, Running, 8);
        line.turn(10, Preempted, false, None);
        line.turn(30, Running, false, None);
        line.slept(line.last_off().unwrap(), asleep(1), None);
        line.sleeps(asleep(2));
        assert_eq!(seen(&line, 0, 30), [(0, 10, Running), (10, 30, Preempted)]);
        assert_eq!(line.state(), Running);
        line.turn(40, asleep(0), false, None);
        line.sleeps(asleep(2));
        line.turn(50, Running, false, None);
        assert_eq!(seen(&line, 40, 50), [(40, 50, asleep(2))]);
        line.slept(40, asleep(3), None);
        assert_eq!(seen(&line, 40, 50), [(40, 50, asleep(3))]);
    }

    #[test]
    fn a_past_that_is_too_long_becomes_unknown() {
        let mut line = Timeline::new(0, State::Running, 2);
        (1..=9).for_each(|at| {
            let state = if at % 2 == 0 { State::Running } else { State::Preempted };
            line.turn(at, state, false, None);
        });
        assert_eq!(seen(&line, 0, 8)[0], (0, 7, State::Unknown));
    }
}
