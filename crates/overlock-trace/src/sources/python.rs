//! The functions of Python in which threads wait: its interpreter's memory has the frames of each
//! thread. They are read some times a second, and a place has the function that was found there
//! most.

use crate::analysis::hash;
use crate::analysis::{Analysis, Site};
use crate::names::images::Images;
use crate::sources::platform::{now_ns, read_memory};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Where CPython has what is needed, in bytes.
struct Layout {
    minor: u8,
    /// In the runtime's state, the first interpreter, and in that, the first thread. Since 3.13,
    /// the runtime's state says so itself, in words.
    interpreter: u64,
    threads: u64,
    /// In a thread's state: its number, and its innermost frame, or what has that at 0 or 8.
    thread: u64,
    frame: u64,
    indirect: Option<u64>,
    /// In a frame.
    code: u64,
    previous: u64,
    owner: u64,
    /// In a code object, and before the letters of a name.
    line: u64,
    letters: u64,
}

/// By the structures `pyruntimestate`, `_is`, `_ts`, `_PyInterpreterFrame`, `PyCodeObject` and
/// `PyASCIIObject` of CPython 3.11.7, 3.12, 3.13 and 3.14 on x86-64, and `_Py_DebugOffsets` of the
/// last two.
#[rustfmt::skip]
const LAYOUTS: [Layout; 4] = [
    Layout { minor: 11, interpreter: 40, threads: 0x10, thread: 0xa0, frame: 0x38, indirect: Some(8),
             code: 0x20, previous: 0x30, owner: 0x45, line: 0x48, letters: 48 },
    Layout { minor: 12, interpreter: 40, threads: 0x48, thread: 0x90, frame: 0x38, indirect: Some(0),
             code: 0, previous: 8, owner: 0x46, line: 0x44, letters: 40 },
    Layout { minor: 13, interpreter: 40, threads: 72, thread: 0xa0, frame: 0x48, indirect: None,
             code: 0, previous: 8, owner: 0x46, line: 0x44, letters: 40 },
    Layout { minor: 14, interpreter: 40, threads: 72, thread: 0xa0, frame: 0x48, indirect: None,
             code: 0, previous: 8, owner: 0x4a, line: 0x44, letters: 40 },
];
/// In the state of an interpreter's thread, the next; in a code object, the file and the name; in a
/// name, how long it is.
const NEXT: u64 = 8;
const FILE: u64 = 0x70;
const NAME: u64 = 0x80;
const LENGTH: u64 = 16;
/// Frames with this owner or a higher one are the interpreter's own.
const OWN: u8 = 3;

/// The time between two looks.
const EVERY_NS: u64 = 20_000_000;
const MOST_THREADS: usize = 256;
/// How many frames are told, and how many are passed over at most.
const FRAMES: usize = 3;
const DEEPEST: usize = 32;
const LONGEST_NAME: usize = 200;
/// How many names of code, and places, are remembered.
const MOST_NAMES: usize = 1 << 14;

