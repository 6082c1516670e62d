//! How the work is shared: Jain's index, and the work of the vCPU that did the least, of the
//! average one, and of the one that did the most.

use crate::page::figure::{Caption, Chart, columns};
use crate::page::group::Cell;
use crate::page::label::{self, trimmed};
use crate::page::palette::{Look, Palette, px};
use crate::page::scale::Scale;
use crate::stats::Spread;
use crate::units::count;
use maud::{Markup, html};

#[derive(Debug)]
pub(crate) struct Fairness<'a> {
    series: Vec<Bars<'a>>,
    place: String,
    /// What does the work: `vCPU` or `thread`.
    sharer: &'static str,
}

#[derive(Debug)]
struct Bars<'a> {
    name: &'a str,
    look: Look,
    jain: f64,
    /// Operations of the vCPU that did the least, and of the one that did the most, over the
    /// average.
    least: f64,
    most: f64,
}

const ROW: f64 = 34.0;

impl<'a> Fairness<'a> {
    /// Makes the chart; nothing for a lone vCPU, or where the records have no shares.
    pub(crate) fn of(
        cells: impl Iterator<Item = &'a Cell<'a>>,
        palette: &Palette,
        place: String,
    ) -> Option<Self> {
        let bars = |cell: &'a Cell<'a>| {
            let average = |spread: &Spread| spread.avg.max(f64::MIN_POSITIVE);
            let over = |of: fn(&Spread) -> f64| {
                let share = |spread: &Spread| of(spread) / average(spread);
                cell.median(|point| point.ops_per_cpu.as_ref().map(share))
            };
            Some(Bars {
                name: &cell.series,
                look: palette.look(&cell.series),
                jain: cell.median(|point| point.jain)?,
                least: over(|spread| spread.min as f64)?,
                most: over(|spread| spread.max as f64)?,
            })
        };
        let cells: Vec<&'a Cell<'a>> = cells.filter(|cell| cell.cpus != Some(1)).collect();
        let sharer = cells.first()?.points.first()?.1.takers().names().0;
        let series: Vec<Bars<'a>> = cells.into_iter().filter_map(bars).collect();
        (!series.is_empty()).then_some(Fairness { series, place, sharer })
    }
}

impl Chart for Fairness<'_> {
    fn caption(&self) -> Caption {
        let bars = |bars: &Bars<'_>| {
            format!(
                "{}: Jain {:.3}, least {:.2} and most {:.2} of the average",
                bars.name, bars.jain, bars.least, bars.most
            )
        };
        let all: Vec<String> = self.series.iter().map(bars).collect();
        Caption {
            title: format!("Fairness, {}", self.place),
            description: format!("Shares of the {}s. {}.", self.sharer, all.join("; ")),
        }
    }

    fn draw(&self, width: f64) -> (f64, Markup) {
        let top = 20.0;
        let bottom = top + ROW * self.series.len() as f64;
        let jain = Scale::span(0.0, 1.0, 12.0, 0.3 * width);
        let most = self.series.iter().map(|bars| bars.most).fold(1.0, f64::max);
        let shares = Scale::linear(most, 0.44 * width, width - 16.0);
        let average = shares.at(1.0);
        let drawn = html! {
            text class="unit" x=(px(jain.at(0.0))) y="12" { "Jain’s index" }
            text class="unit" x=(px(shares.at(0.0))) y="12" { "least to most of average" }
            (columns(&shares, 4.0, [top, bottom], |tick| trimmed(&count(tick))))
            (columns(&jain, 2.0, [top, bottom], |tick| tick.to_string()))
            path class="reference" d={ "M" (px(average)) " " (px(top)) "V" (px(bottom)) } {}
            @for (at, bars) in self.series.iter().enumerate() {
                @let y = top + ROW * at as f64;
                g class={ "series " (bars.look.class()) } {
                    title {
                        (bars.name) ": Jain " (format!("{:.3}", bars.jain)) ", least "
                        (format!("{:.2}", bars.least)) ", most " (format!("{:.2}", bars.most))
                        " of the average"
                    }
                    text class="name" x=(px(jain.at(0.0))) y=(px(y + 13.0)) {
                        (label::cut(bars.name, width - 24.0))
                    }
                    text class="value" x=(px(jain.at(1.0) + 5.0)) y=(px(y + 25.5)) { (format!("{:.2}", bars.jain)) }
                    rect class="track" x=(px(jain.at(0.0))) y=(px(y + 18.0))
                        width=(px(jain.at(1.0) - jain.at(0.0))) height="7" rx="2" {}
                    rect class="bar" x=(px(jain.at(0.0))) y=(px(y + 18.0))
                        width=(px(jain.at(bars.jain) - jain.at(0.0))) height="7" rx="2" {}
                    rect class="bar" x=(px(shares.at(bars.least))) y=(px(y + 18.0))
                        width=(px((shares.at(bars.most) - shares.at(bars.least)).max(2.0)))
                        height="7" rx="2" {}
                    path class="average" d={ "M" (px(average)) " " (px(y + 15.0)) "v13" } {}
                }
            }
        };
        (bottom + 22.0, drawn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::group::Section;
    use crate::page::label::oracle::faults;
    use crate::page::sample::{crowd, only, point, read};

    fn chart<'a>(section: &'a Section<'a>, cpus: u32) -> Option<Fairness<'a>> {
        let (setup, palette) = (&section.setups[0], Palette::of(std::slice::from_ref(section)));
        Fairness::of(setup.at(cpus), &palette, setup.place(cpus))
    }

    #[test]
    fn bars_go_from_the_least_to_the_most() {
        let results = read(&[point("hybrid", 2, 1.0)]);
        let section = only(&results);
        let chart = chart(&section, 2).unwrap();
        let told = chart.caption().description;
        assert!(told.contains("hybrid: Jain 0.500, least 0.50 and most 1.50"), "{told}");
        let drawn = chart.draw(340.0).1.into_string();
        // 0 to 1.5 are 149.6 to 324.
        assert!(drawn.contains(r#"x="207.7" y="38" width="116.3""#), "{drawn}");
    }

    #[test]
    fn one_vcpu_is_fair() {
        assert!(chart(&only(&read(&[point("hybrid", 1, 1.0)])), 1).is_none());
    }

    #[test]
    fn labels_can_be_read() {
        let results = crowd();
        let section = only(&results);
        for width in [720.0, 340.0] {
            let (height, inside) = chart(&section, 7).unwrap().draw(width);
            assert_eq!(faults(&inside.into_string(), width, height), [""; 0]);
        }
    }
}
