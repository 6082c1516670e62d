//! The code of the traced processes: where it is mapped, stacks through it, and numbers for them.

use super::Kind;
use super::word::Op;
use crate::analysis::Site;
use crate::analysis::hash::HashMap;
use crate::sources::platform;
use crate::sources::records::{Mapping, Stack};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder as _};
use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _};
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::rc::Rc;

/// Bytes of a file, shared by all processes that map it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Bytes(Rc<[u8]>);

impl std::ops::Deref for Bytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// What unwinding needs of a file.
#[derive(Clone, Debug)]
struct Sections {
    info: ExplicitModuleSectionInfo<Bytes>,
    /// Offset in the file, address in memory, and size of each segment of code.
    segments: Vec<(u64, u64, u64)>,
    is_go: bool,
}

/// The code of a process between two `exec`s.
#[derive(Clone)]
struct Image {
    process: u32,
    mappings: Vec<Mapping>,
    unwinder: UnwinderX86_64<Bytes>,
}

/// A stack that was seen: addresses, the innermost first. All but the first are return addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Frames {
    image: usize,
    pub(crate) addresses: Vec<u64>,
    /// What the system call of the wait says.
    pub(crate) op: Op,
    /// What is waited for, if the source knows it.
    pub(crate) kind: Option<Kind>,
}

/// The code of all traced processes.
#[derive(Default)]
pub(crate) struct Images {
    images: Vec<Image>,
    of_process: HashMap<u32, usize>,
    files: HashMap<String, Option<Rc<Sections>>>,
    /// Files of containers, which can't be found any more when their processes have ended.
    open: HashMap<String, File>,
    cache: CacheX86_64,
    sites: HashMap<Frames, Site>,
    frames: Vec<Frames>,
}

/// Code of a file around an address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Code<'a> {
    pub(crate) image: usize,
    pub(crate) at: u64,
    /// The address of the first byte of the text.
    pub(crate) start: u64,
    pub(crate) text: &'a [u8],
}

