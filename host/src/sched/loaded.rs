//! The scheduler in the kernel: loaded, attached, read, and taken away.

use super::abi::{Counts, Event, POLICIES, Settings, Tally, read_tally};
use super::{Checked, Options, oracle};
use crate::page;
use anyhow::{Context, Result};
use libbpf_rs::{
    Link, MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, PrintLevel, RingBuffer,
    RingBufferBuilder,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// The scheduler, compiled by `build.rs`.
static CODE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/bpf.o"));

/// A scheduler that this process has loaded. It ends with the process, whatever becomes of that.
pub(super) struct Loaded {
    object: Object,
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    events: Rc<RefCell<Vec<Event>>>,
    pinned: Option<PathBuf>,
}

impl Loaded {
    /// Loads it, and puts the page where it is wanted.
    pub(super) fn new(options: &Options) -> Result<Self> {
        libbpf_rs::set_print(Some((PrintLevel::Warn, |_, text| complain(&text))));
        let mut open =
            ObjectBuilder::default().open_memory(CODE).context("the scheduler's code")?;
        // What KVM tells, where it is there: kicks, interrupts, the numbers and modes of vCPUs.
        let has_kvm = Path::new("/sys/kernel/btf/kvm").exists();
        let slice_ns = options.slice_us * 1000;
        let settings = Settings {
            slice_ns,
            lead_ns: 2 * slice_ns,
            grace_ns: options.grace_us * 1000,
            policy: options.policy,
            cap: cap(options.threads),
            has_page: options.page.is_some().into(),
            tells: options.check.into(),
            stalls: options.stalls.into(),
            modes: (has_kvm && POLICIES[options.policy as usize].starts_with("linux")).into(),
        };
        for mut map in open.maps_mut() {
            if map.name() == ".rodata.settings" {
                map.set_initial_value(&settings.bytes())?;
            }
            if options.stalls && map.name() == "overlock" {
                // `timeout_ms`, behind 14 operations and the flags.
                let value = map.initial_value_mut().context("no scheduler")?;
                value[15 * 8..][..4].copy_from_slice(&2000_u32.to_ne_bytes());
            }
        }
        for mut program in open.progs_mut() {
            if is_kvm(program.name()) {
                let spins = program.name() == "vcpu_spins";
                program.set_autoload(has_kvm && (settings.modes == 1 || !spins));
            }
        }
        let object = open.load().context("the kernel does not take the scheduler")?;
        let events = Rc::new(RefCell::new(Vec::new()));
        let kept = Rc::clone(&events);
        let map = object.maps().find(|map| map.name() == "events").context("no ring of events")?;
        let handle = MapHandle::try_from(&map)?;
        let mut ring = RingBufferBuilder::new();
        ring.add(&handle, move |bytes| {
            kept.borrow_mut().extend(Event::read(bytes));
            0
        })?;
        let ring = ring.build()?;
        let mut loaded = Self { object, links: Vec::new(), ring, events, pinned: None };
        if let Some(path) = &options.page {
            loaded.pin(path)?;
        }
        Ok(loaded)
    }

    fn pin(&mut self, path: &PathBuf) -> Result<()> {
        let mut page = [0; page::BYTES];
        let words = [page::MAGIC, page::VERSION, page::RECORDS as u32];
        for (place, word) in page.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        let mut maps = self.object.maps_mut();
        let mut map = maps.find(|map| map.name() == "page").context("no page")?;
        map.update(&0_u32.to_ne_bytes(), &page, MapFlags::ANY)?;
        // It would say the same in its own words.
        let print = libbpf_rs::set_print(None);
        let done = map.pin(path);
        libbpf_rs::set_print(print);
        done.with_context(|| {
            format!(
                "the page can't be put at {}: it has to be a new name in a BPF file system \
                 (/sys/fs/bpf)",
                path.display()
            )
        })?;
        self.pinned = Some(path.clone());
        Ok(())
    }

    pub(super) fn attach(&mut self) -> Result<()> {
        let map = self.object.maps_mut().find(|map| map.name() == "overlock");
        let mut map = map.context("no scheduler")?;
        self.links.push(map.attach_struct_ops().context("the kernel refuses the scheduler")?);
        for program in self.object.progs_mut().filter(|of| is_kvm(of.name()) && of.autoload()) {
            self.links.push(program.attach().context("this KVM does not tell what is asked")?);
        }
        Ok(())
    }

    pub(super) fn detach(&mut self) {
        self.links.clear();
        if let Some(path) = self.pinned.take() {
            // If it is gone, it is gone.
            let _ = std::fs::remove_file(path);
        }
    }

    /// Takes in what it tells, for so long.
    pub(super) fn poll(&self, time: Duration) -> Result<()> {
        match self.ring.poll(time) {
            // A signal ends the wait.
            Err(error) if error.kind() != libbpf_rs::ErrorKind::Interrupted => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn value(&self, name: &str) -> Result<Vec<u8>> {
        let map = self.object.maps().find(|map| map.name() == name);
        let value = map.with_context(|| format!("no {name}"))?;
        value.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY)?.with_context(|| format!("no {name}"))
    }

    /// Why the kernel has ended it, if it has.
    pub(super) fn exited(&self) -> Result<Option<String>> {
        let bytes = self.value(".data.exited")?;
        let (kind, text) = bytes.split_at(4);
        if kind == [0; 4] {
            return Ok(None);
        }
        let (reason, message) = text.split_at(128);
        let words = [reason, message].map(|bytes| {
            let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
            String::from_utf8_lossy(text).trim().to_owned()
        });
        Ok(Some(words.join(": ").trim_end_matches(": ").to_owned()))
    }

    pub(super) fn counted(&self) -> Result<(Tally, Counts)> {
        read_tally(&self.value(".data.tally")?).context("a tally of another layout")
    }

    /// Compares all that it told with the oracle. Returns how many events that was.
    pub(super) fn check(&self, options: &Options, tally: &Tally, counts: Counts) -> Checked {
        self.ring.consume().map_err(|error| error.to_string())?;
        if counts.lost > 0 {
            return Err(format!("not compared: {} events did not fit", counts.lost));
        }
        let mut events = self.events.borrow().clone();
        events.sort_unstable_by_key(|event| (event.group, event.number));
        let own = cap(options.threads);
        let said = oracle::check(&events, options.policy, own)?;
        if said == *tally {
            return Ok(events.len() as u64);
        }
        let list = |of: &Tally| format!("{:?}", of.reasons().collect::<Vec<_>>());
        Err(format!("it counts {}, the scheduler {}", list(&said), list(tally)))
    }
}

/// Whether a program listens to KVM.
fn is_kvm(name: &OsStr) -> bool {
    name.to_string_lossy().starts_with("vcpu_")
}

/// Passes on what libbpf says, but of the verifier's pages only the end.
fn complain(text: &str) {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(4)..].iter().for_each(|line| crate::note(line));
}

/// How often `spin-count` passes a spinner over, at most: as in the library, by the number of
/// threads.
fn cap(threads: u32) -> u32 {
    threads.clamp(2, 64).next_power_of_two().trailing_zeros()
}
