//! Which vCPU ran on which pCPU, and which one held the lock; or which thread on which CPU.
//!
//! The lanes are an SVG within the picture whose units are nanoseconds, so that zooming only
//! changes its `viewBox`. Without a script the whole span is shown.

use crate::page::figure::{Caption, Chart, across, svg};
use crate::page::label::{self, trimmed};
use crate::page::palette::px;
use crate::page::scale::Scale;
use crate::page::span::{Bar, Columns, Span, common, path};
use crate::page::table::{Column, Group, Table, number};
use crate::row::TimelineRow;
use crate::stats::unique;
use crate::units::{DurationArg, counted, three, time};
use maud::{Markup, html};

/// If there are more critical sections, or more changes of a vCPU's state, than this, those shorter
/// than a pixel are drawn together: otherwise pages grow to megabytes, and browsers become slow.
const DRAWN: usize = 2_000;

/// At most this many locks have a lane.
const LOCKS: usize = 8;

const LANE: f64 = 18.0;
const WHOLE: Bar = Bar { top: 2.0, height: 12.0 };
const THIN: Bar = Bar { top: 6.0, height: 4.0 };
const BELOW: Bar = Bar { top: 12.0, height: 2.0 };
const GUTTER: f64 = 66.0;
pub(crate) const WIDTH: f64 = 1000.0;
/// Room for half of the last tick's text.
const RIGHT: f64 = 28.0;

#[derive(Debug, Default)]
struct Life {
    /// The pCPU, and when it ran there.
    running: Vec<(u32, Span)>,
    ready: Vec<Span>,
    off: Vec<Span>,
    held: Vec<(u32, Span)>,
    waited: Vec<Span>,
}

#[derive(Debug)]
pub(crate) struct Lanes<'a> {
    of: &'a TimelineRow,
    lives: Vec<Life>,
    locks: Vec<u32>,
}

#[derive(Debug, PartialEq)]
struct Shares {
    /// Shares of the span: held, and held by a vCPU without a pCPU.
    held: f64,
    off: f64,
}

impl<'a> Lanes<'a> {
    pub(crate) fn of(of: &'a TimelineRow) -> Self {
        let whole = Span { from: of.from_ns as f64, to: of.to_ns as f64 };
        let span = |from: u64, to: u64| {
            let span = whole.and(Span { from: from as f64, to: to as f64 })?;
            Some(Span { from: span.from - whole.from, to: span.to - whole.from })
        };
        let mut lives: Vec<Life> = (0..of.cpus).map(|_| Life::default()).collect();
        for (vcpu, state, pcpu, from, to) in &of.stints {
            let Some(span) = span(*from, *to) else { continue };
            let life = &mut lives[*vcpu as usize];
            match (state.as_str(), pcpu) {
                ("running", Some(pcpu)) => life.running.push((*pcpu, span)),
                ("ready", _) => life.ready.push(span),
                _ => {}
            }
            if matches!(state.as_str(), "ready" | "halted") {
                life.off.push(span);
            }
        }
        for (vcpu, lock, asked, taken, released) in &of.holds {
            let life = &mut lives[*vcpu as usize];
            life.waited.extend(span(*asked, taken.unwrap_or(of.to_ns)));
            let held = taken.and_then(|taken| span(taken, released.unwrap_or(of.to_ns)));
            life.held.extend(held.map(|span| (*lock, span)));
        }
        for life in &mut lives {
            life.off.sort_by(|a, b| a.from.total_cmp(&b.from));
        }
        let mut locks = unique(of.holds.iter().map(|hold| hold.1));
        locks.sort_unstable();
        locks.truncate(LOCKS);
        Lanes { of, lives, locks }
    }

    fn length(&self) -> f64 {
        (self.of.to_ns - self.of.from_ns) as f64
    }

    /// Returns the columns in which what is too short is drawn, if there is too much to draw each
    /// part by itself.
    fn columns(&self, width: f64) -> Option<Columns> {
        let many = self.of.holds.len().max(self.of.stints.len()) > DRAWN;
        let count = (width - RIGHT - GUTTER).max(1.0) as usize;
        many.then_some(Columns { width: self.length() / count as f64, count })
    }

    fn shares(&self, lock: u32) -> Shares {
        let (mut held, mut off) = (0.0, 0.0);
        for life in &self.lives {
            for (_, span) in life.held.iter().filter(|(of, _)| *of == lock) {
                held += span.length();
                off += common(*span, &life.off).map(Span::length).sum::<f64>();
            }
        }
        Shares { held: held / self.length(), off: off / self.length() }
    }

