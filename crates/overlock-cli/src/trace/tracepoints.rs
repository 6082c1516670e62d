// SPDX-License-Identifier: MIT OR Apache-2.0
//! The source for root: the kernel's tracepoints of futexes and of the scheduler, on all processors.
//!
//! All events of one processor write into one ring. Records of all rings are put into the order of
//! time; a record may come later than its time says, so the last moments are kept for the next turn.

use super::images::Images;
use super::kernel::Kernel;
use super::platform::{self, Attr, Ring, Tracefs};
use super::records::{self, Field, Kind, Record};
use super::spin::Spins;
use anyhow::{Context, Result};
use overlock_trace::{Analysis, Event, Off, What};
use perf_event_open_sys::bindings as perf;
use std::collections::HashMap;
use std::os::fd::OwnedFd;

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Point {
    Switch,
    Waking,
    FutexWait,
    FutexWake,
    FutexEnd,
    Clock,
    Tasks,
}

/// Where the tracepoints' data has what is needed.
#[derive(Debug)]
struct Layout {
    prev_pid: Field,
    prev_state: Field,
    next_pid: Field,
    woken_pid: Field,
    futex_address: Field,
    futex_op: Field,
}

/// The events and rings of all processors.
#[derive(Debug)]
pub(crate) struct Tracepoints {
    layout: Layout,
    points: HashMap<u64, (Point, u64)>,
    rings: Vec<(Ring, OwnedFd)>,
    events: Vec<OwnedFd>,
    bytes: Vec<u8>,
    /// Records that wait for their turn: time, and where their bytes are.
    pending: Vec<(u64, std::ops::Range<usize>)>,
}

/// Bytes of the waiter's stack that are copied to find its call site: the C library's frames are
/// between the system call and the program, and take about half of this.
const STACK_BYTES: u32 = 1024;
/// Samples per second and processor, off the beat of the timers of most programs.
pub(crate) const CLOCK_HZ: u64 = 499;
/// Memory for the rings of all processors.
const RING_BYTES: usize = 64 << 20;
const LARGEST_RING: usize = 16 << 20;
const SMALLEST_RING: usize = 1 << 20;
/// A record is in its ring at most this long after its time stamp.
const LATEST_NS: u64 = 2_000_000;

/// Operations of the futex call that wait, without their flags.
const WAITS: [u32; 5] = [0, 6, 9, 11, 13];
/// The operation without its flags.
const FUTEX_COMMAND: u64 = 127;
const FUTEX_FLAGS: [u32; 4] = [0, 128, 256, 384];

impl Tracepoints {
    /// Opens the events of all processors; they record at once.
    pub(crate) fn open() -> Result<Self> {
        let tracefs = Tracefs::open()?;
        let format = |name: &str| tracefs.read(&format!("{name}/format"));
        let switch = format("sched/sched_switch")?;
        let waking = format("sched/sched_waking")?;
        let futex = format("syscalls/sys_enter_futex")?;
        let find = |format: &str, field: &str| {
            Field::find(format, field).with_context(|| format!("a tracepoint has no {field}"))
        };
        let layout = Layout {
            prev_pid: find(&switch, "prev_pid")?,
            prev_state: find(&switch, "prev_state")?,
            next_pid: find(&switch, "next_pid")?,
            woken_pid: find(&waking, "pid")?,
            futex_address: find(&futex, "uaddr")?,
            futex_op: find(&futex, "op")?,
        };
        let mut new = Tracepoints {
            layout,
            points: HashMap::new(),
            rings: Vec::new(),
            events: Vec::new(),
            bytes: Vec::new(),
            pending: Vec::new(),
        };
        let cpus = online()?;
        let share = RING_BYTES / cpus.len().max(1);
        let size = (share.next_power_of_two()).clamp(SMALLEST_RING, LARGEST_RING);
        let specs = Spec::all(&tracefs)?;
        for cpu in cpus {
            new.add_cpu(cpu, &specs, size)?;
        }
        for event in new.rings.iter().map(|(_, event)| event).chain(&new.events) {
            platform::enable(event).context("can't start an event")?;
        }
        Ok(new)
    }

    fn add_cpu(&mut self, cpu: i32, specs: &[Spec], size: usize) -> Result<()> {
        let mut first: Option<(Ring, OwnedFd)> = None;
        for spec in specs {
            let mut attr = spec.attr(size);
            let what = || format!("the kernel does not allow the event {:?}", spec.point);
            let event = platform::open(&mut attr, -1, cpu).with_context(what)?;
            if !spec.filter.is_empty() {
                platform::filter(&event, &spec.filter).context("can't filter a tracepoint")?;
            }
            let id = platform::id(&event).context("an event has no number")?;
            self.points.insert(id, (spec.point, spec.parts));
            match &first {
                None => {
                    let ring = Ring::new(&event, size).context("can't map the ring of an event")?;
                    first = Some((ring, event));
                }
                Some((_, ring)) => {
                    platform::share_ring(&event, ring).context("events can't share a ring")?;
                    self.events.push(event);
                }
            }
        }
        self.rings.extend(first);
        Ok(())
    }

