//! What one policy, or the kernel, answered to the spins of a recording, and what came of it.

use overlock_vcpu::host::Nanos;
use std::collections::BTreeMap;

/// Who got the spinner's processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The spinner kept it.
    Stayed,
    /// Another of the group.
    Member(u32),
    /// A thread of another group, or none.
    Stranger,
}

/// One answer to a spin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The thread that was named, and when.
    pub(crate) named: Option<(u32, Nanos)>,
    /// When that thread ran next.
    pub(crate) ran: Option<Nanos>,
    /// What the kernel did.
    pub(crate) kernel: Option<Choice>,
    /// Whom the spinner waited for, where that is known.
    pub(crate) awaited: Option<u32>,
}

impl Answer {
    /// How long the named thread waited until it ran, in nanoseconds.
    pub(crate) fn waited(&self) -> Option<u64> {
        Some((self.ran? - self.named?.1).0)
    }

    /// Whether the kernel gave the processor to the named thread.
    pub(crate) fn agrees(&self) -> Option<bool> {
        Some(self.kernel? == Choice::Member(self.named?.0))
    }
}

/// All answers.
#[derive(Debug)]
pub(crate) struct Score {
    pub(crate) name: String,
    pub(crate) answers: Vec<Answer>,
    /// How often each reason was given.
    pub(crate) reasons: BTreeMap<&'static str, u64>,
    /// For each thread, the answers that named it since it last ran.
    open: BTreeMap<u32, Vec<usize>>,
}

impl Score {
    pub(crate) fn new(name: &str) -> Self {
        let (answers, open) = (Vec::new(), BTreeMap::new());
        Self { name: name.into(), answers, reasons: BTreeMap::new(), open }
    }

    /// A spin, of which this may be known.
    pub(crate) fn begin(&mut self, awaited: Option<u32>) {
        self.answers.push(Answer { awaited, ..Answer::default() });
    }

    /// Counts what is no spin, and returns its number.
    pub(crate) fn count(&mut self) -> usize {
        self.begin(None);
        self.answers.len() - 1
    }

    pub(crate) fn name(&mut self, number: usize, thread: u32, at: Nanos, why: &'static str) {
        *self.reasons.entry(why).or_default() += 1;
        self.answers[number].named = Some((thread, at));
        self.open.entry(thread).or_default().push(number);
    }

    pub(crate) fn names_none(&mut self, why: &'static str) {
        *self.reasons.entry(why).or_default() += 1;
    }

    /// A thread runs: those who named it were waiting for that.
    pub(crate) fn ran(&mut self, thread: u32, at: Nanos) {
        for number in self.open.remove(&thread).unwrap_or_default() {
            self.answers[number].ran = Some(at);
        }
    }

    /// Events are missing: it is not known when the named threads ran.
    pub(crate) fn lose(&mut self) {
        self.open.clear();
    }

    /// What the kernel did at spin `number`.
    pub(crate) fn close(&mut self, number: usize, choice: Choice) {
        self.answers[number].kernel = Some(choice);
        if let Choice::Member(thread) = choice {
            self.answers[number].named = Some((thread, Nanos::ZERO));
        }
    }

    /// What the kernel did, to be compared with this answer.
    pub(crate) fn compare(&mut self, number: usize, choice: Choice) {
        self.answers[number].kernel = Some(choice);
    }

    /// The right ones of the answers of which the truth is known, and how many those are.
    pub(crate) fn right(&self) -> (usize, usize) {
        let known = self.answers.iter().filter(|answer| answer.awaited.is_some());
        let right = |answer: &&Answer| answer.awaited == answer.named.map(|(thread, _)| thread);
        (known.clone().filter(right).count(), known.count())
    }
}
