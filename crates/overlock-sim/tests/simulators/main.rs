//! Both simulators: one question per module.

mod busted;
mod hosts;
mod injection;
mod replay;
mod support;
mod swarm;
