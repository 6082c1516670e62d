// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which vCPU ran on which pCPU, and which one held the lock.
//!
//! The lanes are an SVG within the picture whose units are nanoseconds, so that zooming only
//! changes its `viewBox`. Without a script the whole span is shown.

use crate::figure::{Caption, svg};
use crate::palette::px;
use crate::record::{Stint, Timeline};
use crate::scale::Scale;
use maud::{Markup, html};
use overlock_world::units::{Nanos, three, time};

/// If there are more critical sections than this, the rest of the time is not drawn: pages grow to
/// megabytes, and browsers become slow.
const DRAWN: usize = 5_000;

const LANE: f64 = 18.0;
const BAR: f64 = 12.0;
const GUTTER: f64 = 66.0;
const WIDTH: f64 = 1000.0;
/// Room for half of the last tick's text.
const RIGHT: f64 = 28.0;

/// One interval, in nanoseconds from the start of the timeline.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    from: f64,
    to: f64,
}

/// A lane: its height, its name, and its content.
struct Lane {
    name: String,
    inside: Markup,
}

impl Span {
    fn length(self) -> f64 {
        self.to - self.from
    }

    /// Returns the common part, if there is one.
    fn and(self, other: Span) -> Option<Span> {
        let both = Span { from: self.from.max(other.from), to: self.to.min(other.to) };
        (both.from < both.to).then_some(both)
    }
}

/// Facts about the lock over the whole timeline.
#[derive(Debug, PartialEq)]
pub(crate) struct Shares {
    /// Shares of the span: held, and held by a vCPU without a pCPU.
    held: f64,
    off: f64,
}

impl Timeline {
    /// Returns the timeline up to the point at which the critical sections become too many to draw.
    pub(crate) fn shown(&self) -> Timeline {
        let mut shown = self.clone();
        shown.holds.sort_by_key(|hold| hold.3.unwrap_or(u64::MAX));
        let end = shown.holds.get(DRAWN).and_then(|hold| hold.3);
        if let Some(end) = end.filter(|end| (self.from_ns + 1..self.to_ns).contains(end)) {
            shown.cut = Some(self.to_ns - self.from_ns);
            shown.to_ns = end;
        }
        shown
    }

    fn span(&self, from: u64, to: u64) -> Option<Span> {
        let whole = Span { from: self.from_ns as f64, to: self.to_ns as f64 };
        let span = whole.and(Span { from: from as f64, to: to as f64 })?;
        Some(Span { from: span.from - whole.from, to: span.to - whole.from })
    }

    fn length(&self) -> f64 {
        (self.to_ns - self.from_ns) as f64
    }

    /// Returns when `vcpu` was in one of these states.
    fn stints<'a>(&'a self, vcpu: u32, states: &'a [&str]) -> impl Iterator<Item = Span> + 'a {
        let of = move |(of, state, ..): &&Stint| *of == vcpu && states.contains(&state.as_str());
        self.stints.iter().filter(of).filter_map(|(.., from, to)| self.span(*from, *to))
    }

