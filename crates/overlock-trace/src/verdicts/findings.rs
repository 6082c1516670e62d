//! Everything that was found.

use super::finding::{self, Facts, Finding, Loop};
use super::naming::Names;
use super::verdict::{Verdict, share};
use crate::analysis::{Report, State, Times};
use crate::names::Class;
use crate::sources::tracer::Tracer;

/// A stack at which threads slept.
#[derive(Clone, Debug)]
pub struct Stack {
    pub functions: Vec<String>,
    pub kind: &'static str,
    /// What the holders did, if it was a lock.
    pub holder: Times,
    /// For how long, in nanoseconds.
    pub slept_ns: u64,
    /// Who ended most of that.
    pub ender: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Findings {
    pub report: Report,
    /// What that means.
    pub verdict: Verdict,
    /// What threads slept for, the longest first.
    pub rows: Vec<Finding>,
    /// Loops that wait, the most frequent first.
    pub loops: Vec<Loop>,
    /// Each stack at which threads slept.
    pub stacks: Vec<Stack>,
    pub facts: Facts,
}

impl Findings {
    pub(crate) fn new(report: Report, tracer: &Tracer, facts: Facts) -> Self {
        let mut names = Names::new(tracer);
        let rows = finding::rows(&report, &mut names);
        let loops = finding::loops(&report, &mut names);
        let stacks = report.rows.iter().map(|row| {
            let named = names.of_row(&row.key);
            let ender = row.enders.iter().max_by_key(|(_, (_, ns))| *ns).map(|(ender, _)| *ender);
            let ender = ender.map(|(thread, site)| match site.0 {
                0 => names.thread(thread),
                _ => names.place(site),
            });
            Stack {
                functions: names.stack(row.key.site),
                kind: named.kind.name(),
                holder: row.holder,
                slept_ns: row.waited_ns,
                ender,
            }
        });
        let stacks = stacks.collect();
        Findings { stacks, ..Findings::judged(report, rows, loops, facts) }
    }

    #[must_use]
    pub fn judged(report: Report, rows: Vec<Finding>, loops: Vec<Loop>, facts: Facts) -> Self {
        let verdict = Verdict::default();
        let mut found = Findings { report, verdict, rows, loops, stacks: Vec::new(), facts };
        found.verdict = found.judge();
        found
    }

    /// Returns the places of a class, those of several processes together, the longest first.
    #[must_use]
    pub fn of(&self, class: Class) -> Vec<Finding> {
        Finding::together(self.rows.iter().filter(|one| one.class == class))
    }

    /// Returns whether the program ended before its threads could wait for more than their start.
    #[must_use]
    pub fn is_short(&self) -> bool {
        const SHORT_NS: u64 = 20_000_000;
        self.report.elapsed_ns < SHORT_NS
    }

    /// Returns the share of all processor time that samples stand for.
    #[must_use]
    pub fn cpu_share(&self, samples: u64) -> f64 {
        let ns = samples.saturating_mul(self.report.sample_ns);
        share(ns, self.report.time.of(State::Running)).min(1.0)
    }

