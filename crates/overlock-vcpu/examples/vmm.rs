//! A virtual machine monitor whose vCPUs enter `KVM_RUN` only while the scheduler of
//! `overlock_vcpu::host` lets them: the whole integration, without the laboratory.
//!
//! `cargo run --example vmm -- 4 1`: four vCPUs on one pCPU, each of which counts to a number,
//! reports that through a port, and halts for good. The program prints what each vCPU reported and
//! how long it ran.
//!
//! Where KVM has its interrupt controller in the kernel (`KVM_CREATE_IRQCHIP`, split or not), `hlt`
//! and IPIs never reach user space, and a vCPU that sleeps in `KVM_RUN` keeps its pCPU. Leave the
//! controller out, or let a paravirtual guest halt through a port.

use std::io::{Write, stdout};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU8, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use kvm_bindings::{kvm_regs, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd};
use overlock_vcpu::host::sched::yield_to::RoundRobin;
use overlock_vcpu::host::sched::{Action, Config, Event, Scheduler, Standing, Usage};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};

/// The guest, in real mode: counts 2^20 steps, then writes to port 0x10 and halts.
const GUEST: &[u8] = &[
    0x66, 0xb9, 0x00, 0x00, 0x10, 0x00, // mov ecx, 1 << 20
    0x66, 0x49, // dec ecx
    0x75, 0xfc, // jnz back to it
    0xe6, 0x10, // out 0x10, al
    0xf4, // hlt
];
const MEMORY: usize = 0x1000;
const ENTRY: u64 = 0x1000;

type Sched = Scheduler<RoundRobin>;
type Error = Box<dyn std::error::Error + Send + Sync>;

/// What each vCPU's thread shows the others.
#[derive(Default)]
struct Post {
    gate: Condvar,
    thread: AtomicI32,
    /// `immediate_exit` in its run page: makes `KVM_RUN` return at once. Written with the scheduler
    /// locked.
    immediate_exit: AtomicPtr<u8>,
}

struct Host {
    sched: Mutex<Sched>,
    /// Notified when slices have changed.
    timer: Condvar,
    posts: Vec<Post>,
    start: Instant,
}

impl Host {
    fn now(&self) -> Nanos {
        Nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Reports an event to the scheduler, and carries out its decision.
    fn tell(&self, sched: &mut Sched, event: Event) {
        match sched.on(self.now(), event).expect("each thread reports for its own vCPU") {
            Some(Action::Run { vcpu, .. }) => self.posts[vcpu.index()].gate.notify_one(),
            Some(Action::Preempt { vcpu, .. }) => {
                let post = &self.posts[vcpu.index()];
                let flag = post.immediate_exit.load(Relaxed);
                // SAFETY: the run page is mapped until the vCPU has stopped, and a stopped one owns
                // no pCPU that could be preempted. Only atomics touch the flag.
                unsafe { AtomicU8::from_ptr(flag) }.store(1, Relaxed);
                // SAFETY: sends a signal that is handled; the thread has not ended, as above.
                unsafe {
                    let thread = post.thread.load(Relaxed);
                    libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, libc::SIGUSR1)
                };
            }
            Some(Action::Idle { .. } | Action::SetTimer { .. }) | None => {}
        }
        self.timer.notify_one();
    }

    /// The body of a vCPU's thread: in the guest only while the scheduler lets the vCPU run.
    fn run(&self, vcpu: Vcpu, mut fd: VcpuFd) -> Result<u64, Error> {
        let post = &self.posts[vcpu.index()];
        post.immediate_exit.store(&raw mut fd.get_kvm_run().immediate_exit, Relaxed);
        // SAFETY: takes no arguments and cannot fail.
        post.thread.store(unsafe { libc::gettid() }, Relaxed);
        let mut said = 0;
        let mut sched = self.sched.lock().unwrap();
        self.tell(&mut sched, Event::Kicked { target: vcpu });
        loop {
            let pcpu = match sched.standing(vcpu) {
                Some(Standing::Running(pcpu)) => pcpu,
                Some(Standing::Stopped) | None => return Ok(said),
                Some(Standing::Queued(_) | Standing::Halted) => {
                    sched = post.gate.wait(sched).unwrap();
                    continue;
                }
            };
            let flag = post.immediate_exit.load(Relaxed);
            // SAFETY: this thread's own run page. If a signal came while the thread was out, the
            // flag has the value that the scheduler wants.
            unsafe { AtomicU8::from_ptr(flag) }.store(sched.is_preempting(pcpu).into(), Relaxed);
            drop(sched);
            let left = match fd.run() {
                Ok(VcpuExit::IoOut(0x10, _)) => {
                    said += 1;
                    Ok(None)
                }
                Ok(VcpuExit::Hlt) => Ok(Some(Event::Stopped { vcpu })),
                Err(e) if e.errno() == libc::EINTR => Ok(Some(Event::Preempted { vcpu })),
                Ok(other) => Err(format!("{vcpu} left the guest: {other:?}")),
                Err(e) => Err(format!("{vcpu}: KVM_RUN: {e}")),
            };
            sched = self.sched.lock().unwrap();
            match left {
                Ok(event) => event.into_iter().for_each(|event| self.tell(&mut sched, event)),
                Err(why) => {
                    self.tell(&mut sched, Event::Stopped { vcpu });
                    return Err(why.into());
                }
            }
        }
    }