    fn words(&self) -> [&'static str; 2] {
        if is_of_threads(self.of) { ["thread", "CPU"] } else { ["vCPU", "pCPU"] }
    }

    fn sentence(&self) -> String {
        let locks = self.locks.iter().map(|lock| {
            let Shares { held, off } = self.shares(*lock);
            let [held, off] = [held, off].map(|share| three(100.0 * share));
            let name = if self.locks.len() == 1 { "The lock".into() } else { format!("Lock {lock}") };
            let [it, on] = self.words();
            format!("{name} was held for at most {held} % of the time, {off} % by a {it} without a {on}.")
        });
        let mut sentences: Vec<String> = locks.collect();
        if let Some(columns) = self.columns(WIDTH) {
            sentences.push(format!(
                "What took less than {} is drawn together: the darker, the more of the time it took.",
                time(columns.width)
            ));
        }
        if let Some(speed) = self.of.speed {
            let speed = three(speed);
            sentences.push(format!(
                "The run had {speed} times the throughput of the runs without a timeline."
            ));
        }
        sentences.join(" ")
    }

    /// Draws the picture on a page, where a script can zoom into it.
    pub(crate) fn zoomable(&self, id: &str) -> Markup {
        let (height, inside) = self.draw(WIDTH);
        let picture = svg(&self.caption(), WIDTH, height, &inside);
        html! { div class="zoom" id=(id) data-span=(self.length()) tabindex="0" { (picture) } }
    }

    /// Makes a table of the same: for how long each did what.
    pub(crate) fn table(&self) -> Markup {
        let [it, on] = self.words();
        let column = |name: String| Column { name, about: String::new(), is_text: false };
        let without = format!("ready, without a {on}");
        let names = ["ran", &without, "waited for a lock", "held one", "held it without"];
        let columns = [it].into_iter().chain(names).map(|name| column(name.to_owned()));
        let row = |(number_of, life): (usize, &Life)| {
            let sum = |spans: &mut dyn Iterator<Item = Span>| spans.map(Span::length).sum::<f64>();
            let stuck = life.held.iter().flat_map(|(_, span)| common(*span, &life.off));
            let times = [
                sum(&mut life.running.iter().map(|(_, span)| *span)),
                sum(&mut life.ready.iter().copied()),
                sum(&mut life.waited.iter().copied()),
                sum(&mut life.held.iter().map(|(_, span)| *span)),
                sum(&mut stuck.into_iter()),
            ];
            let times = times.map(|ns| number(&(ns, time(ns))));
            [html! { (it) " " (number_of) }].into_iter().chain(times).collect()
        };
        let rows = self.lives.iter().enumerate().map(row).collect();
        let caption = format!("For how long each {it} did what");
        let groups = vec![Group { name: String::new(), rows }];
        Table { class: "time", caption, columns: columns.collect(), groups }.show()
    }

    fn lanes(&self, columns: Option<Columns>) -> Vec<(String, Markup)> {
        let name = |lock: u32| match self.locks.len() {
            1 => "lock".into(),
            _ => format!("lock {lock}"),
        };
        let [it, on] = self.words();
        let pcpus = (0..self.of.pcpus).map(|of| (format!("{on} {of}"), self.pcpu(of, columns)));
        let locks = self.locks.iter().map(|lock| (name(*lock), self.lock(*lock, columns)));
        let vcpus = self.lives.iter().enumerate();
        let vcpus = vcpus.map(|(of, life)| (format!("{it} {of}"), vcpu(of, life, columns)));
        pcpus.chain(locks).chain(vcpus).collect()
    }

    fn pcpu(&self, pcpu: u32, columns: Option<Columns>) -> Markup {
        let [it, on] = self.words();
        let here = |(of, _): &&(u32, Span)| *of == pcpu;
        let layers = self.layers("ran", |life| {
            life.running.iter().filter(here).map(|(_, span)| *span).collect()
        });
        html! {
            @if columns.is_none() {
                @for (vcpu, (class, spans)) in layers.iter().enumerate() { @for span in spans {
                    path class=(class) d=(path([*span], WHOLE)) {
                        title { (it) " " (vcpu) " on " (on) " " (pcpu) ": " (time(span.length())) }
                    }
                } }
            } @else { (bars(layers, WHOLE, columns, false)) }
        }
    }

    fn lock(&self, lock: u32, columns: Option<Columns>) -> Markup {
        let held = |life: &Life| -> Vec<Span> {
            life.held.iter().filter(|(of, _)| *of == lock).map(|(_, span)| *span).collect()
        };
        let stuck = self.lives.iter().flat_map(|life| {
            held(life).into_iter().flat_map(|span| common(span, &life.off)).collect::<Vec<_>>()
        });
        html! {
            (bars(self.layers("held", held), WHOLE, columns, false))
            (stuck_bars(stuck.collect(), columns))
        }
    }

