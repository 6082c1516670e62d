//! Kernels that really start: the worlds `tcg`, `kvm-guest` and `xen`, and what an image finds when
//! its platform is broken.
//!
//! Machines are emulated, so nothing here depends on /dev/kvm. If QEMU or Xen is missing, a test
//! skips and reports it.

mod support;

use serde_json::Value;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;
use support::{Said, interrupt, knows, overlock, said, skip};

/// Held by a test while its machines run: the virtual CPUs of two machines at once keep each other
/// from the processors, and both take many times as long.
static MACHINES: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    MACHINES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn has_qemu() -> bool {
    let found = Command::new("qemu-system-x86_64").arg("--version").output().is_ok();
    if !found {
        skip("kernels: there is no qemu-system-x86_64 (apt-get install qemu-system-x86)");
    }
    found
}

fn has_xen() -> bool {
    let is_xen = |name: &OsStr| name.to_string_lossy().starts_with("xen-");
    let found = std::env::var_os("OVERLOCK_XEN").is_some()
        || std::fs::read_dir("/boot").is_ok_and(|mut entries| {
            entries.any(|entry| entry.is_ok_and(|entry| is_xen(&entry.file_name())))
        });
    if !found {
        skip("Xen: it is not in /boot (apt-get install xen-hypervisor-4.17-amd64)");
    }
    found && has_qemu()
}

/// Whether there is a Linux for the machine that runs KVM: named, kept, or known to apt.
fn has_linux() -> bool {
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")));
    let is_kept = cache.is_some_and(|at| at.join("overlock/linux").is_dir());
    let is_known = || {
        let shown = Command::new("apt-cache").args(["show", "linux-image-cloud-amd64"]).output();
        shown.is_ok_and(|shown| shown.status.success())
    };
    let found = std::env::var_os("OVERLOCK_LINUX").is_some() || is_kept || is_known();
    if !found {
        skip("KVM: there is no linux-image-cloud-amd64 (apt-get update, on Debian)");
    }
    found && has_qemu()
}

static IMAGE: LazyLock<PathBuf> =
    LazyLock::new(|| overlock_kernels::build::image().expect("it builds").expect("no Ctrl-C"));

/// Needs no emulator: it disassembles the image.
#[test]
fn locks_that_are_switched_off_execute_what_native_ones_do() {
    let (text, is_fine) = overlock_kernels::code::check(&IMAGE).expect("binutils read the image");
    assert!(is_fine, "{text}");
}

/// What a kernel says on a bare machine, and how that ends.
#[derive(Debug)]
struct Kernel {
    records: Vec<Value>,
    /// Whether it was silent for too long.
    is_silent: bool,
}

impl Kernel {
    /// Boots the image with this command line, until it ends, or is silent for `patience` seconds
    /// after it has said something.
    fn boot(line: &str, patience: u64) -> Self {
        Self::boot_image(&IMAGE, line, patience)
    }

