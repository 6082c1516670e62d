//! Converts values to pixels, and places the ticks.

/// An axis: values from `from` to `to` on pixels from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    pub(crate) log: bool,
}

impl Scale {
    /// Makes a linear axis from 0 to a round number at or above `highest`.
    pub(crate) fn linear(highest: f64, start: f64, end: f64) -> Self {
        let highest = if highest.is_finite() && highest > 0.0 { highest } else { 1.0 };
        let step = step(highest, 5.0);
        Scale { from: 0.0, to: (highest / step - 1e-9).ceil() * step, start, end, log: false }
    }

    /// Makes an axis of equal steps for equal ratios, over all `values` above 0.
    pub(crate) fn log(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| value.is_finite() && *value > 0.0) {
            (low, high) = (low.min(value), high.max(value));
        }
        if high == 0.0 {
            (low, high) = (1.0, 10.0);
        }
        let (from, to) = (10_f64.powf(low.log10().floor()), 10_f64.powf(high.log10().ceil()));
        let to = if from == to { from * 10.0 } else { to };
        Scale { from, to, start, end, log: true }
    }

    pub(crate) fn span(from: f64, to: f64, start: f64, end: f64) -> Self {
        Scale { from, to: if to > from { to } else { from + 1.0 }, start, end, log: false }
    }

    /// Places the same values on other pixels.
    pub(crate) fn on(self, start: f64, end: f64) -> Self {
        Scale { start, end, ..self }
    }

    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = if self.log {
            (value.max(self.from) / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        self.start + share.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Returns the values that deserve a line across the chart.
    pub(crate) fn ticks(&self, about: f64) -> Vec<f64> {
        if self.log {
            let decades = (self.to / self.from).log10().round().max(1.0);
            let every = (decades / about).ceil().max(1.0);
            let ticks = (0..=(decades / every) as i32)
                .map(|at| self.from * 10_f64.powf(f64::from(at) * every));
            return ticks.collect();
        }
        let step = step(self.to - self.from, about);
        let first = (self.from / step - 1e-9).ceil();
        let count = ((self.to - first * step) / step + 1e-9).floor() as i32;
        (0..=count.max(0)).map(|at| (first + f64::from(at)) * step).collect()
    }
}

/// Returns 1, 2 or 5 times a power of ten, about `steps` of which make `span`.
fn step(span: f64, steps: f64) -> f64 {
    let rough = span / steps;
    let power = 10_f64.powf(rough.log10().floor());
    let round = [1.0, 2.0, 5.0].into_iter().find(|round| round * power >= rough * 0.999);
    round.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let scale = Scale::linear(173.0, 0.0, 100.0);
        assert_eq!(scale.ticks(5.0), [0.0, 50.0, 100.0, 150.0, 200.0]);
        assert_eq!((scale.at(0.0), scale.at(200.0), scale.at(900.0)), (0.0, 100.0, 100.0));
        let waits = Scale::log([0.0, 130.0, 41_000.0].into_iter(), 100.0, 0.0);
        assert_eq!(waits.ticks(5.0), [1e2, 1e3, 1e4, 1e5]);
        assert_eq!((waits.at(1e2), waits.at(1e5), waits.at(0.0)), (100.0, 0.0, 100.0));
        assert_eq!(Scale::span(12.0, 31.0, 0.0, 1.0).ticks(4.0), [15.0, 20.0, 25.0, 30.0]);
    }

    #[test]
    fn nothing_to_show_is_no_reason_to_fail() {
        for scale in [
            Scale::linear(0.0, 0.0, 1.0),
            Scale::linear(f64::NAN, 0.0, 1.0),
            Scale::log(std::iter::empty(), 0.0, 1.0),
            Scale::log([5.0, 5.0].into_iter(), 0.0, 1.0),
            Scale::span(3.0, 3.0, 0.0, 1.0),
        ] {
            assert!(scale.at(2.0).is_finite(), "{scale:?}");
            assert!(scale.ticks(5.0).iter().all(|tick| tick.is_finite()), "{scale:?}");
        }
    }
}
