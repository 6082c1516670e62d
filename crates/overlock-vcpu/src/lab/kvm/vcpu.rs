//! One vCPU: its registers at the start, and the loop that its thread runs.
//!
//! ```text
//!             Next::Enter                       port written
//!  Host::exit ───────────► inject? ──► KVM_RUN ─────────────► Exit::Call ──────┐
//!      ▲                                  │  ▲  PM timer read                  │
//!      │                                  ├──┘                                 │
//!      │                                  ├─ signal: Exit::Evicted ────────────┤
//!      │                                  └─ anything else: Exit::Ended(fault) ┤
//!      └───────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The signal's handler sets `immediate_exit` in the vCPU's run page, so that a signal that comes
//! just before `KVM_RUN` is not lost. Source: Linux, Documentation/virt/kvm/api.rst,
//! "immediate_exit".

use std::cell::Cell;
use std::io;
use std::ptr::{self, NonNull};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_dtable, kvm_regs, kvm_segment, kvm_sregs, kvm_xcrs};
use kvm_ioctls::{Kvm, SyncReg, VcpuExit, VcpuFd, VmFd};
use overlock_bench::Program;
use overlock_bench::clock::ticks;

use super::stacks::Stack;
use super::{fault, interrupt, memory, paging};
use crate::lab::Error;
use crate::lab::guest::abi::{Call, PM_TIMER_PORT, VcpuRecord};
use crate::lab::guest::calls::call;
use crate::lab::guest::ports::{Ports, begin};
use crate::lab::host::Host;
use crate::lab::host::state::{Exit, Next};
use crate::lab::place::Place;

/// How far a guest's time stamp counter can seem behind the host's and still count as the same: one
/// exit lies between the two readings.
const SAME_COUNTER_TICKS: u64 = 3_000_000;

/// Makes the way into the guest longer by as many nanoseconds, for tests: it is on other machines.
#[doc(hidden)]
pub static SLOW_ENTRY_NS: AtomicU64 = AtomicU64::new(0);

fn delay(host: &Host) {
    let ns = SLOW_ENTRY_NS.load(Relaxed);
    if ns > 0 {
        let since = host.clock.now_ns();
        while host.clock.now_ns().saturating_sub(since) < ns {}
    }
}

thread_local! {
    /// `immediate_exit` of the vCPU that this thread runs.
    static IMMEDIATE_EXIT: Cell<*mut u8> = const { Cell::new(ptr::null_mut()) };
}

/// The handler of the engine's signal: it ends `KVM_RUN`.
pub(super) extern "C" fn on_signal(_: i32) {
    let flag = IMMEDIATE_EXIT.get();
    if !flag.is_null() {
        // SAFETY: set while the thread runs its vCPU, whose run page is mapped for as long.
        unsafe { flag.write_volatile(1) };
    }
}

/// A vCPU that has never run.
#[derive(Debug)]
pub(crate) struct KvmVcpu {
    fd: VcpuFd,
    number: u32,
    stack: Stack,
    visits: Visits,
}

/// The visits of a vCPU to the guest in one turn.
#[derive(Debug, Default)]
struct Visits {
    /// Which turn: when it was granted.
    granted: u64,
    /// The registers at its beginning.
    began: kvm_regs,
    /// How long the longest took.
    longest_ns: u64,
}