    fn boot_image(image: &Path, line: &str, patience: u64) -> Self {
        let _alone = alone();
        let mut qemu = Command::new("qemu-system-x86_64");
        qemu.args(["-display", "none", "-nodefaults", "-no-reboot", "-serial", "stdio"]);
        qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-m", "256", "-smp", "4"]);
        qemu.args(["-device", "isa-debug-exit,iobase=0xf4", "-kernel"]).arg(image);
        qemu.args(["-append", &format!("smp=4 {line}")]).stdin(Stdio::null());
        let mut machine = qemu.stdout(Stdio::piped()).spawn().expect("QEMU starts");
        let (send, said) = mpsc::channel();
        let lines = BufReader::new(machine.stdout.take().expect("a pipe")).lines();
        std::thread::spawn(move || {
            lines.map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        let mut kernel = Self { records: Vec::new(), is_silent: false };
        let mut wait = PATIENT;
        let end = loop {
            match said.recv_timeout(Duration::from_secs(wait)) {
                Ok(line) => kernel.records.extend(
                    line.find('{').and_then(|start| serde_json::from_str(&line[start..]).ok()),
                ),
                Err(why) => break why,
            }
            wait = patience;
        };
        kernel.is_silent = end == mpsc::RecvTimeoutError::Timeout;
        machine.kill().expect("QEMU can be killed");
        machine.wait().expect("QEMU can be reaped");
        kernel
    }

    fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.records.iter().filter(|record| record["kind"] == kind).collect()
    }

    /// Asserts that every check is fine, and that there are at least this many.
    fn is_verified(&self, least: usize) {
        let checks = self.of_kind("check");
        assert!(checks.iter().all(|check| check["fine"] == true), "{checks:?}");
        assert!(checks.len() >= least, "{} checks: {self:?}", checks.len());
        assert_eq!(self.of_kind("end")[0]["fine"], true, "{self:?}");
    }
}

/// Other tests keep the host's CPUs busy meanwhile.
const PATIENT: u64 = 600;

const CHECKS: &str = "do=contract:conformance:nesting cpus=4 locks=test-and-set:ticket:queued:hybrid \
                      ops=4000 ticks=20";

fn verified(world: &str, least: usize) {
    let _alone = alone();
    let said = said(&["bench", "--in", world, "--check", "--json", "--cpus", "4"]);
    let checks = said.records("check");
    assert!(checks.iter().all(|check| check["verdict"] == "met"), "{said:?}");
    assert!(checks.len() >= least, "{} checks: {said:?}", checks.len());
    knows(&said, &["check"]);
    said.ends(0, "");
}

#[test]
fn a_bare_machine_keeps_the_contract() {
    if has_qemu() {
        verified("tcg", 50);
    }
}

/// As a confidential guest has to, whose `hlt` traps.
#[test]
fn a_machine_that_halts_by_a_call_keeps_the_contract() {
    if has_qemu() {
        // Halted CPUs poll, which takes QEMU's big lock: on a busy host they hold each other up.
        Kernel::boot(&format!("on=bare halt=call {CHECKS}"), PATIENT).is_verified(50);
    }
}

/// The linker of a bare machine takes other arguments than the compiler of the host's.
#[test]
fn the_image_boots_whichever_target_it_is_built_for() {
    for target in overlock_kernels::build::targets().iter().filter(|_| has_qemu()) {
        let image = overlock_kernels::build::image_for(target).expect("it builds");
        let image = image.expect("no Ctrl-C");
        Kernel::boot_image(&image, "on=bare do=conformance", PATIENT).is_verified(1);
    }
}

/// The KVM is that of a Linux that QEMU runs, so it is there wherever QEMU is.
#[test]
fn kvm_keeps_the_contract() {
    if has_linux() {
        verified("kvm-guest", 48);
    }
}

/// Three locks on 8 vCPUs, under a hypervisor with two processors.
fn under_a_hypervisor(world: &str, seconds: &str) -> Vec<Value> {
    let _alone = alone();
    let args = ["bench", "--in", world, "--locks", "ticket,queued,hybrid", "--cpus", "8"];
    let said = said(&[&args[..], &["--seconds", seconds, "--runs", "1", "--json"]].concat());
    let points = said.records("point");
    assert_eq!(points.len(), 3, "exit {:?}\n{}\n{}", said.code, said.stderr, said.stdout);
    said.ends(0, "");
    points
}

fn counted(point: &Value, event: &str) -> u64 {
    point["counters"][event].as_u64().unwrap_or(0)
}

/// Locks on a real KVM, 8 vCPUs on 2 processors: each kick is a hypercall, and KVM has seen each
/// halt.
#[test]
fn kvm_counts_what_the_locks_do() {
    if !has_linux() {
        return;
    }
    for point in under_a_hypervisor("kvm-guest", "1") {
        let count = |event| counted(&point, event);
        assert_eq!(count("hypercalls"), count("kicks"), "{point}");
        assert!(count("halts") <= count("halt_exits"), "{point}");
        assert!(count("kicked") > 0, "no vCPU waited: {point}");
        let under = point["samples"][0]["under"].as_str().expect("a host");
        assert!(under.starts_with("kvm_amd of linux-image-"), "{under}");
    }
}

#[test]
fn xen_keeps_the_contract() {
    if has_xen() {
        verified("xen", 49);
    }
}

/// 8 vCPUs on 2 processors: a kick that was sent, or Xen itself, ends every poll, and no update is
/// lost.
#[test]
fn polls_under_xen_are_ended_by_kicks() {
    if !has_xen() {
        return;
    }
    for point in under_a_hypervisor("xen", "1") {
        let count = |event| counted(&point, event);
        assert!(count("kicked") + count("stale") <= count("kicks"), "{point}");
        assert!(count("kicked") > 0, "no vCPU waited: {point}");
    }
}

/// The switch is patched into the code at boot, in either position: the locks wait, or never do.
#[test]
fn waiting_is_switched_at_boot() {
    if !has_qemu() {
        return;
    }
    let waits = |nopvspin: u8| -> u64 {
        let locks = "test-and-set:ticket:queued:hybrid";
        // Without pauses a lock that is unfair and never waits can go to one CPU for minutes.
        let pauses = "cs=50000 ncs=50000";
        let line = format!("on=bare do=micro cpus=4 {pauses} ms=100 runs=1 locks={locks}");
        let kernel = Kernel::boot(&format!("{line} nopvspin={nopvspin}"), PATIENT);
        let samples = kernel.of_kind("sample");
        assert_eq!(samples.len(), 4, "{kernel:?}");
        assert!(samples.iter().all(|sample| sample["lost"] == 0), "{kernel:?}");
        let events = ["pv_wait_head", "pv_wait_node", "pv_wait_again", "pv_kick_unlock"];
        let count = |sample: &&Value, event: &&str| sample["counters"][event].as_u64();
        samples.iter().flat_map(|of| events.iter().filter_map(move |event| count(of, event))).sum()
    };
    assert!(waits(0) > 0);
    assert_eq!(waits(1), 0);
}

/// The locks need what the contract asks of a platform: without it they hang.
#[test]
fn a_lock_on_a_platform_that_loses_kicks_hangs() {
    if has_qemu() {
        let lossy = "on=bare do=micro cpus=4 cs=50000 ms=200 runs=1 locks=ticket";
        let kernel = Kernel::boot(&format!("{lossy} broken=kicks-nobody"), 5);
        assert!(kernel.is_silent && kernel.of_kind("end").is_empty(), "{kernel:?}");
    }
}

#[test]
fn a_fault_is_told_and_a_hang_is_silent_and_a_reset_ends_the_machine() {
    if !has_qemu() {
        return;
    }
    let work = |work, patience| Kernel::boot(&format!("on=bare cpus=1 do={work}"), patience);
    let fault = work("fault", PATIENT);
    let why = fault.of_kind("panic")[0]["why"].as_str().expect("a sentence");
    assert!(why.starts_with("a fault, as asked for"), "{fault:?}");
    assert!(work("hang", 3).is_silent);
    let reset = work("reset", PATIENT);
    assert!(!reset.is_silent && reset.of_kind("end").is_empty(), "{reset:?}");
}

#[test]
fn records_are_those_of_all_worlds() {
    if !has_qemu() {
        return;
    }
    let _alone = alone();
    let args = ["bench", "--in", "tcg", "--locks", "hybrid,native-hybrid", "--seconds", "0.05"];
    let said = said(&[&args[..], &["--runs", "2", "--cpus", "1,2", "--json"]].concat());
    let points = said.records("point");
    assert_eq!(points.len(), 4, "{said:?}");
    for point in &points {
        assert_eq!(point["world"], "tcg");
        assert_eq!(point["samples"].as_array().map(Vec::len), Some(2));
        assert!(point["ops_per_s"]["median"].as_f64().is_some_and(|ops| ops > 0.0), "{point}");
    }
    knows(&said, &["point"]);
    said.ends(0, "");
}

#[test]
fn an_interrupted_kernel_says_that_there_are_no_results() {
    if !has_qemu() {
        return;
    }
    let args = ["bench", "--in", "tcg", "--cpus", "1", "--seconds", "600", "--json"];
    let mut command = overlock(&args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains(r#""kind":"run""#));
    interrupt(child.id());
    let said: Said = child.wait_with_output().unwrap().into();
    said.ends(130, "so there are no results");
}

#[test]
fn a_missing_part_is_named_with_its_remedy() {
    let bench = |world: &str, set: &[(&str, &str)]| -> Said {
        let mut command = overlock(&["bench", "--in", world]);
        command.envs(set.iter().copied()).output().expect("it starts").into()
    };
    // An image that exists, so that nothing is built.
    let image = Path::new(env!("CARGO_BIN_EXE_overlock-kernels")).to_str().expect("a name");
    bench("tcg", &[("OVERLOCK_IMAGE", image), ("PATH", "/nowhere")])
        .ends(2, "there is no qemu-system-x86_64; `apt-get install qemu-system-x86` brings it");
    if !has_qemu() {
        return;
    }
    bench("tcg", &[("OVERLOCK_IMAGE", "/no/image")]).ends(2, "OVERLOCK_IMAGE names /no/image");
    let mut doctor = overlock(&["doctor"]);
    let output = doctor.env("OVERLOCK_IMAGE", "/no/image").output();
    let doctor: Said = output.expect("it starts").into();
    assert!(doctor.stdout.contains("not usable: OVERLOCK_IMAGE names /no/image"), "{doctor:?}");
    bench("xen", &[("OVERLOCK_IMAGE", image), ("OVERLOCK_XEN", "/no/xen")])
        .ends(2, "/no/xen can't be unpacked");
}

/// What a kernel has measured before its machine fails is told.
#[test]
fn what_was_measured_before_a_machine_failed_is_kept() {
    let args = ["bench", "--in", "tcg", "--cpus", "2", "--runs", "1", "--json", "--locks"];
    let mut command = overlock(&[&args[..], &["hybrid,ticket,queued"]].concat());
    command.env("OVERLOCK_IMAGE", env!("CARGO_BIN_EXE_overlock-kernels"));
    let failing = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines:/usr/bin:/bin");
    let said: Said = command.env("PATH", failing).output().expect("it starts").into();
    let points = said.records("point");
    assert!(points.len() == 1 && points[0]["lock"] == "ticket", "{said:?}");
    said.ends(2, "the kernel reset the machine");
}
