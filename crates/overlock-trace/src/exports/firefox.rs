//! A profile for the Firefox Profiler (profiler.firefox.com): for each thread a call tree of its
//! waits, weighted by their length, and markers of what it did when; and one track of all waits,
//! whose innermost frames say what the locks' holders did meanwhile.

use crate::exports::slices::{Slice, Slices};
use crate::verdicts::{Findings, Names};
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags,
    MarkerFieldFormat, MarkerTiming, ProcessHandle, Profile, SamplingInterval, StackHandle,
    StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp, WeightType,
};
use std::collections::{BTreeMap, HashMap};
use std::time::SystemTime;

/// A time in which a thread did one thing.
struct Stretch {
    /// What kind of thing: the row of the chart.
    row: StringHandle,
    what: StringHandle,
    category: CategoryHandle,
}

impl StaticSchemaMarker for Stretch {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "stretch";
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.what}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.what}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "what",
        label: "What",
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.row
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _index: u32) -> StringHandle {
        self.what
    }

    fn number_field_value(&self, _index: u32) -> f64 {
        0.0
    }
}

/// A profile while it is written.
struct Writer {
    profile: Profile,
    waits: CategoryHandle,
    states: CategoryHandle,
    processes: BTreeMap<u32, ProcessHandle>,
    /// The time of each stack of a thread that is no whole millisecond yet, which is the unit of
    /// weights.
    rests: HashMap<StackHandle, u64>,
    /// The processor time of each thread that no sample has told of.
    ran: HashMap<ThreadHandle, u64>,
}

/// No thread has this number.
const ALL: u32 = 0;

/// Writes all that was kept of the events, and all waits.
pub(crate) fn profile(slices: &Slices, found: &Findings, names: &mut Names<'_>) -> String {
    let interval = SamplingInterval::from_millis(1);
    let mut profile = Profile::new("overlock trace", SystemTime::now().into(), interval);
    profile.set_symbolicated(true);
    let waits = profile.add_category("Waits", CategoryColor::Red);
    let states = profile.add_category("States", CategoryColor::Blue);
    let processes = BTreeMap::new();
    let (rests, ran) = (HashMap::new(), HashMap::new());
    let mut writer = Writer { profile, waits, states, processes, rests, ran };
    let main = slices.threads.values().map(|(process, _)| *process).next().unwrap_or(0);
    let all = writer.thread((main, ALL), 0, "all sleeps, by what holders did");
    for stack in &found.stacks {
        let unheld = stack.slept_ns.saturating_sub(stack.holder.total());
        for (state, ns) in stack.holder.named().into_iter().chain([("none", unheld)]) {
            let inner = [format!("[{}]", stack.kind), format!("[holder {state}]")];
            let ender = stack.ender.as_ref().map(|who| format!("[by {who}]"));
            let frames = stack.functions.iter().rev().chain(&inner).chain(&ender);
            writer.waited(all, frames, (0, 0), ns);
        }
    }
    let mut threads = HashMap::new();
    for (thread, (process, born)) in &slices.threads {
        threads.insert(*thread, writer.thread((*process, *thread), *born, &names.thread(*thread)));
    }
    for slice in &slices.all {
        let Some(thread) = threads.get(&slice.thread) else { continue };
        writer.slice(*thread, slice, names);
    }
    serde_json::to_string(&writer.profile).unwrap_or_default()
}

impl Writer {
    fn thread(&mut self, (process, thread): (u32, u32), born: u64, name: &str) -> ThreadHandle {
        let born = Timestamp::from_nanos_since_reference(born);
        let profile = &mut self.profile;
        let new = || profile.add_process(&format!("process {process}"), process, born);
        let handle = *self.processes.entry(process).or_insert_with(new);
        let handle = self.profile.add_thread(handle, thread, born, thread == process);
        self.profile.set_thread_name(handle, name);
        self.profile.set_thread_samples_weight_type(handle, WeightType::TracingMs);
        handle
    }

    fn slice(&mut self, thread: ThreadHandle, slice: &Slice, names: &mut Names<'_>) {
        let at = Timestamp::from_nanos_since_reference;
        let (row, category) = match slice.sleeps {
            Some(_) => ("wait", self.waits),
            None => ("state", self.states),
        };
        let ender = slice.ender.map(|(thread, site, _)| names.thread_at(thread, site));
        let ender = ender.map(|who| format!(", ended by {who}")).unwrap_or_default();
        let told = format!("{}{ender}", slice.name);
        if slice.name == "running" {
            *self.ran.entry(thread).or_default() += slice.to - slice.from;
        }
        let (row, what) = (self.profile.intern_string(row), self.profile.intern_string(&told));
        let timing = MarkerTiming::Interval(at(slice.from), at(slice.to));
        self.profile.add_marker(thread, timing, Stretch { row, what, category });
        if let Some((site, _)) = slice.sleeps {
            let stack = names.stack(site);
            let ran = self.ran.remove(&thread).unwrap_or(0);
            self.waited(thread, stack.iter().rev(), (slice.to, ran), slice.to - slice.from);
        }
    }

    /// Adds a sleep by a stack, the outermost function first, that ended at a time. Before it, the
    /// thread had run for a time.
    fn waited<'a>(
        &mut self,
        thread: ThreadHandle,
        frames: impl Iterator<Item = &'a String>,
        (at, ran): (u64, u64),
        ns: u64,
    ) {
        let (profile, category) = (&mut self.profile, self.waits);
        let frame = |name: &'a String| FrameInfo {
            frame: Frame::Label(profile.intern_string(name)),
            category_pair: category.into(),
            flags: FrameFlags::empty(),
        };
        let frames: Vec<FrameInfo> = frames.map(frame).collect();
        let Some(stack) = self.profile.intern_stack_frames(thread, frames.into_iter()) else {
            return;
        };
        let rest = self.rests.entry(stack).or_default();
        *rest += ns;
        let ms = i32::try_from(*rest / 1_000_000).unwrap_or(i32::MAX);
        *rest %= 1_000_000;
        if ms > 0 || ran > 0 {
            let at = Timestamp::from_nanos_since_reference(at);
            self.profile.add_sample(thread, at, Some(stack), CpuDelta::from_nanos(ran), ms);
        }
    }
}