impl KvmVcpu {
    /// Makes a vCPU that begins at `start` on `stack`, with `record` at its GS base.
    pub(crate) fn new(
        kvm: &Kvm,
        vm: &VmFd,
        record: &VcpuRecord,
        start: *const (),
        stack: Stack,
    ) -> Result<Self, Error> {
        let number = record.number;
        let refused = |attempt| move |error| refusal(number, attempt, error);
        let mut fd = vm.create_vcpu(u64::from(number)).map_err(refused("create it"))?;
        let cpuid = kvm
            .get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)
            .map_err(refused("report its processor's features (KVM_GET_SUPPORTED_CPUID)"))?;
        fd.set_cpuid2(&cpuid).map_err(refused("set its CPUID"))?;
        let mut system = fd.get_sregs().map_err(refused("read its registers"))?;
        user_mode(&mut system, record);
        fd.set_sregs(&system).map_err(refused("take its system registers"))?;
        let offered = cpuid.as_slice().iter().find(|leaf| leaf.function == 0xd && leaf.index == 0);
        let mut extended = kvm_xcrs { nr_xcrs: 1, ..Default::default() };
        extended.xcrs[0].value =
            offered.map_or(3, |leaf| u64::from(leaf.eax)) & interrupt::EXTENDED_STATE;
        fd.set_xcrs(&extended).map_err(refused("enable its vector registers"))?;
        fd.set_regs(&kvm_regs {
            rip: start as u64,
            rdi: record.program as u64,
            // As after a call: the return address lies below a multiple of 16.
            rsp: stack.top - 8,
            rflags: 2,
            ..Default::default()
        })
        .map_err(refused("take its registers"))?;
        fd.set_sync_valid_reg(SyncReg::Register);
        Ok(Self { fd, number, stack, visits: Visits::default() })
    }

    /// Ensures that signals that came while the vCPU was out do not end the next entry, unless one
    /// was an eviction.
    fn forget_signals(&mut self, host: &Host) {
        self.fd.set_kvm_immediate_exit(0);
        if host.evicted(self.number) {
            self.fd.set_kvm_immediate_exit(1);
        }
    }

    /// Runs the guest until an event that the host must handle.
    fn enter(&mut self, host: &Host) -> Exit {
        let granted = host.granted(self.number);
        if granted != self.visits.granted {
            self.visits = Visits { granted, began: self.fd.sync_regs().regs, longest_ns: 0 };
        }
        loop {
            let since = host.clock.now_ns();
            delay(host);
            let left = self.fd.run();
            let took = host.clock.now_ns().saturating_sub(since);
            self.visits.longest_ns = self.visits.longest_ns.max(took);
            match left {
                Ok(VcpuExit::IoOut(port, _)) => {
                    let Some(call) = Call::from_port(port) else {
                        return Exit::Ended(Err(
                            self.fault(host, "wrote to a port that does not exist")
                        ));
                    };
                    host.shortest_visit_ns.fetch_min(took, Relaxed);
                    let regs = self.fd.sync_regs().regs;
                    match call {
                        Call::Started => self.compare_counters(host, regs.rdi),
                        Call::Finished => return Exit::Ended(Ok(())),
                        _ => return Exit::Call(call, [regs.rdi, regs.rsi]),
                    }
                }
                Ok(VcpuExit::IoIn(PM_TIMER_PORT, data)) if data.len() == 4 => {
                    data.copy_from_slice(&host.pm_timer(self.number).to_le_bytes());
                }
                Err(e) if e.errno() == libc::EINTR => {
                    self.fd.set_kvm_immediate_exit(0);
                    let rip = host.wants_sample(self.number).then(|| self.rip());
                    return Exit::Evicted { rip, ran: self.has_run(host) };
                }
                Err(e) if e.errno() == libc::EAGAIN => {}
                Ok(VcpuExit::Shutdown) => return Exit::Ended(Err(self.fault(host, "shut down"))),
                Ok(_) => return Exit::Ended(Err(self.fault(host, "left for unknown reasons"))),
                Err(e) if e.errno() == libc::EFAULT => {
                    let what = "used memory that the process has unmapped or never had";
                    return Exit::Ended(Err(self.fault(host, what)));
                }
                Err(e) => return Exit::Ended(Err(self.refused("run it (KVM_RUN)", e))),
            }
        }
    }

    /// Whether the vCPU has run in this turn. A loop may have the same registers each time that it
    /// comes out; then a long visit tells.
    fn has_run(&self, host: &Host) -> bool {
        self.fd.sync_regs().regs != self.visits.began
            || self.visits.longest_ns >= host.long_visit_ns()
    }

    /// Records the difference between the guest's time stamp counter and the host's.
    ///
    /// KVM's own answer would not do: a software-only KVM has an offset and does not apply it.
    fn compare_counters(&self, host: &Host, guests: u64) {
        let ahead = ticks().wrapping_sub(guests);
        if ahead > SAME_COUNTER_TICKS {
            host.vcpus.records[self.number as usize].tsc_offset.store(ahead, Relaxed);
        }
    }

    /// Makes the guest continue in its interrupt handler.
    fn inject(&mut self, host: &Host) -> Result<(), Error> {
        // A port access is complete only after one more entry, which must come before anything
        // else.
        self.fd.set_kvm_immediate_exit(1);
        let completed = self.fd.run().map(drop);
        self.forget_signals(host);
        match completed {
            Err(e) if e.errno() == libc::EINTR => {}
            Err(e) => return Err(self.refused("complete a port access", e)),
            Ok(()) => return Err(self.fault(host, "left the guest without having entered it")),
        }
        let mut regs = self.fd.get_regs().map_err(|e| self.refused("read its registers", e))?;
        let frame = interrupt::frame(regs.rsp);
        if !self.stack.contains(frame - interrupt::ROOM, interrupt::ROOM + 8) {
            return Err(self.fault(host, "has no stack left for an interrupt"));
        }
        // SAFETY: the word is on this vCPU's stack, below all data that it uses, and the vCPU is
        // not running.
        unsafe { (frame as *mut u64).write(regs.rip) };
        regs.rsp = frame;
        regs.rip = interrupt::entry as *const () as u64;
        self.fd.set_regs(&regs).map_err(|e| self.refused("take its registers", e))
    }

    fn rip(&self) -> u64 {
        self.fd.sync_regs().regs.rip
    }

    /// Returns where the guest is, and its callers.
    pub(super) fn place(&self, host: &Host, rip: u64, rsp: u64) -> Place {
        let words = (self.stack.top.saturating_sub(rsp) / 8) as usize;
        let stack = if rsp.is_multiple_of(8) && self.stack.contains(rsp, 8) {
            // SAFETY: from `rsp` to the top is mapped, aligned, and the vCPU is not running.
            unsafe { std::slice::from_raw_parts(rsp as *const u64, words) }
        } else {
            &[]
        };
        Place::find(rip, stack, |address| host.vcpus.code.contains(address))
    }

    fn fault(&self, host: &Host, otherwise: &str) -> Error {
        fault::explain(
            self.number,
            &self.fd,
            &self.stack,
            host.vcpus.code,
            otherwise,
            |rip, rsp| self.place(host, rip, rsp),
        )
    }

    fn refused(&self, attempt: &'static str, error: kvm_ioctls::Error) -> Error {
        refusal(self.number, attempt, error)
    }

    /// Runs vCPU `number` until the host returns [`Next::Leave`].
    pub(crate) fn run(mut self, host: &Host, number: u32) {
        let flag = NonNull::from(&mut self.fd.get_kvm_run().immediate_exit);
        IMMEDIATE_EXIT.set(flag.as_ptr());
        let mut ended = false;
        let mut next = host.exit(number, Exit::Ready);
        while next == Next::Enter {
            self.forget_signals(host);
            let exit = match host.vcpus.records[self.number as usize].deliverable() {
                true => {
                    self.inject(host).map_or_else(|e| Exit::Ended(Err(e)), |()| self.enter(host))
                }
                false => self.enter(host),
            };
            ended = matches!(exit, Exit::Ended(_));
            next = host.exit(self.number, exit);
        }
        IMMEDIATE_EXIT.set(ptr::null_mut());
        if !ended {
            host.abandoned(self.number, || {
                let regs = self.fd.get_regs().unwrap_or_default();
                self.place(host, regs.rip, regs.rsp)
            });
        }
    }
}

