//! The oracles: what the machine checks at each access, at the beginning and end of each operation,
//! and from time to time.

use super::{Op, Status, TorturedMachine};
use crate::torture::arena::Arena;
use crate::torture::conditions::{Hold, Verb};
use crate::torture::failure::Property;
use crate::torture::faults::Fault;
use crate::torture::kind::Layout;
use crate::torture::lock_model::{
    self, Head, LOCKED, LockModel, NO_STEALING, STEALS, Waiter, is_at_rest, tail,
};
use crate::torture::trace::What;

impl TorturedMachine {
    /// The current CPU begins to ask for a lock.
    pub(crate) fn begin_lock(
        &mut self,
        lock: usize,
        verb: Verb,
        deadline: Option<u64>,
        hold: Hold,
    ) {
        self.locks[lock].users += 1;
        self.begin(lock, Some(verb), deadline, hold);
    }

    pub(crate) fn begin(
        &mut self,
        lock: usize,
        verb: Option<Verb>,
        deadline: Option<u64>,
        hold: Hold,
    ) {
        self.add(self.cpu(), What::Begin { lock, verb: name(verb) });
        let LockModel { generation, takes, .. } = self.locks[lock];
        let began = self.core.now;
        let cpu = self.me();
        cpu.ops.push(Op {
            lock,
            generation,
            verb,
            hold,
            deadline,
            level: cpu.level,
            began,
            takes,
            joined: false,
            kicks: 0,
            is_fair: false,
            kicks_as_newcomer: 0,
            cancelled: false,
        });
    }

    pub(super) fn finish(&mut self, got: bool) -> Op {
        let op = self.me().ops.pop().expect("what ends has begun");
        self.add(self.cpu(), What::End { lock: op.lock, verb: name(op.verb), got });
        op
    }

    /// The current CPU's request has been answered.
    pub(crate) fn end_lock(&mut self, got: bool) {
        let me = self.cpu();
        let op = self.finish(got);
        let (lock, model) = (op.lock, &mut self.locks[op.lock]);
        if got {
            model.owed = 0;
            self.tally.acquisitions += 1;
            match model.kind.promise.layout {
                Layout::Ticket => self.leave_queue(lock, me),
                Layout::Opaque | Layout::ReadWrite | Layout::Monitor => model.takes += 1,
                Layout::Bit | Layout::Queue => {}
            }
            self.holds(lock, op.hold);
        } else {
            model.users -= 1;
            self.cpus[me].rounds += 1;
            let was_head = model.first() == Some(me);
            if let Some(place) = model.place(me) {
                // It may come again before a promoter finds that it is gone.
                model.queue[place].left = model.kind.promise.layout == Layout::Queue;
                model.gave_up = true;
                if !model.queue[place].left {
                    model.queue.remove(place);
                }
                if was_head {
                    model.passed = 0;
                }
            }
            self.gives_up(lock, op.deadline);
        }
        self.check_wakeups();
    }

    /// The current CPU has given up, if there is a deadline because that has passed.
    pub(super) fn gives_up(&mut self, lock: usize, deadline: Option<u64>) {
        let me = self.cpu();
        let now = self.core.now + self.cpus[me].skew;
        if deadline.is_some_and(|at| now < at) {
            let text = format!("cpu {me} gave up before its deadline");
            self.fail(Some(lock), Property::Deadline, text);
        }
    }

    /// The current CPU begins to release a lock, and stops counting as one of its users: from here
    /// on the lock may be freed as soon as another CPU has had it. A reader does not free it:
    /// others may still be in their releases. Returns whether the release favours the queue head.
    pub(crate) fn begin_unlock(&mut self, lock: usize, hold: Hold) -> bool {
        self.stops_holding(lock, hold);
        let model = &mut self.locks[lock];
        model.users -= 1;
        let is_last = model.users == 0 && hold == Hold::Write;
        if is_last && !self.draining && self.rng.one_in(self.world.free_one_in) {
            model.closing = Some(self.core.current as usize);
        }
        self.begin(lock, None, None, hold);
        let is_fair = self.rng.one_in(self.world.fair_one_in);
        self.me().ops.last_mut().expect("it has begun").is_fair = is_fair;
        is_fair
    }

    pub(crate) fn end_unlock(&mut self) {
        let lock = self.finish(true).lock;
        self.me().rounds += 1;
        if self.locks[lock].closing == Some(self.cpu()) {
            self.locks[lock].closing = None;
            self.locks[lock].freed = true;
            self.note_fault(Fault::Freed);
            self.add(self.cpu(), What::Freed { lock });
        }
        self.check_wakeups();
    }

    /// The current CPU begins the computation of a refresh. Returns its number.
    pub(crate) fn begin_refresh(&mut self, lock: usize) -> u32 {
        let me = self.cpu();
        let model = &mut self.locks[lock];
        model.begun += 1;
        let number = model.begun;
        if let Some(other) = model.owner.replace(me) {
            let text = format!("cpu {me} computes what cpu {other} is computing");
            self.fail(Some(lock), Property::Exclusion, text);
        }
        number
    }