    /// Returns when the vCPU held which lock.
    fn held(&self, vcpu: u32) -> impl Iterator<Item = (u32, Span)> + '_ {
        let holds = self.holds.iter().filter(move |hold| hold.0 == vcpu);
        holds.filter_map(|(_, lock, _, taken, released)| {
            let span = self.span((*taken)?, released.unwrap_or(self.to_ns))?;
            Some((*lock, span))
        })
    }

    /// Returns when the vCPU waited for a lock.
    fn waited(&self, vcpu: u32) -> impl Iterator<Item = Span> + '_ {
        let holds = self.holds.iter().filter(move |hold| hold.0 == vcpu);
        holds.filter_map(|(_, _, asked, taken, _)| self.span(*asked, taken.unwrap_or(self.to_ns)))
    }

    /// Returns the parts of `span` in which `vcpu` had no pCPU.
    fn off(&self, vcpu: u32, span: Span) -> impl Iterator<Item = Span> + '_ {
        self.stints(vcpu, &["ready", "halted"]).filter_map(move |stint| stint.and(span))
    }

    /// Returns the locks that were taken.
    fn locks(&self) -> Vec<u32> {
        let mut locks = overlock_world::stats::unique(self.holds.iter().map(|hold| hold.1));
        locks.sort_unstable();
        locks.truncate(8);
        locks
    }

    /// Returns for which share of the time lock `lock` was held, and by whom.
    pub(crate) fn shares(&self, lock: u32) -> Shares {
        let (mut held, mut off) = (0.0, 0.0);
        for vcpu in 0..self.cpus {
            for (_, span) in self.held(vcpu).filter(|(of, _)| *of == lock) {
                held += span.length();
                off += self.off(vcpu, span).map(Span::length).sum::<f64>();
            }
        }
        Shares { held: held / self.length(), off: off / self.length() }
    }

    pub(crate) fn caption(&self) -> Caption {
        let policy = match self.policy.as_str() {
            "none" => String::new(),
            policy => format!(", {policy}"),
        };
        let title = format!(
            "{}{policy}: {} vCPUs on {} pCPUs of {}, {} of {}, critical section {}, pause {}",
            self.lock,
            self.cpus,
            self.pcpus,
            self.world,
            time(self.length()),
            self.workload,
            Nanos(self.cs_ns),
            Nanos(self.ncs_ns),
        );
        Caption { title, description: self.sentence() }
    }

    /// Describes the timeline in words.
    pub(crate) fn sentence(&self) -> String {
        let locks = self.locks().into_iter().map(|lock| {
            let Shares { held, off } = self.shares(lock);
            let percent = |share: f64| three(100.0 * share);
            format!(
                "Lock {lock} was held for at most {} % of the time, {} % of the time by a vCPU \
                 without a pCPU.",
                percent(held),
                percent(off)
            )
        });
        let mut sentences: Vec<String> = locks.collect();
        if let Some(all) = self.cut {
            let [shown, all] = [self.length(), all as f64].map(time);
            sentences.push(format!(
                "Only the first {shown} of {all} are shown: they have over {DRAWN} critical \
                 sections."
            ));
        }
        if let Some(speed) = self.speed {
            let speed = three(speed);
            sentences.push(format!(
                "The run had {speed} times the throughput of the runs without a timeline."
            ));
        }
        sentences.join(" ")
    }

    /// Draws the picture on a page.
    pub(crate) fn draw(&self, id: &str) -> Markup {
        let (width, height, inside) = self.picture();
        let picture = svg(&self.caption(), width, height, &inside);
        html! { div class="zoom" id=(id) data-span=(self.length()) tabindex="0" { (picture) } }
    }

    /// Returns the width, height and content of the picture.
    pub(crate) fn picture(&self) -> (f64, f64, Markup) {
        let lanes = self.lanes();
        let height = LANE * lanes.len() as f64;
        let axis = Scale::span(0.0, self.length(), GUTTER, WIDTH - RIGHT);
        let inside = html! {
            @for (at, lane) in lanes.iter().enumerate() {
                @let y = LANE * at as f64;
                text class="name" x=(px(GUTTER - 8.0)) y=(px(y + 12.5)) text-anchor="end" {
                    (lane.name)
                }
                path class="grid" d={
                    "M" (px(GUTTER)) " " (px(y + LANE - 1.5)) "H" (px(WIDTH - RIGHT)) } {}
            }
            svg class="lanes" x=(px(GUTTER)) y="0" width=(px(WIDTH - RIGHT - GUTTER))
                height=(px(height)) preserveAspectRatio="none"
                viewBox={ "0 0 " (self.length()) " " (px(height)) } {
                @for (at, lane) in lanes.iter().enumerate() {
                    g transform={ "translate(0 " (px(LANE * at as f64)) ")" } { (lane.inside) }
                }
            }
            g class="axis" {
                @for tick in axis.ticks(8.0) {
                    @let at = axis.at(tick);
                    path class="tick" d={ "M" (px(at)) " " (px(height)) "v5" } {}
                    text x=(px(at)) y=(px(height + 19.0)) text-anchor="middle" {
                        (crate::overcommit::trimmed_unit(&time(tick)))
                    }
                }
            }
        };
        (WIDTH, height + 28.0, inside)
    }

    fn lanes(&self) -> Vec<Lane> {
        let pcpus = (0..self.pcpus)
            .map(|pcpu| Lane { name: format!("pCPU {pcpu}"), inside: self.pcpu(pcpu) });
        let locks = self.locks();
        let name =
            |lock: u32| if locks.len() == 1 { "lock".into() } else { format!("lock {lock}") };
        let locks = locks.iter().map(|lock| Lane { name: name(*lock), inside: self.lock(*lock) });
        let vcpus = (0..self.cpus)
            .map(|vcpu| Lane { name: format!("vCPU {vcpu}"), inside: self.vcpu(vcpu) });
        pcpus.chain(locks).chain(vcpus).collect()
    }

    /// Draws which vCPU ran on a pCPU.
    fn pcpu(&self, pcpu: u32) -> Markup {
        let of = self.stints.iter().filter(|stint| stint.1 == "running" && stint.2 == Some(pcpu));
        html! {
            @for (vcpu, .., from, to) in of {
                @if let Some(span) = self.span(*from, *to) {
                    path class={ "ran c" (vcpu % 8) } d=(bar(span, 2.0, BAR)) {
                        title { "vCPU " (vcpu) " on pCPU " (pcpu) ": " (time(span.length())) }
                    }
                }
            }
        }
    }

    /// Draws which vCPU held a lock, and draws over it where that vCPU had no pCPU.
    fn lock(&self, lock: u32) -> Markup {
        let of = |vcpu: u32| self.held(vcpu).filter(move |(of, _)| *of == lock);
        html! {
            @for vcpu in 0..self.cpus {
                @let spans: String =
                    of(vcpu).map(|(_, span)| bar(span, 2.0, BAR)).collect();
                @if !spans.is_empty() {
                    path class={ "held c" (vcpu % 8) } d=(spans) {
                        title { "held by vCPU " (vcpu) }
                    }
                }
                @for (_, span) in of(vcpu) { @for off in self.off(vcpu, span) {
                    path class="stuck" d=(bar(off, 2.0, BAR)) {
                        title {
                            "held by vCPU " (vcpu) ", which had no pCPU for " (time(off.length()))
                        }
                    }
                } }
            }
        }
    }

    /// Draws the life of a vCPU.
    fn vcpu(&self, vcpu: u32) -> Markup {
        let holds: String = self.held(vcpu).map(|(_, span)| bar(span, 2.0, BAR)).collect();
        let waits: String = self.waited(vcpu).map(|span| bar(span, 12.0, 2.0)).collect();
        html! {
            @for span in self.stints(vcpu, &["running"]) {
                path class={ "on c" (vcpu % 8) } d=(bar(span, 2.0, BAR)) {
                    title { "vCPU " (vcpu) " ran for " (time(span.length())) }
                }
            }
            @for span in self.stints(vcpu, &["ready"]) {
                path class="ready" d=(bar(span, 6.0, 4.0)) {
                    title { "vCPU " (vcpu) " was ready for " (time(span.length())) }
                }
            }
            path class={ "held c" (vcpu % 8) } d=(holds) {}
            path class="waits" d=(waits) {}
            @for (_, span) in self.held(vcpu) { @for off in self.off(vcpu, span) {
                path class="stuck" d=(bar(off, 2.0, BAR)) {
                    title { "held the lock without a pCPU for " (time(off.length())) }
                }
            } }
        }
    }
}