    /// Returns whether the memory of locks has said when they were free.
    #[must_use]
    pub fn knows_free(&self) -> bool {
        let locks = self.rows.iter().filter(|one| one.class == Class::Lock);
        let late = |one: &Finding| one.row.holder.of(State::Late);
        let known = locks.filter(|one| one.row.knows_free()).map(late).sum::<u64>();
        known * 2 > self.verdict.holder.of(State::Late)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{Analysis, Limits, Site, Wakes, What};
    use crate::names::Kind;
    use crate::names::word::Op;
    use crate::sources::points::Layout;
    use crate::sources::records::Stack;
    use crate::verdicts::Cure;

    const MS: u64 = 1_000_000;
    /// The instruction of a wait, and its kind.
    type Place = (u64, Kind);

    fn tracer(is_looking: bool) -> Tracer {
        let layout = (!is_looking).then(Layout::default);
        Tracer::new(Analysis::new(Limits::default()), layout)
    }

    /// The first thread of a process waits for a lock from the start.
    fn waits(tracer: &mut Tracer, process: u32, (instruction, kind): Place) {
        tracer.images.exec(process);
        tracer.adopt(0, process, process);
        let stack = Stack { frame: 0, pointer: 0, instruction, bytes: &[] };
        let site = tracer.images.site(process, &stack, Op::Other);
        let site = tracer.images.site_of(site, kind);
        tracer.event(0, process, What::Wait { lock: 16, site, is_lock: false });
        tracer.event(0, process, What::Out(State::asleep()));
    }

    /// Another thread that has run all the time releases the lock.
    fn releases(tracer: &mut Tracer, (process, thread): (u32, u32), at: u64, by_reader: bool) {
        if tracer.adopt(0, process, thread) {
            tracer.event(0, thread, What::In);
        }
        let how = Wakes { by_reader, ..Wakes::default() };
        tracer.event(at, thread, What::Wake { lock: 16, how });
        tracer.event(at, thread, What::WakeEnd);
    }

    /// Returns the cure for processes that wait at these places: writers for 100 ms, while readers
    /// take turns, and all others for 60 ms.
    fn cure_of(places: &[Place]) -> Cure {
        let mut tracer = tracer(true);
        for (process, place) in (10..).step_by(10).zip(places) {
            waits(&mut tracer, process, *place);
            let (turns, is_writer) = if place.1 == Kind::Writer { (10, true) } else { (6, false) };
            for turn in 1..=turns {
                let reader = process + 1 + turn % 2;
                releases(&mut tracer, (process, reader), u64::from(turn) * 10 * MS, is_writer);
            }
            tracer.event(u64::from(turns) * 10 * MS, process, What::Got);
        }
        cure(&mut tracer)
    }

    fn cure(tracer: &mut Tracer) -> Cure {
        let analysis = Analysis::new(Limits::default());
        let report = std::mem::replace(&mut tracer.analysis, analysis).report(100 * MS);
        Findings::new(report, tracer, Facts::default()).verdict.cure
    }

    #[test]
    fn readers_that_pass_a_writer_are_told_of_if_they_matter_most() {
        let (writer, mutex) = ((1, Kind::Writer), (9, Kind::Mutex));
        assert_eq!(cure_of(&[writer]), Cure::LetWritersPass);
        assert_eq!(cure_of(&[writer, mutex]), Cure::LetWritersPass);
        assert_eq!(cure_of(&[writer, (2, Kind::Writer), mutex]), Cure::LetWritersPass);
        // Others wait for longer, at one place that is the worst, or at several.
        let others = [(5, Kind::Mutex), (6, Kind::Mutex), (7, Kind::Mutex)];
        assert_eq!(cure_of(&[&[writer], &others[..]].concat()), Cure::ShortenSection);
        assert_eq!(cure_of(&[writer, mutex, mutex, mutex]), Cure::ShortenSection);
        let two_writers = [writer, (2, Kind::Writer), mutex, mutex];
        assert_eq!(cure_of(&two_writers), Cure::ShortenSection, "the advice names a mutex");
    }

    /// Two threads sleep for a socket, again and again, for as long as TCP may put off an answer.
    #[test]
    fn sleeps_are_told_by_their_length_and_by_who_sleeps() {
        let found = |length: u64, threads: u32| {
            let mut tracer = tracer(false);
            let reason = tracer.kernel.reason(Kind::Socket, "recvfrom, a socket");
            let asleep = State::Asleep(reason, Site(7));
            for at in (0..20).map(|round| round * (length + MS)) {
                for thread in 10..10 + threads {
                    tracer.adopt(0, 10, thread);
                    tracer.event(at, thread, What::In);
                    tracer.event(at + MS, thread, What::Out(asleep));
                }
            }
            let analysis = Analysis::new(Limits::default());
            let end = 20 * (length + MS);
            let report = std::mem::replace(&mut tracer.analysis, analysis).report(end);
            let found = Findings::new(report, &tracer, Facts::default());
            (found.rows[0].is_delayed(), found.rows[0].row.always_here(end))
        };
        assert_eq!(found(44 * MS, 2), (true, Some(2)));
        assert_eq!(found(30 * MS, 3), (false, Some(3)));
        assert_eq!(found(2 * MS, 2), (false, None), "they run, too");
        assert_eq!(found(44 * MS, 1), (true, None), "one is no pool");
    }

    /// A thread sleeps a little for a disk, and others wait for what nobody tells them.
    #[test]
    fn waits_that_nobody_ends_matter_more_than_a_little_outside() {
        let cure_if = |is_ended: bool| {
            let mut tracer = tracer(false);
            let asleep = State::Asleep(tracer.kernel.reason(Kind::Disk, "fsync"), Site(7));
            tracer.adopt(0, 20, 20);
            tracer.event(0, 20, What::In);
            tracer.event(MS, 20, What::Out(asleep));
            waits(&mut tracer, 10, (1, Kind::Condvar));
            tracer.event(96 * MS, 20, What::In);
            tracer.event(97 * MS, 20, What::Exit);
            if is_ended {
                releases(&mut tracer, (10, 11), 2000 * MS, false);
            }
            tracer.event(2000 * MS, 10, What::WaitEnd);
            cure(&mut tracer)
        };
        assert_eq!([false, true].map(cure_if), [Cure::FindWork, Cure::Unblock]);
    }

    /// The lock's memory tells of readers that come while a writer waits.
    #[test]
    fn readers_that_come_past_a_writer_count_whatever_they_do() {
        let cure_with = |passed: Option<u64>| {
            let mut tracer = tracer(false);
            tracer.readers.passed.extend(passed.map(|lock| (10, lock)));
            waits(&mut tracer, 10, (1, Kind::Writer));
            releases(&mut tracer, (10, 11), 90 * MS, false);
            tracer.event(90 * MS, 10, What::Got);
            cure(&mut tracer)
        };
        let cures = [Some(16), Some(24), None].map(cure_with);
        assert_eq!(cures, [Cure::LetWritersPass, Cure::ShortenSection, Cure::ShortenSection]);
    }

    #[test]
    fn a_writer_whose_holder_is_not_known_waits_for_readers_by_tracepoints_only() {
        let cure_by = |is_looking| {
            let mut tracer = tracer(is_looking);
            waits(&mut tracer, 10, (1, Kind::Writer));
            tracer.event(100 * MS, 10, What::WaitEnd);
            cure(&mut tracer)
        };
        assert_eq!((cure_by(false), cure_by(true)), (Cure::LetWritersPass, Cure::LookCloser));
    }
}