    /// Ends slices until all vCPUs have stopped. The laboratory instead has a timer for each
    /// thread.
    fn keep_time(&self) {
        let mut sched = self.sched.lock().unwrap();
        let Config { vcpus, pcpus, .. } = *sched.config();
        while (0..vcpus).any(|n| sched.standing(Vcpu(n)) != Some(Standing::Stopped)) {
            let now = self.now();
            for pcpu in (0..pcpus).map(Pcpu) {
                if sched.slice_end(pcpu).is_some_and(|end| end <= now) {
                    self.tell(&mut sched, Event::Timer { pcpu });
                }
            }
            let next = (0..pcpus).filter_map(|n| sched.slice_end(Pcpu(n))).min();
            let sleep = next.map_or(Duration::from_millis(50), |end| {
                Duration::from_nanos((end - self.now()).0.max(1_000))
            });
            sched = self.timer.wait_timeout(sched, sleep).unwrap().0;
        }
    }
}

extern "C" fn nothing(_: i32) {}

fn main() -> Result<(), Error> {
    let mut words = std::env::args().skip(1);
    let mut number = |default: u32| words.next().map_or(Ok(default), |word| word.parse());
    let (vcpus, pcpus) = (number(4)?, number(1)?);
    for (n, (said, usage)) in run(vcpus, pcpus)?.iter().enumerate() {
        let [ran, steal] = [usage.ran, usage.steal].map(|span| span.0 / 1_000_000);
        writeln!(stdout(), "vcpu{n} said {said}; ran {ran} ms, waited {steal} ms for a pCPU")?;
    }
    Ok(())
}

/// Runs a machine until all its vCPUs have halted; returns what each reported, and its times.
pub(crate) fn run(vcpus: u32, pcpus: u32) -> Result<Vec<(u64, Usage)>, Error> {
    // SAFETY: the handler does nothing; without SA_RESTART the signal makes KVM_RUN return.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut());
    }
    let vm = Kvm::new()?.create_vm()?;
    let mut memory = vec![0_u8; 2 * MEMORY];
    let aligned = memory.as_ptr().align_offset(MEMORY);
    memory[aligned..aligned + GUEST.len()].copy_from_slice(GUEST);
    let region = kvm_userspace_memory_region {
        slot: 0,
        flags: 0,
        guest_phys_addr: ENTRY,
        memory_size: MEMORY as u64,
        userspace_addr: &raw const memory[aligned] as u64,
    };
    // SAFETY: the page is mapped until the end of this function, when no vCPU runs any more.
    unsafe { vm.set_user_memory_region(region)? };
    let sched = Mutex::new(Scheduler::new(Config::new(vcpus, pcpus), RoundRobin::default())?);
    let posts = (0..vcpus).map(|_| Post::default()).collect();
    let host = Host { sched, timer: Condvar::new(), posts, start: Instant::now() };
    std::thread::scope(|scope| -> Result<_, Error> {
        let (mut threads, host) = (Vec::new(), &host);
        for n in 0..vcpus {
            let fd = vm.create_vcpu(n.into())?;
            let mut system = fd.get_sregs()?;
            (system.cs.base, system.cs.selector) = (0, 0);
            fd.set_sregs(&system)?;
            fd.set_regs(&kvm_regs { rip: ENTRY, rflags: 2, ..Default::default() })?;
            threads.push(scope.spawn(move || host.run(Vcpu(n), fd)));
        }
        host.keep_time();
        let lives = threads.into_iter().zip((0..).map(Vcpu)).map(|(thread, vcpu)| {
            let said = thread.join().expect("no vCPU thread panics")?;
            Ok((said, host.sched.lock().unwrap().usage(host.now(), vcpu).unwrap()))
        });
        lives.collect()
    })
}