fn refusal(vcpu: u32, attempt: &'static str, error: kvm_ioctls::Error) -> Error {
    Error::Refused { vcpu, by: "KVM", attempt, source: io::Error::from(error) }
}

/// The first instruction of every vCPU.
pub(crate) extern "C" fn start<P: Program<Ports>>(program: &P) -> ! {
    begin(program);
    loop {
        call(Call::Finished, [0, 0]);
    }
}

/// Sets the system registers of a 64-bit user program.
///
/// Protected mode with paging, SSE and XSAVE on, no descriptor table at all. The program can use
/// ports because the I/O permission bitmap of its task state segment lies in a page of zeroes; a
/// privilege level in the flags (IOPL) would be simpler, but not every KVM honours it.
fn user_mode(system: &mut kvm_sregs, record: &VcpuRecord) {
    let flat = |selector, type_, long: u8| kvm_segment {
        limit: 0xffff_ffff,
        selector,
        type_,
        present: 1,
        dpl: 3,
        db: 1 - long,
        s: 1,
        l: long,
        g: 1,
        ..Default::default()
    };
    let data = flat(0x23, 3, 0);
    system.cs = flat(0x1b, 11, 1);
    (system.ds, system.es, system.ss, system.fs) = (data, data, data, data);
    system.gs = kvm_segment { base: record.own, ..data };
    system.tr = kvm_segment {
        base: memory::TSS,
        limit: 0xffff,
        selector: 0x28,
        type_: 11,
        present: 1,
        ..Default::default()
    };
    (system.gdt, system.idt) = (kvm_dtable::default(), kvm_dtable::default());
    system.cr0 = 0x8005_0033; // PG AM WP NE ET MP PE
    system.cr2 = fault::NO_FAULT;
    system.cr3 = paging::TABLES_GPA;
    system.cr4 = 0x4_0620; // OSXSAVE OSXMMEXCPT OSFXSR PAE
    system.efer = 0xd01; // NXE LMA LME SCE
}