    /// Waits until there may be something to read, at most for some milliseconds.
    pub(crate) fn wait(&self, milliseconds: i32) {
        let events: Vec<&OwnedFd> = self.rings.iter().map(|(_, event)| event).collect();
        platform::poll(&events, milliseconds);
    }

    /// Hands the records of all processors to `tracer` in the order of time: all of them if `is_last`.
    pub(crate) fn read(&mut self, tracer: &mut Tracer, is_last: bool) {
        let now = platform::now_ns();
        for (ring, _) in &mut self.rings {
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
        let until = if is_last { u64::MAX } else { now.saturating_sub(LATEST_NS) };
        let count = self.pending.partition_point(|(time, _)| *time < until);
        for (_, range) in &self.pending[..count] {
            if let Some(record) = Record::new(&self.bytes[range.clone()]) {
                tracer.record(&record, self.points.get(&record.event).copied(), &self.layout);
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

/// One event of each processor.
#[derive(Debug)]
struct Spec {
    point: Point,
    tracepoint: Option<u64>,
    parts: u64,
    filter: String,
}

impl Spec {
    fn all(tracefs: &Tracefs) -> Result<Vec<Self>> {
        let id = |name: &str| -> Result<Option<u64>> {
            let text = tracefs.read(&format!("{name}/id"))?;
            Ok(Some(text.trim().parse().context("the number of a tracepoint is no number")?))
        };
        let (switch, futex) = (id("sched/sched_switch")?, id("syscalls/sys_enter_futex")?);
        let is_wait = |is: &str, join: &str| {
            let ops = WAITS.iter().flat_map(|op| FUTEX_FLAGS.map(|flag| op + flag));
            ops.map(|op| format!("op {is} {op}")).collect::<Vec<_>>().join(join)
        };
        let spec =
            |point, tracepoint, parts, filter: String| Spec { point, tracepoint, parts, filter };
        let raw = records::RAW;
        Ok(vec![
            spec(Point::Tasks, None, 0, String::new()),
            // The idle task has no reason to leave its processor.
            spec(Point::Switch, switch, raw, "prev_pid == 0".into()),
            spec(Point::Switch, switch, raw | records::CALLCHAIN, "prev_pid != 0".into()),
            spec(Point::Waking, id("sched/sched_waking")?, raw, String::new()),
            spec(Point::FutexWait, futex, raw | records::STACK, is_wait("==", " || ")),
            spec(Point::FutexWake, futex, raw, is_wait("!=", " && ")),
            spec(Point::FutexEnd, id("syscalls/sys_exit_futex")?, 0, String::new()),
            spec(Point::Clock, None, records::STACK, String::new()),
        ])
    }

    fn attr(&self, ring: usize) -> Attr {
        let mut attr = Attr { sample_type: records::ALWAYS | self.parts, ..Attr::default() };
        attr.set_disabled(1);
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        attr.set_watermark(1);
        attr.__bindgen_anon_2.wakeup_watermark = u32::try_from(ring / 4).unwrap_or(u32::MAX);
        attr.__bindgen_anon_1.sample_period = 1;
        match (self.point, self.tracepoint) {
            (_, Some(id)) => {
                attr.type_ = perf::PERF_TYPE_TRACEPOINT;
                attr.config = id;
            }
            (Point::Clock, None) => {
                attr.type_ = perf::PERF_TYPE_SOFTWARE;
                attr.config = perf::PERF_COUNT_SW_CPU_CLOCK.into();
                attr.set_exclude_kernel(1);
                attr.set_exclude_idle(1);
                attr.set_freq(1);
                attr.__bindgen_anon_1.sample_freq = CLOCK_HZ;
            }
            (_, None) => {
                attr.type_ = perf::PERF_TYPE_SOFTWARE;
                attr.config = perf::PERF_COUNT_SW_DUMMY.into();
                attr.set_context_switch(1);
                attr.set_task(1);
                attr.set_comm(1);
                attr.set_comm_exec(1);
                attr.set_mmap(1);
                attr.set_mmap2(1);
            }
        }
        if self.parts & records::CALLCHAIN != 0 {
            attr.set_exclude_callchain_user(1);
        }
        if self.parts & records::STACK != 0 {
            attr.sample_regs_user = records::REGISTERS;
            attr.sample_stack_user = STACK_BYTES;
        }
        attr
    }
}

/// Returns the numbers of the processors that are online.
fn online() -> Result<Vec<i32>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online")
        .context("can't read which processors are online (/sys is missing?)")?;
    let range = |part: &str| {
        let (first, last) = part.trim().split_once('-').unwrap_or((part.trim(), part.trim()));
        Some(first.parse::<i32>().ok()?..=last.parse().ok()?)
    };
    Ok(text.split(',').filter_map(range).flatten().collect())
}

/// Turns records into events of the traced processes.
pub(crate) struct Tracer {
    pub(crate) analysis: Analysis,
    pub(crate) images: Images,
    pub(crate) kernel: Kernel,
    pub(crate) spins: Spins,
    /// The process of each traced thread.
    threads: HashMap<u32, u32>,
    /// A process that will appear as a child of this one.
    pub(crate) awaited: Option<u32>,
    pub(crate) lost: u64,
    pub(crate) last: u64,
}

impl Tracer {
    pub(crate) fn new(analysis: Analysis) -> Self {
        Tracer {
            analysis,
            images: Images::new(),
            kernel: Kernel::new(),
            spins: Spins::new(),
            threads: HashMap::new(),
            awaited: None,
            lost: 0,
            last: 0,
        }
    }

    /// Adds a thread of a process that runs already.
    pub(crate) fn adopt(&mut self, at: u64, process: u32, thread: u32) {
        if self.threads.insert(thread, process).is_none() {
            self.event(at, thread, What::Born { process, runs: false });
        }
    }

    fn record(&mut self, record: &Record<'_>, point: Option<(Point, u64)>, layout: &Layout) {
        self.last = self.last.max(record.time);
        match record.kind {
            Kind::Sample => {
                if let Some((point, parts)) = point {
                    self.sample(record, point, parts, layout);
                }
            }
            Kind::Lost => {
                self.lost += 1;
                self.analysis.lost(record.time);
            }
            // The tracepoint of a switch comes earlier, but not always where the idle task is left.
            Kind::Switch { is_out: false } if self.threads.contains_key(&record.thread) => {
                self.event(record.time, record.thread, What::In);
            }
            Kind::Fork => self.fork(record),
            Kind::Exit => {
                if let Some([process, thread, ..]) = record.family()
                    && self.threads.remove(&thread).is_some()
                {
                    self.event(record.time, thread, What::Exit);
                    if process == thread {
                        self.images.end(process);
                    }
                }
            }
            Kind::Comm { is_exec: true } if self.threads.contains_key(&record.thread) => {
                self.images.exec(record.process);
            }
            Kind::Mapping if self.threads.contains_key(&record.thread) => {
                if let Some(mapping) = record.mapping() {
                    self.images.map(record.process, mapping);
                }
            }
            _ => {}
        }
    }

    fn fork(&mut self, record: &Record<'_>) {
        let Some([process, thread, parent, of]) = record.family() else { return };
        let is_ours = self.threads.contains_key(&of) || self.awaited == Some(process);
        if !is_ours || self.threads.insert(thread, process).is_some() {
            return;
        }
        if process != parent {
            self.images.fork(parent, process);
        }
        self.event(record.time, thread, What::Born { process, runs: false });
    }

    fn sample(&mut self, record: &Record<'_>, point: Point, parts: u64, layout: &Layout) {
        let (at, thread) = (record.time, record.thread);
        let is_ours = self.threads.contains_key(&thread);
        // Switches and wake-ups concern other threads than the one that they interrupt.
        if !is_ours && !matches!(point, Point::Switch | Point::Waking) {
            return;
        }
        let Some(sample) = record.sample(parts) else { return };
        let number = |field| u32::try_from(sample.field(field)).unwrap_or(0);
        match point {
            Point::Switch => {
                let (prev, next) = (number(layout.prev_pid), number(layout.next_pid));
                if self.threads.contains_key(&prev) {
                    let chain = self.kernel.chain(sample.kernel_chain());
                    // The kernel's states: 0 is able to run, 256 (or 1024, or 4096 before Linux 4.14)
                    // stands for a preemption, and the bits below for sleeps.
                    let sleeps = sample.field(layout.prev_state) & 0xff != 0;
                    let off = match (chain.is_throttled, sleeps) {
                        (true, _) => Off::Throttled,
                        (false, true) => Off::Blocked(chain.reason),
                        (false, false) => Off::Preempted,
                    };
                    self.event(at, prev, What::Out(off));
                }
                if self.threads.contains_key(&next) {
                    self.event(at, next, What::In);
                }
            }
            Point::Waking => {
                let woken = number(layout.woken_pid);
                if self.threads.contains_key(&woken) {
                    self.event(at, woken, What::Woken { by: thread });
                }
            }
            Point::FutexWait => {
                let is_plain = sample.field(layout.futex_op) & FUTEX_COMMAND == 0;
                let site =
                    sample.stack.map(|stack| self.images.site(record.process, &stack, is_plain));
                let site = site.unwrap_or(overlock_trace::Site(0));
                self.event(
                    at,
                    thread,
                    What::Wait { lock: sample.field(layout.futex_address), site },
                );
            }
            Point::FutexWake => {
                self.event(at, thread, What::Wake { lock: sample.field(layout.futex_address) });
            }
            Point::FutexEnd => {
                self.event(at, thread, What::WaitEnd);
                self.event(at, thread, What::WakeEnd);
            }
            Point::Clock => {
                if let Some(stack) = sample.stack {
                    let spins = self.spins.is_loop(&self.images, record.process, stack.instruction);
                    let site = match spins {
                        true => self.images.site(record.process, &stack, false),
                        false => overlock_trace::Site(0),
                    };
                    self.event(at, thread, What::Sample { site, spins });
                }
            }
            Point::Tasks => {}
        }
    }

    fn event(&mut self, at_ns: u64, thread: u32, what: What) {
        self.analysis.event(Event { at_ns, thread, what });
    }
}
