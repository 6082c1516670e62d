//! The laboratory: one question per module.

mod example;
mod failures;
mod interrupts;
mod scheduling;
mod support;
mod workloads;

/// Does something for a time, and again for 4, 16 and 64 times as long if too little has happened:
/// how much happens in a time depends on what else the machine does.
pub(crate) fn until<T>(mut run: impl FnMut(u32) -> T, enough: impl Fn(&T) -> bool) -> T {
    [1, 4, 16].into_iter().map(&mut run).find(&enough).unwrap_or_else(|| run(64))
}
