//! What a column is.

use crate::row::Point;
use crate::units::{count, three, time};

/// Names of columns, in the order in which they are shown, with commas between them.
pub type View = str;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Three figures with k, M or G.
    Count,
    /// The same, but in full where it is whole and below 10,000.
    Number,
    Ratio,
    /// A duration; the number is in nanoseconds.
    Time,
    /// A duration; the number is in seconds.
    Seconds,
    /// Percent; the number is a share of 1.
    Share,
    /// The same, without digits after the point.
    Percent,
    /// Percent with its sign; the number is a share of 1.
    Change,
    /// Two digits after the point.
    Hundredths,
    /// No digits after the point.
    Whole,
    /// Three figures and an x.
    Times,
}

impl Unit {
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Number if value.fract() == 0.0 && value.abs() < 1e4 => format!("{value}"),
            Self::Count | Self::Number => count(value),
            Self::Ratio => three(value),
            Self::Time => time(value),
            Self::Seconds => time(1e9 * value),
            Self::Share => format!("{} %", three(100.0 * value)),
            Self::Percent => format!("{:.0} %", 100.0 * value),
            Self::Change => format!("{:+.1} %", 100.0 * value),
            Self::Hundredths => format!("{value:.2}"),
            Self::Whole => format!("{value:.0}"),
            Self::Times => format!("{}x", three(value)),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Column {
    pub name: &'static str,
    pub about: &'static str,
    pub unit: Unit,
    pub get: fn(&Point) -> Option<f64>,
}

impl Column {
    /// The heading: the ends of an interval stand beside their median.
    pub fn heading(&self) -> &'static str {
        match self.name.rsplit_once(' ') {
            Some((_, end @ ("low" | "high"))) => end,
            _ => self.name,
        }
    }

    pub fn ends(&self) -> Option<[&'static Self; 2]> {
        let [low, high] = match self.name {
            "ops/s" => ["ops low", "ops high"].map(str::to_owned),
            "average" => ["least", "most"].map(str::to_owned),
            name => ["low", "high"].map(|end| format!("{name} {end}")),
        };
        Some([Self::named(&low)?, Self::named(&high)?])
    }

    pub fn show(&self, point: &Point) -> Option<String> {
        (self.get)(point).filter(|value| value.is_finite()).map(|value| self.unit.show(value))
    }
}
