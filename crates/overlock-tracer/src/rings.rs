// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rings of all processors, and their records in the order of time.
//!
//! All events of one processor write into one ring. A record may come later than its time says, so
//! the last moments are kept for the next turn.

use crate::platform::{self, Ring};
use crate::points::{Point, Spec};
use crate::records::{self, Record};
use crate::tracer::Tracer;
use anyhow::{Context, Result};
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// Events and their rings.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// What the number of an event stands for, and what its samples contain.
    points: HashMap<u64, (Point, u64)>,
    /// The ring of each processor, and the event that owns it.
    rings: Vec<(i32, Ring, OwnedFd)>,
    events: Vec<OwnedFd>,
    bytes: Vec<u8>,
    /// Records that wait for their turn: time, and where their bytes are.
    pending: Vec<(u64, std::ops::Range<usize>)>,
}

/// A processor's ring; an ordinary user may have half a megabyte.
const USERS_RING: usize = 256 << 10;
/// A record is in its ring at most this long after its time stamp.
pub(crate) const LATEST_NS: u64 = 2_000_000;

impl Rings {
    /// Opens an event of one processor, of all threads or of one and those that it will start. It
    /// records at once.
    pub(crate) fn add(
        &mut self,
        cpu: i32,
        thread: Option<i32>,
        spec: &Spec,
        size: usize,
    ) -> Result<()> {
        let mut attr = spec.attr(size, thread.is_none());
        attr.set_inherit(u64::from(thread.is_some()));
        let what = || format!("the kernel does not allow the event {:?}", spec.point);
        let event = platform::open(&mut attr, thread.unwrap_or(-1), cpu).with_context(what)?;
        if !spec.filter.is_empty() {
            platform::filter(&event, &spec.filter).context("can't filter a tracepoint")?;
        }
        let id = platform::id(&event).context("an event has no number")?;
        self.points.insert(id, (spec.point, spec.parts));
        match self.rings.iter().find(|(of, ..)| *of == cpu) {
            None => {
                let ring = Ring::new(&event, size).context("can't map the ring of an event")?;
                platform::enable(&event).context("can't start an event")?;
                self.rings.push((cpu, ring, event));
            }
            Some((.., owner)) => {
                platform::share_ring(&event, owner).context("events can't share a ring")?;
                platform::enable(&event).context("can't start an event")?;
                self.events.push(event);
            }
        }
        Ok(())
    }

    /// Opens the records of switches of threads, and of all threads that they will start, and
    /// samples of their processors' clocks.
    pub(crate) fn follow(&mut self, threads: &[u32]) -> Result<()> {
        let tasks = Spec::new(Point::Tasks, None, 0, String::new());
        let clock = Spec::new(Point::Clock, None, records::STACK, String::new());
        for cpu in online()? {
            for thread in threads {
                let thread = i32::try_from(*thread).context("a thread's id is out of range")?;
                for spec in [&tasks, &clock] {
                    match self.add(cpu, Some(thread), spec, USERS_RING) {
                        Err(error) if has_ended(&error) => {}
                        done => done?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Waits until there may be something to read, at most for some milliseconds.
    pub(crate) fn wait(&self, milliseconds: i32) {
        let events: Vec<&OwnedFd> = self.rings.iter().map(|(.., event)| event).collect();
        platform::poll(&events, milliseconds);
    }

    /// Hands the records of all processors to `tracer` in the order of time, if they are older than
    /// `age_ns`; all of them if that is 0.
    pub(crate) fn read(&mut self, tracer: &mut Tracer, age_ns: u64) {
        let now = platform::now_ns();
        for (_, ring, _) in &mut self.rings {
            let start = self.bytes.len();
            ring.drain(&mut self.bytes);
            let mut at = start;
            let pending = &mut self.pending;
            records::split(&self.bytes[start..], |record| {
                if let Some(parsed) = Record::new(record) {
                    pending.push((parsed.time, at..at + record.len()));
                }
                at += record.len();
            });
        }
        self.pending.sort_by_key(|(time, _)| *time);
        let until = if age_ns == 0 { u64::MAX } else { now.saturating_sub(age_ns) };
        let count = self.pending.partition_point(|(time, _)| *time < until);
        for (_, range) in &self.pending[..count] {
            if let Some(record) = Record::new(&self.bytes[range.clone()]) {
                tracer.record(&record, self.points.get(&record.event).copied());
            }
        }
        // What is left moves to the front.
        let mut kept = Vec::new();
        let mut rest = self.pending.split_off(count);
        for (_, range) in &mut rest {
            let start = kept.len();
            kept.extend_from_slice(&self.bytes[range.clone()]);
            *range = start..kept.len();
        }
        (self.bytes, self.pending) = (kept, rest);
    }
}

/// Returns whether a thread had ended before its events could be opened.
fn has_ended(error: &anyhow::Error) -> bool {
    let cause = error.downcast_ref::<std::io::Error>();
    cause.and_then(std::io::Error::raw_os_error) == Some(libc::ESRCH)
}

/// Returns the numbers of the processors that are online.
pub(crate) fn online() -> Result<Vec<i32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")
        .context("can't read which processors are online (/sys is missing?)")?;
    let range = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        Some(first.parse::<i32>().ok()?..=last.parse().ok()?)
    };
    Ok(text.split(',').filter_map(range).flatten().collect())
}