/// How many frames of a stack are kept.
const DEEPEST: usize = 24;
/// How many stacks are kept apart.
const MOST_SITES: usize = 8192;
/// Further ones are known by so many frames, which still tell the place of a wait, and so many of
/// these are kept. All others are one unknown site.
const INNERMOST: usize = 6;
const MOST_SHORT: usize = 2048;
/// `mov $15, %rax; syscall` of x86-64.
const RETURNS: [u8; 9] = [0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// A function seldom has more bytes of code, or more words on the stack.
const LONGEST_CODE: u64 = 1 << 16;
const LARGEST_FRAME: usize = 128;
/// The site of stacks that are not kept.
const UNKNOWN: Site = Site(0);

impl Images {
    pub(crate) fn exec(&mut self, process: u32) {
        let unwinder = UnwinderX86_64::new();
        self.images.push(Image { process, mappings: Vec::new(), unwinder });
        self.of_process.insert(process, self.images.len() - 1);
    }

    pub(crate) fn fork(&mut self, parent: u32, child: u32) {
        if let Some(image) = self.of_process.get(&parent) {
            self.images.push(Image { process: child, ..self.images[*image].clone() });
            self.of_process.insert(child, self.images.len() - 1);
        }
    }

    /// A process has ended. Its image is kept only as far as sites refer to it.
    pub(crate) fn end(&mut self, process: u32) {
        if let Some(image) = self.of_process.remove(&process)
            && image + 1 == self.images.len()
            && !self.frames.iter().any(|frames| frames.image == image)
        {
            self.images.pop();
        }
    }

    pub(crate) fn map(&mut self, process: u32, mapping: Mapping) {
        if !self.of_process.contains_key(&process) {
            self.exec(process);
        }
        let image = self.of_process[&process];
        let path = resolve(process, &mapping.path);
        let sections = self.files.entry(path.clone()).or_insert_with(|| sections(&path)).clone();
        if path != mapping.path
            && !self.open.contains_key(&path)
            && let Ok(file) = File::open(&path)
        {
            self.open.insert(path.clone(), file);
        }
        let image = &mut self.images[image];
        if let Some(sections) = sections
            && let Some(base) = sections.base(&mapping)
        {
            let range = mapping.start..mapping.end();
            let info = sections.info.clone();
            image.unwinder.add_module(Module::new(path.clone(), range, base, info));
        }
        image.mappings.push(Mapping { path, ..mapping });
    }

    /// Reads the mappings of a process that runs already, and adds those that are new.
    pub(crate) fn read(&mut self, process: u32) {
        // A thread that has ended has no memory any more, and the first one may be such a thread.
        let threads = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten();
        let maps = threads
            .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("maps")).ok())
            .find(|maps| !maps.is_empty())
            .unwrap_or_default();
        for mapping in maps.lines().filter_map(code) {
            let image = self.of_process.get(&process).map(|image| &self.images[*image].mappings);
            let is_known =
                |old: &Mapping| (old.start, old.length) == (mapping.start, mapping.length);
            if !image.is_some_and(|known| known.iter().any(is_known)) {
                self.map(process, mapping);
            }
        }
    }

    /// Returns the number of a stack.
    pub(crate) fn site(&mut self, process: u32, stack: &Stack<'_>, op: Op) -> Site {
        let Some(image) = self.of_process.get(&process).copied() else { return UNKNOWN };
        let mut read = |address: u64| stack.word(address).ok_or(());
        let mut registers = UnwindRegsX86_64::new(stack.instruction, stack.pointer, stack.frame);
        let unwinder = &self.images[image].unwinder;
        let mut address = FrameAddress::from_instruction_pointer(stack.instruction);
        let mut addresses = Vec::new();
        while addresses.len() < DEEPEST {
            addresses.push(address.address());
            let mut next = |registers: &mut UnwindRegsX86_64, cache: &mut CacheX86_64| {
                unwinder.unwind_frame(address, registers, cache, &mut read).ok().flatten()
            };
            let mut caller = next(&mut registers, &mut self.cache);
            // Where it is zero, a stack seems to end.
            if caller.is_none() && stack.frame == 0 && registers.bp() == 0 {
                let before = address.address_for_lookup();
                let Some(found) = self.frame(image, before, registers.sp(), stack) else { break };
                registers.set_bp(found);
                caller = next(&mut registers, &mut self.cache);
            }
            let Some(caller) = caller.and_then(FrameAddress::from_return_address) else { break };
            address = caller;
        }
        self.number(Frames { image, addresses, op, kind: None })
    }

    /// Returns where a function keeps the address of its caller's frame, if the register that says
    /// it is not known: in front of the address behind a call of this function, which starts
    /// nearer before its instruction than others, or behind a call that names none.
    fn frame(&self, image: usize, at: u64, from: u64, stack: &Stack<'_>) -> Option<u64> {
        let of = Frames { image, ..Frames::default() };
        // Go keeps other addresses of code on its stacks, too.
        let (path, _) = self.file(&of, at)?;
        if self.files.get(path)?.as_ref()?.is_go {
            return None;
        }
        let call = |frame: u64| {
            let behind = stack.word(frame.wrapping_add(8))?;
            let code = self.code_of(&of, behind)?;
            let end = usize::try_from(code.at - code.start).ok()?;
            let before = code.text.get(..end)?.last_chunk::<6>()?;
            let named = |far| behind.wrapping_add_signed(i64::from(i32::from_le_bytes(far)));
            let start = match *before {
                [_, 0xe8, far @ ..] => named(far),
                [0xff, 0x15, far @ ..] => {
                    let mut word = [0; 8];
                    let process = self.images[image].process;
                    platform::read_memory(process, named(far), &mut word);
                    u64::from_le_bytes(word)
                }
                [.., 0xff, 0xd0..=0xd7] | [.., 0xff, 0x50..=0x57, _] => 0,
                _ => return None,
            };
            let is_near = start == 0 || (start..start.saturating_add(LONGEST_CODE)).contains(&at);
            is_near.then_some((start, std::cmp::Reverse(frame)))
        };
        let words = (from..).step_by(8).take(LARGEST_FRAME);
        words.filter_map(call).max().map(|(_, frame)| frame.0)
    }

    /// Returns the number of a stack at which a thread waits for something of a kind.
    pub(crate) fn site_of(&mut self, site: Site, kind: Kind) -> Site {
        self.site_with(site, |frames| frames.kind = Some(kind))
    }

    /// Returns the number of a stack of which more is known.
    pub(crate) fn site_with(&mut self, site: Site, tell: impl FnOnce(&mut Frames)) -> Site {
        let Some(mut frames) = self.frames(site).cloned() else { return UNKNOWN };
        tell(&mut frames);
        self.number(frames)
    }

    /// Returns whether there is room for stacks at which threads do not wait.
    pub(crate) fn has_room(&self) -> bool {
        self.frames.len() < MOST_SITES / 2
    }

    fn number(&mut self, mut frames: Frames) -> Site {
        if let Some(site) = self.sites.get(&frames) {
            return *site;
        }
        if self.frames.len() >= MOST_SITES && frames.addresses.len() > INNERMOST {
            frames.addresses.truncate(INNERMOST);
            return self.number(frames);
        }
        if self.frames.len() >= MOST_SITES + MOST_SHORT {
            return UNKNOWN;
        }
        self.frames.push(frames.clone());
        let site = Site(u32::try_from(self.frames.len()).unwrap_or(0));
        self.sites.insert(frames, site);
        site
    }

    /// Returns the stack with a number.
    pub(crate) fn frames(&self, site: Site) -> Option<&Frames> {
        let frames = self.frames.get((site.0 as usize).checked_sub(1)?);
        frames.filter(|frames| !frames.addresses.is_empty())
    }

    /// Returns whether a program of Go was seen.
    pub(crate) fn has_go(&self) -> bool {
        self.files.values().flatten().any(|file| file.is_go)
    }

    /// Returns which code a process has: its program, and how many mappings of it.
    pub(crate) fn code_of_process(&self, process: u32) -> (usize, usize) {
        let image = self.of_process.get(&process).copied().unwrap_or_default();
        (image, self.images.get(image).map_or(0, |image| image.mappings.len()))
    }

    /// Returns the addresses in a process of symbols of a file with such a name.
    pub(crate) fn symbols_of<const N: usize>(
        &self,
        process: u32,
        is_it: impl Fn(&str) -> bool,
        names: [&str; N],
    ) -> Option<[u64; N]> {
        let image = self.images.get(*self.of_process.get(&process)?)?;
        image.mappings.iter().find_map(|mapping| {
            mapping.path.rsplit('/').next().filter(|name| is_it(name))?;
            let base = self.files.get(&mapping.path)?.as_ref()?.base(mapping)?;
            let bytes = std::fs::read(&mapping.path).ok()?;
            let file = object::File::parse(&*bytes).ok()?;
            let found = names.map(|name| {
                let mut all = file.dynamic_symbols().chain(file.symbols());
                all.find(|symbol| symbol.is_definition() && symbol.name() == Ok(name))
                    .map(|symbol| symbol.address().wrapping_add(base))
            });
            found.iter().all(Option::is_some).then(|| found.map(Option::unwrap_or_default))
        })
    }

    /// Returns the code from an address on to the end of its section, and the address in the file.
    pub(crate) fn code(&self, process: u32, address: u64) -> Option<Code<'_>> {
        let image = *self.of_process.get(&process)?;
        self.code_of(&Frames { image, ..Frames::default() }, address)
    }

    fn code_of(&self, frames: &Frames, address: u64) -> Option<Code<'_>> {
        let (path, at) = self.file(frames, address)?;
        let info = &self.files.get(path)?.as_ref()?.info;
        let (text, range) = (info.text.as_ref()?, info.text_svma.clone()?);
        range.contains(&at).then_some(Code { image: frames.image, at, start: range.start, text })
    }

    /// Returns whether a stack is of a signal's handler: it returns to the code that makes the call
    /// `rt_sigreturn`, which the C library gives to the kernel.
    pub(crate) fn is_in_handler(&self, frames: &Frames) -> bool {
        let text = |address: &u64| {
            let code = self.code_of(frames, *address)?;
            code.text.get(usize::try_from(code.at - code.start).ok()?..)
        };
        frames.addresses.iter().skip(1).filter_map(text).any(|text| text.starts_with(&RETURNS))
    }

    /// Returns the path by which a file can be read now.
    pub(crate) fn readable(&self, path: &str) -> String {
        let open = self.open.get(path).map(|file| format!("/proc/self/fd/{}", file.as_raw_fd()));
        open.unwrap_or_else(|| path.to_owned())
    }

    pub(crate) fn process(&self, frames: &Frames) -> Option<u32> {
        Some(self.images.get(frames.image)?.process)
    }

    /// Returns the file that an address is in, and the address in the file's own terms.
    pub(crate) fn file(&self, frames: &Frames, address: u64) -> Option<(&str, u64)> {
        let mappings = &self.images.get(frames.image)?.mappings;
        let inside = |mapping: &&Mapping| (mapping.start..mapping.end()).contains(&address);
        let mapping = mappings.iter().rev().find(inside)?;
        let sections = self.files.get(&mapping.path)?.as_ref()?;
        Some((&mapping.path, address.wrapping_sub(sections.base(mapping)?)))
    }
}