    fn layers(&self, class: &str, of: impl Fn(&Life) -> Vec<Span>) -> Vec<(String, Vec<Span>)> {
        let lives = self.lives.iter().enumerate();
        lives.map(|(vcpu, life)| (format!("{class} c{}", vcpu % 8), of(life))).collect()
    }
}

impl Chart for Lanes<'_> {
    fn caption(&self) -> Caption {
        let TimelineRow { lock, cpus, pcpus, world, workload, cs_ns, ncs_ns, .. } = self.of;
        let policy = match self.of.policy.as_str() {
            "none" => String::new(),
            policy => format!(", {policy}"),
        };
        let length = time(self.length());
        if is_of_threads(self.of) {
            let title = format!(
                "{} on {}, {length} around the longest wait, at {lock}",
                counted(*cpus, "thread"),
                counted(*pcpus, "CPU")
            );
            return Caption { title, description: self.sentence() };
        }
        let [cs, ncs] = [*cs_ns, *ncs_ns].map(DurationArg);
        let title = format!(
            "{lock}{policy}: {} on {}, world {world}, {length} of {workload}, critical section {cs}, \
             pause {ncs}",
            counted(*cpus, "vCPU"),
            counted(*pcpus, "pCPU")
        );
        Caption { title, description: self.sentence() }
    }

    fn draw(&self, width: f64) -> (f64, Markup) {
        let lanes = self.lanes(self.columns(width));
        let height = LANE * lanes.len() as f64;
        let right = width - RIGHT;
        let axis = Scale::span(0.0, self.length(), GUTTER, right);
        let ticks = axis.ticks(8.0);
        let ticks = ticks.iter().map(|tick| (axis.at(*tick), trimmed(&time(*tick))));
        let inside = html! {
            @for (at, (name, _)) in lanes.iter().enumerate() {
                @let y = LANE * at as f64;
                text class="name" x=(px(GUTTER - 8.0)) y=(px(y + 12.5)) text-anchor="end" { (name) }
                path class="grid" d={
                    "M" (px(GUTTER)) " " (px(y + LANE - 1.5)) "H" (px(right)) } {}
            }
            svg class="lanes" x=(px(GUTTER)) y="0" width=(px(right - GUTTER))
                height=(px(height)) preserveAspectRatio="none"
                viewBox={ "0 0 " (self.length()) " " (px(height)) } {
                @for (at, (_, lane)) in lanes.iter().enumerate() {
                    g transform={ "translate(0 " (px(LANE * at as f64)) ")" } { (lane) }
                }
            }
            (across(label::spaced(ticks), height, "time", (GUTTER + right) / 2.0))
        };
        (height + 42.0, inside)
    }
}

/// Returns whether a timeline is of a program's threads, as `trace` saw them.
pub(crate) fn is_of_threads(of: &TimelineRow) -> bool {
    of.world == "trace"
}

fn vcpu(number: usize, life: &Life, columns: Option<Columns>) -> Markup {
    let one =
        |class: String, spans: Vec<Span>, bar: Bar| bars(vec![(class, spans)], bar, columns, false);
    let spans = |of: &[(u32, Span)]| -> Vec<Span> { of.iter().map(|(_, span)| *span).collect() };
    let held = spans(&life.held);
    let stuck = held.iter().flat_map(|span| common(*span, &life.off)).collect();
    html! {
        (one(format!("on c{}", number % 8), spans(&life.running), WHOLE))
        (one("ready".into(), life.ready.clone(), THIN))
        (one(format!("held c{}", number % 8), held, WHOLE))
        (one("waits".into(), life.waited.clone(), BELOW))
        (stuck_bars(stuck, columns))
    }
}

/// Draws where a holder had no pCPU, so that even short times are seen.
fn stuck_bars(spans: Vec<Span>, columns: Option<Columns>) -> Markup {
    html! {
        @if columns.is_none() {
            @for span in spans {
                path class="stuck" d=(path([span], WHOLE)) {
                    title { "the holder had no processor for " (time(span.length())) }
                }
            }
        } @else { (bars(vec![("stuck".into(), spans)], WHOLE, columns, true)) }
    }
}

