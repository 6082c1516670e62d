//! The best that a lock of strict order could do: vCPUs pass a token round, without any lock.
//!
//! ```text
//!   vCPU 0          vCPU 1          vCPU 2
//!   section         halted          halted
//!   token, kick ──► wakes           halted
//!   halts           section         halted
//!                   token, kick ──► wakes ...
//! ```
//!
//! A lock that goes to the queue head, where all waiters sleep, pays at least this for each
//! hand-over: one kick, one wake-up of the kicked vCPU, and one halt of the kicker, which runs
//! beside the wake-up. So this rate is the limit of such locks wherever vCPUs outnumber pCPUs. It
//! is no limit where the waiters keep their pCPUs and spin. With two or three vCPUs the token is
//! often back before its last owner has halted, which saves a halt and a wake-up.
//!
//! # Invariants
//! - T1: exactly one vCPU has the token, or the token is on its way to the vCPU on whose desk it
//!   lies.
//! - T2: a vCPU that stops passes the token on, so every halted vCPU is eventually kicked.

use std::sync::atomic::Ordering::*;

use overlock::atomic::{Atomic, ConstAtomic};

use super::Profile;
use super::tally::{Moment, Tally, add};
use crate::{Program, ThisVcpu, Verbs};

/// Where a vCPU finds the token: the cell is 1 while the token is there.
#[derive(Debug)]
#[repr(align(128))]
struct Desk<C>(C);

/// A ring of vCPUs with one token.
#[derive(Debug)]
pub(crate) struct Ring<'a, W: Verbs> {
    profile: &'a Profile,
    pub(crate) tallies: Vec<Tally>,
    desks: Vec<Desk<W::Word>>,
}

impl<'a, W: Verbs> Ring<'a, W> {
    pub(crate) fn new(profile: &'a Profile, vcpus: u32) -> Self {
        Self {
            profile,
            tallies: (0..vcpus).map(|_| Tally::default()).collect(),
            desks: (0..vcpus).map(|_| Desk(W::Word::ZERO)).collect(),
        }
    }
}

impl<W: Verbs> Program<W> for Ring<'_, W> {
    fn run(&self, vcpu: ThisVcpu<W>) {
        let own = vcpu.number();
        let next = (own + 1) % vcpu.count();
        let (desk, tally) = (&self.desks[own as usize].0, &self.tallies[own as usize]);
        if own == 0 {
            desk.store(1, Relaxed);
        }
        let mut stopping = false;
        while !stopping {
            let start = tally.begin::<W>();
            // ORDERING: Acquire → the Release below; this sees what the vCPU before has done.
            while desk.load(Acquire) == 0 {
                vcpu.halt_unless(desk, 0, None);
            }
            let end = Moment::now::<W>();
            desk.store(0, Relaxed);
            stopping = vcpu.stopping();
            vcpu.work_ns(self.profile.section_ns);
            add(&tally.operations, 1);
            // ORDERING: Release → the Acquire above.
            self.desks[next as usize].0.store(1, Release);
            vcpu.kick(next);
            tally.end(start, end);
        }
    }
}