/// Draws a rectangle as a path.
fn bar(span: Span, top: f64, height: f64) -> String {
    let Span { from, .. } = span;
    let length = span.length();
    format!("M{from} {top}h{length}v{height}h-{length}z")
}

/// Explains the colours.
pub(crate) fn legend() -> Markup {
    let key = |class: &str, text: &str| {
        html! { li {
            svg width="26" height="12" viewBox="0 0 26 12" { path class=(class) d="M1 1h24v10h-24z" {} }
            (text)
        } }
    };
    html! {
        ul class="legend" {
            (key("on c0", "runs (each vCPU has its colour)"))
            (key("held c0", "holds the lock"))
            (key("stuck", "holds it without a pCPU"))
            (key("ready", "ready, without a pCPU"))
            (key("waits", "waits for the lock"))
            li { "an empty lane is a halt" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// vCPU 0 holds the lock from 10 to 60, and has no pCPU from 30 to 50.
    fn timeline() -> Timeline {
        serde_json::from_str(
            r#"{"world":"kvm","workload":"micro","lock":"ticket","policy":"none","cpus":2,
                "pcpus":1,"cs_ns":50,"ncs_ns":0,"from_ns":1000,"to_ns":1100,
                "stints":[[0,"running",0,900,1030],[0,"ready",null,1030,1050],
                          [1,"running",0,1030,1050],[0,"running",0,1050,1200]],
                "holds":[[0,0,1000,1010,1060],[1,0,1005,null,null]]}"#,
        )
        .unwrap()
    }

    #[test]
    fn the_losses_of_a_holder_are_reported() {
        let timeline = timeline();
        assert_eq!(timeline.shares(0), Shares { held: 0.5, off: 0.2 });
        let sentence = timeline.sentence();
        assert!(
            sentence.contains("held for at most 50.0 % of the time, 20.0 % of the time by a vCPU"),
            "{sentence}"
        );
    }

    #[test]
    fn nothing_is_drawn_beyond_the_ends() {
        let picture = timeline().draw("t").into_string();
        // vCPU 0 ran before and after, and vCPU 1 waits until the end.
        for path in ["M0 2h30v12h-30z", "M50 2h50v12h-50z", "M5 12h95v2h-95z"] {
            assert!(picture.contains(path), "{path} is not in {picture}");
        }
    }
}
