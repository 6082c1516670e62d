// SPDX-License-Identifier: MIT OR Apache-2.0
//! The threads engine: a vCPU is an OS thread, parked and resumed with a signal.
//!
//! A program runs as it does on KVM, except that the guest is an ordinary function and a hypercall
//! an ordinary call. One flag, `in_guest`, replaces KVM's exits:
//!
//! ```text
//!             in_guest                        not in_guest
//!   program code ── Calls::call ──────────► Host::exit ... waits at its gate ...
//!        │  ▲                                   │
//!        │  └───────────── Next::Enter ─────────┤
//!        └── signal ──► handler: Host::exit ────┤
//!                                               └─ Next::Leave ──► out of the program at once
//! ```
//!
//! A signal that finds its thread out of the guest does nothing: the thread checks
//! [`Host::evicted`] before it goes back in.
//!
//! # Why the handler may do this
//! It calls [`Host::exit`], which locks and sleeps. That would be unsound if it interrupted code
//! that holds the same lock. It does not: it acts only if `in_guest` is set, and then the thread is
//! in the program, which by its contract makes no library calls at all. `Host::exit` does not
//! allocate either (H4 there).

mod calls;
mod context;
mod fault;
mod thread;

use std::ptr;

use overlock_bench::{Config, Engine, Outcome, Program};

pub use self::calls::Calls;
use self::context::Context;
use self::thread::Thread;
use crate::lab::config::check;
use crate::lab::engine::{alone, conduct};
use crate::lab::guest::abi::Hooks;
use crate::lab::{Error, Yields, signal};

/// The engine on OS threads, for machines without `/dev/kvm`.
#[derive(Clone, Copy, Debug, Default)]
pub struct ThreadsEngine;

impl Engine for ThreadsEngine {
    type Verbs = Calls;
    type Error = Error;
    type Yields = Yields;

    const NAME: &'static str = "parked";

    fn availability() -> Result<(), Error> {
        Ok(())
    }

    fn run<P: Program<Calls>>(
        &self,
        config: &Config,
        program: &P,
    ) -> Result<Outcome<Yields>, Error> {
        let hooks = Hooks::of::<Calls, P>();
        run(config, (ptr::from_ref(program).cast(), hooks), thread::body::<P>)
    }
}

/// Runs a program whose threads do `body`.
fn run(
    config: &Config,
    program: (*const (), Hooks),
    body: extern "C" fn(&Context),
) -> Result<Outcome<Yields>, Error> {
    check(config)?;
    let _alone = alone();
    calls::install_handler()?;
    fault::install_handlers()?;
    conduct(config, program, signal::threads(), |records, _| {
        Ok(records.iter().map(|_| Thread { body }).collect())
    })
}
