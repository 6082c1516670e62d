//! The hypervisor's side: one question per module.

mod any_event;
mod fairness;
mod pm_timer;
mod pm_timer_readers;
mod policies;
mod pv_hint;
mod scheduler;
mod share;
mod support;