    /// The current CPU has an answer from a shared value: the number of a refresh, `Some(None)` if
    /// the value is torn, or `None` if its own computation has failed. `known` and `begun` are
    /// their values when it asked.
    pub(crate) fn end_ask(&mut self, known: u32, begun: u32, answer: Option<Option<u32>>) {
        let me = self.cpu();
        let op = self.finish(answer.is_some());
        let model = &mut self.locks[op.lock];
        model.users -= 1;
        model.owed = 0;
        self.tally.acquisitions += 1;
        self.cpus[me].rounds += 1;
        let least = match op.verb {
            Some(Verb::Last) => known,
            Some(Verb::Fresh) => known.max(begun) + 1,
            _ => known + 1,
        };
        let asked = name(op.verb);
        let wrong = match answer {
            None => None,
            Some(None) => Some(format!("{asked}: cpu {me} gets a torn value")),
            Some(Some(got)) => {
                model.known = model.known.max(got);
                (got < least).then(|| {
                    format!(
                        "{asked}: cpu {me} gets refresh {got}, but {least} is the oldest it may"
                    )
                })
            }
        };
        if let Some(text) = wrong {
            return self.fail(Some(op.lock), Property::Freshness, text);
        }
        if model.users == 0 && !self.draining && self.rng.one_in(self.world.free_one_in) {
            self.locks[op.lock].freed = true;
            self.note_fault(Fault::Freed);
            self.add(me, What::Freed { lock: op.lock });
        }
        self.check_wakeups();
    }

    /// Puts a new lock into the memory of one that was freed.
    pub(crate) fn revive(&mut self, lock: usize) {
        Arena::clear_line(lock);
        let model = &mut self.locks[lock];
        // The generation exposes operations that began on the previous lock.
        let generation = model.generation + 1;
        *model =
            LockModel { generation, takes: model.takes, ..LockModel::new(model.kind, model.verbs) };
    }

    /// Checks an access by the current CPU.
    pub(super) fn watch(&mut self, offset: u32, old: u32, new: Option<u32>) {
        let me = self.cpu();
        let Some((lock, rest)) = Arena::lock_at(offset) else {
            if lock_model::comes_again(old, new)
                && let Some(op) = self.cpus[me].ops.last_mut()
                && let Some(place) = self.locks[op.lock].left_place(me)
            {
                op.joined = true;
                self.locks[op.lock].queue[place].left = false;
            }
            return;
        };
        let model = &mut self.locks[lock];
        let allowed = self.cpus[me]
            .op()
            .is_some_and(|op| op.lock == lock && op.generation == model.generation && !model.freed);
        if !allowed {
            let what = if model.freed { "has been freed" } else { "belongs to another CPU by now" };
            let text = format!("cpu {me} touches a lock that {what}");
            return self.fail(Some(lock), Property::Freed, text);
        }
        let Some(new) = new else { return };
        match model.kind.promise.layout {
            Layout::Opaque | Layout::Monitor => {}
            Layout::ReadWrite => self.watch_read_write(lock, rest, old, new),
            Layout::Ticket if rest != 0 => {
                model.queue.push_back(Waiter { cpu: me, left: false, skipped: false, ticket: old });
            }
            Layout::Ticket => model.word = new,
            Layout::Bit => {
                model.word = new;
                if old & LOCKED == 0 && new & LOCKED != 0 {
                    model.taker = Some((me, self.core.now));
                    model.takes += 1;
                }
            }
            Layout::Queue => {
                model.word_changes(old, new);
                let disables =
                    new & !old & NO_STEALING != 0 && model.kind.promise.disables_stealing;
                if disables && new & STEALS == 0 {
                    let text = format!("cpu {me} disables stealing without a count");
                    return self.fail(Some(lock), Property::Bypass, text);
                }
                let joined = tail(new) != tail(old);
                if joined && tail(new) != 0 {
                    // A place that it gave up has been skipped.
                    model.queue.retain(|waiter| waiter.cpu != me || !waiter.left);
                    model.queue.push_back(Waiter {
                        cpu: me,
                        left: false,
                        skipped: false,
                        ticket: 0,
                    });
                    self.cpus[me].ops.last_mut().expect("it asks").joined = true;
                }
                if old & LOCKED == 0 && new & LOCKED != 0 {
                    model.taker = Some((me, self.core.now));
                    model.takes += 1;
                    self.taken(lock, old);
                }
            }
        }
    }

