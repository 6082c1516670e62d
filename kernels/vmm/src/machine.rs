//! The machine: its memory, the kernel in it, and a thread for each vCPU.

use std::io::Write as _;
use std::mem;
use std::os::unix::thread::JoinHandleExt as _;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use kvm_bindings::{
    KVM_MAX_CPUID_ENTRIES, KVM_PIT_SPEAKER_DUMMY, kvm_pit_config, kvm_userspace_memory_region,
};
use kvm_ioctls::{Kvm, VcpuFd, VmFd};
use vm_memory::{GuestAddress, GuestMemoryBackend as _, GuestMemoryMmap};

use crate::console::Console;
use crate::counters::Counters;
use crate::cpuid;
use crate::load::load;
use crate::options::{Options, Result};
use crate::page::{self, Page};
use crate::vcpu::{self, Event};

/// Three pages that KVM needs on Intel's processors, where no machine has memory.
const TASK_STATE: usize = 0xfffb_d000;
/// The memory of the machine.
pub(crate) const BYTES: u64 = 128 << 20;
/// After so long without a word from the kernel, its vCPUs are asked where they are.
const SILENCE: Duration = Duration::from_secs(30);

/// A machine that is ready to run.
#[derive(Debug)]
pub(crate) struct Machine {
    vcpus: Vec<VcpuFd>,
    console: Arc<Mutex<Console>>,
    page: Option<Page>,
    // These two are used by KVM until the end.
    _vm: VmFd,
    _memory: GuestMemoryMmap<()>,
}

impl Machine {
    /// Makes the machine, and loads the kernel.
    pub(crate) fn new(mut options: Options) -> Result<Self> {
        let kvm = Kvm::new()?;
        let vm = kvm.create_vm()?;
        let memory = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), usize::try_from(BYTES)?)])?;
        let region = kvm_userspace_memory_region {
            memory_size: BYTES,
            userspace_addr: memory.get_host_address(GuestAddress(0))?.addr() as u64,
            ..Default::default()
        };
        // SAFETY: the mapping has these bytes, and lives as long as the machine.
        unsafe { vm.set_user_memory_region(region)? };
        let page =
            options.page.as_deref().map(|path| Page::open(path, options.cpus)).transpose()?;
        if let Some(page) = page {
            options.line += &format!(" page={}", page.first);
            let region = kvm_userspace_memory_region {
                slot: 1,
                guest_phys_addr: page::AT,
                memory_size: page::BYTES as u64,
                userspace_addr: page.address(),
                ..Default::default()
            };
            // SAFETY: a mapping that is never unmapped.
            unsafe { vm.set_user_memory_region(region)? };
        }
        vm.set_tss_address(TASK_STATE)?;
        vm.create_irq_chip()?;
        // With it the port by which the kernel reads the timer's output.
        vm.create_pit2(kvm_pit_config { flags: KVM_PIT_SPEAKER_DUMMY, ..Default::default() })?;
        let start = load(&memory, &options)?;
        let supported = kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES)?;
        let make = |number: u8| -> Result<VcpuFd> {
            let vcpu = vm.create_vcpu(number.into())?;
            let mut offered = supported.clone();
            cpuid::offer(offered.as_mut_slice(), number, &options);
            vcpu.set_cpuid2(&offered)?;
            Ok(vcpu)
        };
        let vcpus = (0..options.cpus).map(make).collect::<Result<Vec<_>>>()?;
        // The others wait for the first to start them, as processors do.
        let first = vcpus.first().ok_or("a machine without a vCPU")?;
        vcpu::begin_at(first, start)?;
        let console = Arc::new(Mutex::new(Console::new(Counters::find())));
        Ok(Self { vcpus, console, page, _vm: vm, _memory: memory })
    }

    /// Runs it to its end. Returns the kernel's code.
    pub(crate) fn run(mut self) -> Result<u8> {
        listen_to_signals();
        let (send, events) = mpsc::sync_channel(16);
        let page = self.page;
        let start =
            |(number, vcpu)| start(number, vcpu, page, Arc::clone(&self.console), send.clone());
        let threads: Vec<_> = (0_u8..).zip(mem::take(&mut self.vcpus)).map(start).collect();
        drop(send);
        let ended = listen(&self.console, &events, &threads);
        page.inspect(Page::leave);
        ended
    }
}

/// Waits for the machine's end. If it is silent, its vCPUs are asked where they are.
fn listen(
    console: &Mutex<Console>,
    events: &Receiver<Event>,
    threads: &[JoinHandle<()>],
) -> Result<u8> {
    loop {
        match events.recv_timeout(SILENCE) {
            Ok(Event::Place(place)) => writeln!(std::io::stdout(), "{place}")?,
            Ok(Event::Ended(ended)) => return Ok(ended?),
            Err(RecvTimeoutError::Disconnected) => return Err("all vCPUs are gone".into()),
            Err(RecvTimeoutError::Timeout) => {
                let mut console = console.lock().unwrap_or_else(PoisonError::into_inner);
                if !console.was_heard() {
                    threads.iter().for_each(interrupt);
                }
            }
        }
    }
}

fn start(
    number: u8,
    vcpu: VcpuFd,
    page: Option<Page>,
    console: Arc<Mutex<Console>>,
    send: SyncSender<Event>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        page.inspect(|page| page.runs(number));
        // When the machine has ended, nobody listens.
        vcpu::run(vcpu, number, &console, |event| drop(send.send(event)));
    })
}

/// The signal that makes a vCPU leave KVM.
const SIGNAL: libc::c_int = libc::SIGUSR1;

/// Lets the signal interrupt a vCPU, and do nothing else.
fn listen_to_signals() {
    extern "C" fn nothing(_: libc::c_int) {}
    // SAFETY: zeros are a valid action; the handler does nothing, and no `SA_RESTART` hides it.
    unsafe {
        let mut action: libc::sigaction = mem::zeroed();
        action.sa_sigaction = nothing as *const () as usize;
        libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut());
    }
}

fn interrupt(thread: &JoinHandle<()>) {
    // SAFETY: a thread that has not been joined keeps its identity.
    unsafe { libc::pthread_kill(thread.as_pthread_t(), SIGNAL) };
}
