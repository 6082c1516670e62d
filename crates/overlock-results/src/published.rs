//! Figures that others have found.

use serde::{Deserialize, Serialize};

use crate::{NO_POLICY, PmTimerRule};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    Yes,
    No,
    /// There is no published figure.
    Open,
    /// Noise hides the answer, or there were too few rounds for one.
    Unclear,
}

/// What a figure can tell about a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    #[default]
    Predicted,
    /// A number of the model was chosen by this figure.
    Fitted,
    /// The figure follows from others in the table.
    Repeated,
}

impl Basis {
    fn is_predicted(&self) -> bool {
        *self == Self::Predicted
    }
}

/// A published figure, or one that is to be compared with a published one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedFigure {
    /// The lock, by our name.
    pub lock: String,
    /// The yield policy, by our name.
    #[serde(default = "none")]
    pub policy: String,
    /// The rule for the PM timer; by default the first of the factors'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timer: Option<PmTimerRule>,
    pub cpus: u32,
    /// Nanoseconds between critical sections or reads; by default the first value in the factors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think_ns: Option<u64>,
    /// What was measured, by the name of our figure: `ops_per_s`, `of_1x`, ...
    pub figure: String,
    /// The published result; absent if none has been published.
    #[serde(default)]
    pub value: Option<f64>,
    /// Its unit, if that is not the unit of our figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
    /// Whether less is better, as with seconds, where more is better in our figure.
    #[serde(default)]
    pub less_is_better: bool,
    /// By how many percent the published figure varied.
    #[serde(default)]
    pub noise_percent: f64,
    /// The point by which to divide the figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<Over>,
    /// The lock of ours that stands beside the published one: it takes its place, over the same
    /// base.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub our_lock: Option<String>,
    #[serde(default, skip_serializing_if = "Basis::is_predicted")]
    pub basis: Basis,
    /// Whether our lock was at least as good as the published one when this was last examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub our_pin: Option<Agreement>,
    /// Whether direction and size agreed when this was last examined, in that order: a change fails
    /// `--check`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pinned: Option<[Agreement; 2]>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    pub source: String,
}

/// The point by which a figure is divided: the figure's own point, except for the fields given
/// here.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Over {
    #[serde(default)]
    pub lock: Option<String>,
    #[serde(default)]
    pub policy: Option<String>,
    #[serde(default)]
    pub timer: Option<PmTimerRule>,
    #[serde(default)]
    pub cpus: Option<u32>,
    /// The published result at that point.
    #[serde(default)]
    pub value: Option<f64>,
}

impl PublishedFigure {
    /// The published figure divided by its base: above 1 is better.
    pub fn ratio(&self) -> Option<f64> {
        let value = self.value?;
        let Some(over) = &self.over else { return Some(value) };
        let base = over.value?;
        Some(if self.less_is_better { base / value } else { value / base })
    }
}

fn none() -> String {
    NO_POLICY.into()
}
