//! The kernel's events that are used, and how they are asked for.

use crate::sources::platform::Attr;
use crate::sources::records::{self, Field};
use perf_event_open_sys::bindings as perf;

/// Operations of the futex call that wait, without their flags.
pub(crate) const WAITS: [u32; 5] = [0, 6, 9, 11, 13];
/// The operation without its flags.
pub(crate) const FUTEX_COMMAND: u64 = 127;

/// The flag of an operation whose word belongs to one process.
pub(crate) const FUTEX_PRIVATE: u64 = 128;

/// The flags of a tracepoint that was passed in an interrupt, of the processor or a deferred one.
pub(crate) const IN_INTERRUPT: u64 = 0x18;

/// Where the tracepoints' data has what is needed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) prev_pid: Field,
    pub(crate) prev_state: Field,
    pub(crate) next_pid: Field,
    pub(crate) woken_pid: Field,
    pub(crate) flags: Field,
    pub(crate) futex_address: Field,
    pub(crate) futex_op: Field,
    pub(crate) futex_value: Field,
    /// Of the call that waits for one of several; older kernels have none.
    pub(crate) several: Field,
    pub(crate) several_count: Field,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A thread leaves its processor to another.
    Switch,
    /// The same with the kernel's call chain, of a thread that could run on.
    SwitchWhy,
    /// The same with its stack, too, of a thread that sleeps.
    SwitchAsleep,
    /// Records of all switches, and, while these are off, a thread gets a processor that was idle.
    Switches,
    SwitchIn,
    /// A thread makes another able to run; without and with its stack.
    Waking,
    WakingWhy,
    FutexWait,
    FutexWaitv,
    FutexWake,
    Clock,
    Tasks,
}

/// One event, of each processor.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) point: Point,
    /// The number of its tracepoint, if it is one.
    pub(crate) tracepoint: Option<u64>,
    /// What its samples contain besides what all do.
    pub(crate) parts: u64,
    /// The kernel's filter of the tracepoint.
    pub(crate) filter: String,
}

/// Bytes of the waiter's stack that are copied to find its call site: the C library's frames are
/// between the system call and the program, and take about half of this.
pub(crate) const STACK_BYTES: u32 = 1024;
/// Samples per second and processor, off the beat of the timers of most programs.
pub(crate) const CLOCK_HZ: u64 = 499;

impl Spec {
    pub(crate) fn new(point: Point, tracepoint: Option<u64>, parts: u64, filter: String) -> Self {
        Spec { point, tracepoint, parts, filter }
    }

    /// Returns what the kernel is asked for, with a ring of some size.
    pub(crate) fn attr(&self, ring: usize, is_privileged: bool) -> Attr {
        let mut attr = Attr { sample_type: records::ALWAYS | self.parts, ..Attr::default() };
        attr.set_disabled(1);
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        attr.set_exclude_kernel(u64::from(!is_privileged));
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
                attr.set_exclude_idle(1);
                attr.set_freq(1);
                attr.__bindgen_anon_1.sample_freq = CLOCK_HZ;
            }
            (_, None) => {
                attr.type_ = perf::PERF_TYPE_SOFTWARE;
                // Without tracepoints, the event itself tells of faults that had to wait.
                let faults = perf::PERF_COUNT_SW_PAGE_FAULTS_MAJ;
                let event = if is_privileged { perf::PERF_COUNT_SW_DUMMY } else { faults };
                attr.config = event.into();
                // With tracepoints, records of switches are an event of their own.
                let is_own = self.point == Point::Switches;
                attr.set_context_switch(u64::from(is_own || !is_privileged));
                attr.set_task(u64::from(!is_own));
                attr.set_comm(u64::from(!is_own));
                attr.set_comm_exec(u64::from(!is_own));
                attr.set_mmap(u64::from(!is_own));
                attr.set_mmap2(u64::from(!is_own));
            }
        }
        if self.parts & records::CALLCHAIN != 0 {
            attr.set_exclude_callchain_user(1);
        }
        if self.parts & records::STACK == records::STACK {
            attr.sample_regs_user = records::REGISTERS;
            attr.sample_stack_user = STACK_BYTES;
        } else if self.parts & records::PLACE != 0 {
            attr.sample_regs_user = records::CALL;
        }
        attr
    }
}