/// Draws intervals of several classes, a path each; with columns, those that are too short
/// together.
fn bars(
    layers: Vec<(String, Vec<Span>)>,
    bar: Bar,
    columns: Option<Columns>,
    marked: bool,
) -> Markup {
    let is_short = |span: &Span| columns.is_some_and(|columns| span.length() < columns.width);
    let split = |(class, spans): (String, Vec<Span>)| {
        let (short, long): (Vec<Span>, Vec<Span>) = spans.into_iter().partition(is_short);
        ((class.clone(), long), (class, short))
    };
    let (long, short): (Vec<_>, Vec<_>) = layers.into_iter().map(split).unzip();
    html! {
        @for (class, spans) in long { @if !spans.is_empty() {
            path class=(class) d=(path(spans, bar)) {}
        } }
        @if let Some(columns) = columns { (columns.shades(&short, bar, marked)) }
    }
}

pub(crate) fn legend(are_threads: bool) -> Markup {
    let [it, on] = if are_threads { ["thread", "CPU"] } else { ["vCPU", "pCPU"] };
    let key = |class: &str, text: &str| {
        html! { li {
            svg aria-hidden="true" width="26" height="12" viewBox="0 0 26 12" { path class=(class) d="M1 1h24v10h-24z" {} }
            (text)
        } }
    };
    html! {
        ul class="legend" {
            (key("on c0", &format!("runs (each {it} has its colour)")))
            (key("held c0", "holds the lock"))
            (key("stuck", &format!("holds it without a {on}")))
            (key("ready", &format!("ready, without a {on}")))
            (key("waits", "waits for the lock"))
            li { @if are_threads { "an empty lane is a sleep" } @else { "an empty lane is a halt" } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// vCPU 0 holds the lock from 10 to 60, and has no pCPU from 30 to 50.
    fn timeline() -> TimelineRow {
        serde_json::from_str(
            r#"{"world":"kvm","workload":"micro","lock":"ticket","policy":"none","cpus":2,
                "pcpus":1,"cs_ns":50,"ncs_ns":0,"from_ns":1000,"to_ns":1100,
                "stints":[[0,"running",0,900,1030],[0,"ready",null,1030,1050],
                          [1,"running",0,1030,1050],[0,"running",0,1050,1200]],
                "holds":[[0,0,1000,1010,1060],[1,0,1005,null,null]]}"#,
        )
        .unwrap()
    }

    /// Two vCPUs take turns: each holds the lock for 400 of 1000 ns, 50,000 times in 0.1 s.
    fn long() -> TimelineRow {
        let holds = (0..100_000_u64).map(|n| {
            let from = 1_000 * n;
            (u32::from(n % 2 == 1), 0, from, Some(from + 100), Some(from + 500))
        });
        let running = |vcpu| (vcpu, "running".to_owned(), Some(vcpu), 0, 100_000_000);
        TimelineRow {
            pcpus: 2,
            from_ns: 0,
            to_ns: 100_000_000,
            stints: vec![running(0), running(1)],
            holds: holds.collect(),
            ..timeline()
        }
    }

    #[test]
    fn nothing_is_drawn_beyond_the_ends() {
        let timeline = timeline();
        let picture = Lanes::of(&timeline).zoomable("t").into_string();
        // vCPU 0 ran before and after, and vCPU 1 waits until the end.
        for path in ["M0 2h30v12h-30zM50 2h50v12h-50z", "M5 12h95v2h-95z"] {
            assert!(picture.contains(path), "{path} is not in {picture}");
        }
    }

    #[test]
    fn many_short_sections_are_drawn_to_their_end_in_little_space() {
        let timeline = long();
        let lanes = Lanes::of(&timeline);
        let drawn = lanes.zoomable("t").into_string();
        assert!(drawn.len() < 50_000, "{} bytes", drawn.len());
        // The lane of the lock has a shade everywhere: 0.4 of each column.
        assert!(drawn.contains(r#"class="shade held c0 s2""#), "{drawn}");
        assert!(lanes.sentence().contains("less than 110 us is drawn together"));
        assert_eq!(lanes.shares(0), Shares { held: 0.4, off: 0.0 });
    }

    #[test]
    fn a_short_time_without_a_pcpu_stays_visible() {
        let mut timeline = long();
        timeline.stints = vec![
            (0, "running".into(), Some(0), 0, 50_000_200),
            (0, "ready".into(), None, 50_000_200, 50_000_400),
            (0, "running".into(), Some(0), 50_000_400, 100_000_000),
        ];
        let drawn = Lanes::of(&timeline).zoomable("t").into_string();
        let stuck = r#"class="shade stuck s4" d="M0 8m453 0h1""#;
        assert_eq!(drawn.matches(stuck).count(), 2, "in the lane of the lock, and of the vCPU");
    }
}