    /// The current CPU has taken a lock with a queue, whose word was `old`.
    fn taken(&mut self, lock: usize, old: u32) {
        let me = self.cpu();
        if self.locks[lock].place(me).is_some() {
            return self.leave_queue(lock, me);
        }
        let Some(first) = self.locks[lock].first().filter(|&cpu| !self.is_late(cpu, lock)) else {
            return;
        };
        let model = &mut self.locks[lock];
        let promise = model.kind.promise;
        model.passed += 1;
        let passed = model.passed;
        self.tally.longest_bypass = self.tally.longest_bypass.max(passed);
        // Without a count, a cheap release that missed the queue has cleared what came with
        // `NO_STEALING`, and this CPU is the only one to pass.
        if promise.disables_stealing && old & NO_STEALING != 0 && old & STEALS != 0 {
            let text =
                format!("cpu {me} passes cpu {first}, the queue head, which has disabled stealing");
            self.fail(Some(lock), Property::Bypass, text);
        } else if promise.max_bypass.is_some_and(|most| passed > most) {
            let text = format!("cpu {first}, queue head, has been passed {passed} times");
            self.fail(Some(lock), Property::Bypass, text);
        } else if let Some(most) = promise.passes_awake.filter(|_| !self.locks[lock].gave_up) {
            let when = match self.locks[lock].head {
                Head::Awake if passed > most => "which has not halted",
                Head::Back => "which was halted before and has disabled stealing since",
                _ => return,
            };
            let text = format!("cpu {me} passes cpu {first}, the queue head, {when}");
            self.fail(Some(lock), Property::Bypass, text);
        }
    }

    /// A CPU takes the lock out of the queue. All waiters before it must have given up.
    fn leave_queue(&mut self, lock: usize, cpu: usize) {
        let model = &mut self.locks[lock];
        model.passed = 0;
        model.head = Head::Awake;
        let place = model.place(cpu);
        let left = place.and_then(|place| model.queue.remove(place));
        if !model.kind.promise.in_order {
            return;
        }
        let mut before = place.unwrap_or(self.locks[lock].queue.len());
        // Whoever gave up before it can't come back.
        let queue = &mut self.locks[lock].queue;
        for index in (0..before).rev().filter(|&index| queue[index].left).collect::<Vec<_>>() {
            queue.remove(index);
            before -= 1;
        }
        let ahead = self.locks[lock].queue.iter().take(before).map(|waiter| waiter.cpu);
        let passed = ahead.into_iter().find(|&other| !self.is_late(other, lock));
        let wrong = match (left, passed) {
            (None, _) => Some("though it is not in the queue".to_owned()),
            (Some(Waiter { skipped: true, .. }), _) => Some("after it was skipped".to_owned()),
            (_, Some(other)) => Some(format!("before cpu {other}, which joined the queue first")),
            (Some(_), None) => None,
        };
        if let Some(wrong) = wrong {
            return self.fail(Some(lock), Property::Order, format!("cpu {cpu} is served {wrong}"));
        }
        self.locks[lock].queue.iter_mut().take(before).for_each(|waiter| waiter.skipped = true);
    }

    /// Whether a CPU that asks for a lock is past its deadline, so that it may give up.
    pub(super) fn is_late(&self, cpu: usize, lock: usize) -> bool {
        let state = &self.cpus[cpu];
        let asks = |op: &&Op| op.lock == lock && op.verb.is_some();
        let deadline = state.ops.iter().find(asks).and_then(|op| op.deadline);
        deadline.is_some_and(|at| self.core.now + state.skew >= at)
    }

    /// Nothing will happen any more: checks that all CPUs have finished, and everything is as
    /// before.
    pub(super) fn end(&mut self) {
        let stuck: Vec<String> = (0..self.cpus.len())
            .filter(|&cpu| self.cpus[cpu].status != Status::Done)
            .map(|cpu| format!("cpu {cpu}"))
            .collect();
        if !stuck.is_empty() {
            let text = format!("nothing will ever wake {}", stuck.join(", "));
            return self.fail(None, Property::Progress, text);
        }
        for lock in 0..self.locks.len() {
            if !self.locks[lock].freed && self.is_marked(lock) {
                let text =
                    format!("no CPU uses the lock, but its word is {:#x}", self.locks[lock].word);
                return self.fail(Some(lock), Property::Residue, text);
            }
        }
        for (index, &(offset, before)) in self.memory.table_entries.iter().enumerate() {
            let now = Arena::peek(offset);
            if now != before {
                let text = format!("no CPU waits, but entry {index} of the table is {now:#x}");
                return self.fail(None, Property::Residue, text);
            }
        }
    }

    /// Whether the words of a lock that no CPU uses say otherwise.
    fn is_marked(&self, lock: usize) -> bool {
        let model = &self.locks[lock];
        let peek = |cell: u32| Arena::peek(64 * lock as u32 + 4 * cell);
        match model.kind.promise.layout {
            Layout::Opaque => false,
            Layout::ReadWrite => !super::family::is_at_rest(model.word),
            // Its lock comes behind the condition variable.
            Layout::Monitor => [0, 1, 2, 3, 9].into_iter().any(|cell| peek(cell) != 0),
            Layout::Bit => model.word != 0,
            Layout::Queue => !is_at_rest(model.word),
            Layout::Ticket => !model.queue.is_empty(),
        }
    }
}

fn name(verb: Option<Verb>) -> &'static str {
    match verb {
        None => "unlock",
        Some(Verb::Lock) => "lock",
        Some(Verb::Try) => "try",
        Some(Verb::Until) => "try until",
        Some(Verb::Join) => "join",
        Some(Verb::Fresh) => "fresh",
        Some(Verb::Last) => "last",
        Some(Verb::Wait) => "wait",
        Some(Verb::Notify) => "notify",
    }
}
