//! The source for root: the kernel's tracepoints of futexes and of the scheduler, on all
//! processors.

use crate::sources::platform::Tracefs;
use crate::sources::points::{Layout, Point, Spec, WAITS};
use crate::sources::records::{self, Field};
use crate::sources::rings::{Rings, online};
use anyhow::{Context, Result, bail};
use std::os::unix::fs::MetadataExt as _;

/// Memory for the rings of all processors.
const RING_BYTES: usize = 64 << 20;
const LARGEST_RING: usize = 16 << 20;
const SMALLEST_RING: usize = 1 << 20;

/// The inode of the first PID namespace (`PROC_PID_INIT_INO` in Linux's `proc_ns.h`).
const FIRST_NAMESPACE: u64 = 0xefff_fffc;

const FUTEX_FLAGS: [u32; 4] = [0, 128, 256, 384];

/// Opens the events of all processors; they record at once.
pub(crate) fn open() -> Result<(Rings, Layout)> {
    if std::fs::metadata("/proc/self/ns/pid").is_ok_and(|inode| inode.ino() != FIRST_NAMESPACE) {
        bail!(
            "in this PID namespace threads have other numbers than in tracepoints; use --source preload or looks"
        );
    }
    let tracefs = Tracefs::open()?;
    let format = |name: &str| tracefs.read(&format!("{name}/format"));
    let switch = format("sched/sched_switch")?;
    let waking = format("sched/sched_waking")?;
    let futex = format("syscalls/sys_enter_futex")?;
    let several = format("syscalls/sys_enter_futex_waitv").unwrap_or_default();
    let of_several = |field| Field::find(&several, field).unwrap_or_default();
    let find = |format: &str, field: &str| {
        Field::find(format, field).with_context(|| format!("a tracepoint has no {field}"))
    };
    let layout = Layout {
        prev_pid: find(&switch, "prev_pid")?,
        prev_state: find(&switch, "prev_state")?,
        next_pid: find(&switch, "next_pid")?,
        woken_pid: find(&waking, "pid")?,
        flags: find(&waking, "common_flags")?,
        futex_address: find(&futex, "uaddr")?,
        futex_op: find(&futex, "op")?,
        futex_value: find(&futex, "val")?,
        several: of_several("waiters"),
        several_count: of_several("nr_futexes"),
    };
    let cpus = online()?;
    let share = RING_BYTES / cpus.len().max(1);
    let size = share.next_power_of_two().clamp(SMALLEST_RING, LARGEST_RING);
    let specs = specs(&tracefs)?;
    let mut rings = Rings::default();
    for cpu in cpus {
        specs.iter().try_for_each(|spec| rings.add(cpu, None, spec, size))?;
    }
    rings.start()?;
    Ok((rings, layout))
}

fn specs(tracefs: &Tracefs) -> Result<Vec<Spec>> {
    let id = |name: &str| -> Result<Option<u64>> {
        let text = tracefs.read(&format!("{name}/id"))?;
        Ok(Some(text.trim().parse().context("the number of a tracepoint is no number")?))
    };
    let (switch, futex) = (id("sched/sched_switch")?, id("syscalls/sys_enter_futex")?);
    let waking = id("sched/sched_waking")?;
    let is_wait = |is: &str, join: &str| {
        let ops = WAITS.iter().flat_map(|op| FUTEX_FLAGS.map(|flag| op + flag));
        ops.map(|op| format!("op {is} {op}")).collect::<Vec<_>>().join(join)
    };
    let spec = Spec::new;
    let raw = records::RAW;
    let left = raw | records::PLACE;
    // The kernel goes through a filter until it is decided: the most common operations come first.
    let waits = format!("op != 129 && op != 1 && (op == 393 || {})", is_wait("==", " || "));
    let others = format!("op == 129 || op == 1 || (op != 393 && {})", is_wait("!=", " && "));
    let several = id("syscalls/sys_enter_futex_waitv").ok();
    let several =
        several.map(|id| spec(Point::FutexWaitv, id, raw | records::STACK, String::new()));
    let all = vec![
        spec(Point::Tasks, None, 0, String::new()),
        // A thread that loses its processor has the state 0, or the bit above all others.
        spec(
            Point::SwitchWhy,
            switch,
            left | records::CALLCHAIN,
            "prev_pid != 0 && (prev_state == 0 || prev_state == 256)".into(),
        ),
        spec(
            Point::SwitchAsleep,
            switch,
            raw | records::CALLCHAIN | records::STACK,
            "prev_pid != 0 && prev_state & 255".into(),
        ),
        spec(Point::Switch, switch, left, "prev_pid != 0".into()),
        // The idle task has no reason to leave its processor. The kernel may pass over tracepoints
        // in the idle task, but not over these records.
        spec(Point::Switches, None, 0, String::new()),
        spec(Point::SwitchIn, switch, raw, "prev_pid == 0".into()),
        spec(Point::WakingWhy, waking, raw | records::STACK, String::new()),
        spec(Point::Waking, waking, raw, String::new()),
        spec(Point::FutexWait, futex, raw | records::STACK, waits),
        spec(Point::FutexWake, futex, raw, others),
        spec(Point::Clock, None, records::STACK, String::new()),
    ];
    Ok(all.into_iter().chain(several).collect())
}