impl Sections {
    /// Returns the difference between addresses in memory and in the file.
    fn base(&self, mapping: &Mapping) -> Option<u64> {
        let inside = |(offset, _, size): &&(u64, u64, u64)| {
            mapping.offset < offset.saturating_add(*size)
                && mapping.offset.saturating_add(mapping.length) > *offset
        };
        let (offset, address, _) = self.segments.iter().find(inside)?;
        let stated = address.wrapping_sub(*offset).wrapping_add(mapping.offset);
        Some(mapping.start.wrapping_sub(stated))
    }
}

/// Returns a path by which this process can open a file of another, which may be in a container.
fn resolve(process: u32, path: &str) -> String {
    let inside = format!("/proc/{process}/root{path}");
    let is_own = std::fs::canonicalize(format!("/proc/{process}/root"))
        .is_ok_and(|root| root == std::path::Path::new("/"));
    if is_own || !std::path::Path::new(&inside).exists() { path.to_owned() } else { inside }
}

/// Reads what unwinding needs of a file; nothing if it is no such file.
fn sections(path: &str) -> Option<Rc<Sections>> {
    let bytes = std::fs::read(path).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let range = |name: &str| {
        let section = file.section_by_name(name)?;
        Some(section.address()..section.address().saturating_add(section.size()))
    };
    let data = |name: &str| {
        let section = file.section_by_name(name)?;
        Some(Bytes(section.data().ok()?.into()))
    };
    let info = ExplicitModuleSectionInfo {
        text_svma: range(".text"),
        text: data(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        ..ExplicitModuleSectionInfo::default()
    };
    // Segments share pages of the file at their ends; the mappings are those of code.
    let is_code = |flags| {
        let code = object::elf::PF_X;
        matches!(flags, object::SegmentFlags::Elf { p_flags, .. } if p_flags.0 & code.0 != 0)
    };
    let segments = file
        .segments()
        .filter(|segment| is_code(segment.flags()))
        .map(|segment| (segment.file_range().0, segment.address(), segment.file_range().1))
        .collect();
    let is_go = file.section_by_name(".gopclntab").is_some();
    Some(Rc::new(Sections { info, segments, is_go }))
}

/// Reads a line of `/proc/PID/maps` if it is a mapping of code.
fn code(line: &str) -> Option<Mapping> {
    let mut words = line.split_whitespace();
    let (range, access, offset) = (words.next()?, words.next()?, words.next()?);
    let path = words.nth(2)?;
    if !access.contains('x') {
        return None;
    }
    let number = |text| u64::from_str_radix(text, 16).ok();
    let (start, end) = range.split_once('-')?;
    let (start, end) = (number(start)?, number(end)?);
    let length = end.checked_sub(start)?;
    Some(Mapping { start, length, offset: number(offset)?, path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that runs for long may wait in more stacks than can be kept.
    #[test]
    fn of_too_many_stacks_the_innermost_frames_are_known() {
        let mut images = Images::default();
        let mut site = |inner: u64, outer: u64| {
            let addresses = [vec![inner; INNERMOST], vec![outer]].concat();
            let site = images.number(Frames { addresses, ..Frames::default() });
            (site, images.frames(site).map_or(0, |frames| frames.addresses.len()))
        };
        let all = 2 * MOST_SITES as u64;
        let first = site(1, 0);
        assert_eq!(first.1, INNERMOST + 1);
        assert!((1..all).all(|outer| site(1, outer).0 != UNKNOWN));
        assert_eq!(site(1, 0), first);
        let late = site(1, all);
        assert_eq!((late, late.1), (site(1, all + 1), INNERMOST));
        assert!(
            (2..all).any(|inner| site(inner, 0) == (UNKNOWN, 0)),
            "they are not kept without end"
        );
    }
}
