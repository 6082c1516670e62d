//! `replay`: which thread or vCPU each policy would have chosen at every spin of a recording.

mod cast;
mod line;
pub(crate) mod score;
pub(crate) mod stage;
mod table;

use crate::words::Words;
use anyhow::{Context, Result, ensure};
use cast::Cast;
use line::{Event, Line};
use stage::{Signals, Stage};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Debug, Default)]
struct Options {
    file: PathBuf,
    json: bool,
    each: bool,
    threads: Option<Vec<u32>>,
}

const USAGE: &str = "overlock replay [--json] [--each] [--threads ID,ID...] FILE\n\
    FILE is the text of `perf script`, of `trace-cmd report`, or of tracefs' `trace`.";

/// How to record what is needed.
const RECORD: &str = "record with `trace-cmd record -e sched_switch -e sched_wakeup -e kvm_entry \
    -e kvm_exit -e kvm_hypercall -e kvm_apic_ipi sleep 5`, and give the text of `trace-cmd report`";

/// Does what the words after `replay` say.
pub(crate) fn main(words: &[String]) -> Result<()> {
    let Some(options) = Options::parse(words)? else {
        return super::say(&format!("{USAGE}\n"));
    };
    let text = read(&options.file)?;
    let name = options.file.display().to_string();
    let played = Played::of(&text, &name, options.threads)?;
    let said = match (options.json, options.each) {
        (true, each) => table::json(&played, &name, each),
        (false, true) => table::each(&played),
        (false, false) => table::text(&played),
    };
    super::say(&said)
}

impl Options {
    fn parse(words: &[String]) -> Result<Option<Self>> {
        let mut options = Self::default();
        let mut words = Words::new(words, USAGE);
        while let Some(word) = words.next() {
            match word {
                "--json" => options.json = true,
                "--each" => options.each = true,
                "--help" | "-h" => return Ok(None),
                "--threads" => {
                    let ids = words.numbers(word)?;
                    let unique: BTreeSet<_> = ids.iter().collect();
                    ensure!(unique.len() == ids.len(), "--threads names a thread twice");
                    options.threads = Some(ids);
                }
                _ if word.starts_with('-') || !options.file.as_os_str().is_empty() => {
                    return words.unknown(word);
                }
                _ => options.file = word.into(),
            }
        }
        ensure!(!options.file.as_os_str().is_empty(), "replay wants a file\n{USAGE}");
        Ok(Some(options))
    }
}

fn read(file: &Path) -> Result<String> {
    let bytes = std::fs::read(file).with_context(|| format!("can't read {}", file.display()))?;
    let name = file.display();
    ensure!(!bytes.is_empty(), "{name} is empty");
    ensure!(
        !bytes.starts_with(b"\x17\x08\x44tracing") && !bytes.starts_with(b"PERFILE2"),
        "{name} is binary: give the text that `trace-cmd report` or `perf script` makes of it"
    );
    String::from_utf8(bytes).ok().with_context(|| format!("{name} is no text"))
}

/// A recording that has been played.
#[derive(Debug)]
pub(crate) struct Played {
    cast: Cast,
    stages: Vec<Stage>,
    pcpus: u32,
    /// Lines that say nothing that is understood, and places where events are missing.
    strange: usize,
    gaps: usize,
}

impl Played {
    pub(crate) fn of(text: &str, name: &str, threads: Option<Vec<u32>>) -> Result<Self> {
        let all = text.lines().filter(|line| {
            let line = line.trim();
            !line.is_empty() && !line.starts_with('#') && !line.starts_with("cpus=")
        });
        let is_gap = |line: &str| line.contains(" EVENTS]") || line.contains("events lost");
        let parsed: Vec<_> = all.map(|line| (is_gap(line), line::parse(line))).collect();
        let gaps = parsed.iter().filter(|(is_gap, _)| *is_gap).count();
        let strange = parsed.iter().filter(|(is_gap, line)| !is_gap && line.is_none()).count();
        let lines: Vec<Line<'_>> = parsed.iter().filter_map(|(_, line)| line.clone()).collect();
        ensure!(!lines.is_empty(), "{name} has no event in {} lines: {RECORD}", parsed.len());
        let is_switch = |line: &Line<'_>| matches!(line.event, Event::Switch { .. });
        ensure!(lines.iter().any(is_switch), "{name} has no sched_switch: {RECORD}");
        let cast = match threads {
            Some(threads) => Cast::named(threads, &lines)?,
            None => Cast::of(&lines),
        };
        ensure!(
            !cast.groups.is_empty(),
            "{name} has neither vCPUs (kvm_entry, kvm_exit) nor threads that yield \
             (sys_enter_sched_yield): {RECORD}"
        );
        let pcpus = lines.iter().map(|line| line.cpu).collect::<BTreeSet<_>>().len() as u32;
        let mut signals = vec![Signals::default(); cast.groups.len()];
        for line in &lines {
            if let Some((group, _)) = cast.place(line.thread) {
                signals[group].see(&line.event);
            }
        }
        let stages = cast.groups.iter().zip(signals);
        let stages = stages.map(|(group, signals)| Stage::new(group.threads.len(), pcpus, signals));
        let mut played = Self { stages: stages.collect(), cast, pcpus, strange, gaps };
        for (is_gap, line) in &parsed {
            if *is_gap {
                played.stages.iter_mut().for_each(Stage::lose);
            }
            if let Some(line) = line {
                played.play(line);
            }
        }
        Ok(played)
    }

    fn play(&mut self, line: &Line<'_>) {
        let at = line.at;
        match &line.event {
            Event::Switch { from, ready, to } => {
                let (leaves, comes) = (self.cast.place(from.id), self.cast.place(to.id));
                if let Some((group, place)) = leaves {
                    let next = comes.filter(|(other, _)| *other == group).map(|(_, next)| next);
                    self.stages[group].stops(at, place, *ready, next);
                }
                if let Some((group, place)) = comes {
                    self.stages[group].runs(at, place);
                }
                return;
            }
            Event::Wakeup(thread) => {
                if let Some((group, place)) = self.cast.place(*thread) {
                    self.stages[group].wakes(place);
                }
                return;
            }
            _ => {}
        }
        let Some((group, place)) = self.cast.place(line.thread) else { return };
        let stage = &mut self.stages[group];
        stage.acts(place);
        if let Event::Pause(Some(address)) | Event::Exit(Some(address)) = line.event {
            stage.leaves(place, address);
        }
        match &line.event {
            Event::Yield | Event::Pause(_) => stage.spins(at, place),
            Event::Entry { .. } | Event::Back => stage.goes_on(place),
            Event::Kick(to) => stage.kicks(at, *to),
            Event::Ipi(to) => stage.interrupts(at, place, to),
            Event::Said(lock) => stage.says(place, *lock),
            _ => {}
        }
    }
}
