//! A vCPU that could be boosted.

use super::decision::Skipped;

/// One vCPU, as a policy sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Candidate {
    /// Why it cannot be boosted; `None` if it can.
    pub unfit: Option<Skipped>,
    /// Whether it left its pCPU through a pause loop and has not run since.
    pub spinning: bool,
    /// Whether it was in user mode when it was last in the guest, as far as is known.
    pub in_user: bool,
}
