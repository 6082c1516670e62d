#![doc = include_str!("../README.md")]

mod accounts;
pub mod columns;
mod error;
mod factors;
pub mod judge;
pub mod locks;
mod named;
pub mod page;
mod published;
mod rng;
pub mod row;
mod run;
pub mod stats;
mod takers;
mod task;
pub mod timeline;
pub mod units;

pub use accounts::Accounts;
pub use error::Error;
pub use factors::{Lengths, NO_POLICY, PmTimerRule};
pub use published::{Agreement, Basis, Over, PublishedFigure};
pub use rng::{Rng, seed_of};
pub use run::{Losses, Name, Run, Sched, Spent, WaitNs};
pub use takers::Takers;
pub use task::Task;
pub use timeline::Timeline;