/// Where the state of a runtime is, and which.
type Runtime = (u64, &'static Layout);

/// The functions of a thread, the innermost first, that with its file and first line.
pub(crate) type Functions = Vec<String>;

#[derive(Default)]
pub(crate) struct Python {
    looked: u64,
    /// Where the runtime of each process is, and which, by the code that it had then.
    runtimes: HashMap<u32, ((usize, usize), Option<Runtime>)>,
    /// The names of code objects: the function, and its place.
    names: HashMap<(u32, u64), Option<(String, String)>>,
    /// What looks have found, until its turn comes among the records.
    found: VecDeque<(u64, u32, Functions)>,
    /// The last of it of each thread, and when that was.
    last: HashMap<u32, (u64, Functions)>,
    /// How often threads were found in functions while they waited at a place, and while they ran.
    at: HashMap<Site, HashMap<Functions, u32>>,
    ran: HashMap<u32, HashMap<Functions, u32>>,
}

impl Python {
    /// Looks at threads, each of a process, if it is time to.
    pub(crate) fn look(&mut self, threads: &hash::HashMap<u32, u32>, images: &Images) {
        let now = now_ns();
        if now.saturating_sub(self.looked) < EVERY_NS {
            return;
        }
        self.looked = now;
        let processes: BTreeSet<u32> = threads.values().copied().collect();
        for process in processes {
            let code = images.code_of_process(process);
            let known = self.runtimes.entry(process).or_default();
            if known.0 != code {
                *known = (code, runtime(process, images));
            }
            let Some((at, layout)) = known.1 else { continue };
            for (thread, state) in states(process, at, layout) {
                let functions = self.functions(process, state, layout);
                if !functions.is_empty() {
                    self.found.push_back((now, thread, functions));
                }
            }
        }
    }

    /// Finds places for what looks have found before a time.
    pub(crate) fn tell(&mut self, until: u64, analysis: &Analysis) {
        while let Some((at, thread, functions)) = self.found.pop_front_if(|(at, ..)| *at <= until) {
            if self.last.len() >= MOST_NAMES {
                self.last.clear();
            }
            self.last.insert(thread, (at, functions));
            if let Some(place) = analysis.place_of(thread) {
                self.was_at(thread, place, (at, at));
            }
        }
    }

    /// A thread was at a place, or ran, in some time: if a look has found it then, that was in
    /// these functions.
    pub(crate) fn was_at(&mut self, thread: u32, place: Option<Site>, (from, to): (u64, u64)) {
        let Some((at, functions)) = self.last.get(&thread) else { return };
        let functions = functions.clone();
        let most = self.at.len().max(self.ran.len());
        if !(from..=to).contains(at) || most >= MOST_NAMES {
            return;
        }
        let counts = match place {
            Some(site) => self.at.entry(site).or_default(),
            None => self.ran.entry(thread).or_default(),
        };
        *counts.entry(functions).or_default() += 1;
    }

    /// Returns in which functions threads wait at a place.
    pub(crate) fn at(&self, site: Site) -> Option<&Functions> {
        most(self.at.get(&site)?)
    }

    /// Returns in which functions a thread ran most.
    pub(crate) fn ran(&self, thread: u32) -> Option<&Functions> {
        most(self.ran.get(&thread)?)
    }

    fn functions(&mut self, process: u32, state: u64, layout: &Layout) -> Functions {
        let word = |from: u64, offset: u64| word(process, from, offset);
        let first = || {
            let frame = word(state, layout.frame)?;
            layout.indirect.map_or(Some(frame), |at| word(frame, at))
        };
        let (mut frame, mut found) = (first().unwrap_or(0), Functions::new());
        for _ in 0..DEEPEST {
            let mut owner = [0];
            if frame == 0
                || found.len() == FRAMES
                || read_memory(process, frame.wrapping_add(layout.owner), &mut owner) == 0
            {
                break;
            }
            // The lowest bits are no part of an address.
            if owner[0] < OWN
                && let Some(code) = word(frame, layout.code)
                && let Some((name, place)) = self.name(process, code & !3, layout)
            {
                let is_first = found.is_empty();
                found.push(if is_first { format!("{name} ({place})") } else { name.clone() });
            }
            frame = word(frame, layout.previous).unwrap_or(0);
        }
        found
    }

    fn name(&mut self, process: u32, code: u64, layout: &Layout) -> Option<&(String, String)> {
        if self.names.len() >= MOST_NAMES {
            self.names.clear();
        }
        let name = self.names.entry((process, code)).or_insert_with(|| {
            let text = |at: u64| text(process, word(process, code, at)?, layout);
            let line = word(process, code, layout.line)? & u64::from(u32::MAX);
            let (name, file) = (text(NAME)?, text(FILE)?);
            let file = file.rsplit('/').next().unwrap_or(&file).to_owned();
            Some((name, format!("{file}:{line}")))
        });
        name.as_ref()
    }
}

fn most(counts: &HashMap<Functions, u32>) -> Option<&Functions> {
    counts.iter().max_by_key(|(functions, count)| (**count, *functions)).map(|(most, _)| most)
}

/// Returns the word so many bytes behind an address. What is read there may be anything.
fn word(process: u32, from: u64, offset: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    let at = from.wrapping_add(offset);
    (read_memory(process, at, &mut bytes) == 8).then(|| u64::from_ne_bytes(bytes))
}

/// Returns the letters of a string that has no other ones than ASCII.
fn text(process: u32, string: u64, layout: &Layout) -> Option<String> {
    let length = usize::try_from(word(process, string, LENGTH)?).ok()?;
    let mut bytes = vec![0; length.min(LONGEST_NAME)];
    let skipped = (length - bytes.len()) as u64;
    let from = string.wrapping_add(layout.letters).wrapping_add(skipped);
    (read_memory(process, from, &mut bytes) == bytes.len() && bytes.is_ascii())
        .then(|| String::from_utf8(bytes).ok())?
        .filter(|text| !text.is_empty() && !text.contains('\0'))
}

/// Returns the runtime of Python in a process, if it has one that is known.
fn runtime(process: u32, images: &Images) -> Option<Runtime> {
    let is_python = |name: &str| name.starts_with("python3") || name.starts_with("libpython3");
    let symbols = images.symbols_of(process, is_python, ["_PyRuntime", "Py_Version"])?;
    let [runtime, version] = symbols;
    let minor = word(process, version, 0)? >> 16 & 0xff;
    Some((runtime, LAYOUTS.iter().find(|layout| u64::from(layout.minor) == minor)?))
}

/// Returns the threads of the first interpreter, and the state of each.
fn states(process: u32, runtime: u64, layout: &Layout) -> Vec<(u32, u64)> {
    let word = |from: u64, offset: u64| word(process, from, offset);
    let says = |at: u64| if layout.minor > 12 { word(runtime, at) } else { Some(at) };
    let first = || {
        let interpreter = word(runtime, says(layout.interpreter)?)?;
        word(interpreter, says(layout.threads)?)
    };
    let next = |state: &u64| word(*state, NEXT).filter(|state| *state != 0);
    let states = std::iter::successors(first().filter(|state| *state != 0), next);
    let thread = |state: u64| Some((u32::try_from(word(state, layout.thread)?).ok()?, state));
    states.take(MOST_THREADS).filter_map(thread).collect()
}
