//! What holders did, where the kernel gives no records of switches: by the accounts of their time.
//!
//! A waiter tells its holder's account when it begins to wait and when it has the lock. So the
//! split of a wait is as good as the account, if one thread held the lock all the while. All other
//! threads' accounts are read now and then. Of a holder whose waiter has not come back yet, that
//! would cut the time in two at a point where the account is older than the time, so it is left
//! for a while, and so is all that was told since.

use super::told::Account;
use crate::sources::coarse::{ASLEEP, Coarse};
use crate::sources::tracer::Tracer;
use std::collections::{HashMap, HashSet};

#[derive(Debug, Default)]
pub(super) struct Accounts {
    coarse: Coarse,
    read: u64,
    /// Of each waiter that has told of its holder at the beginning only: the holder, and when.
    open: HashMap<u32, (u32, u64)>,
}

/// The time between two looks at all threads.
const EVERY_NS: u64 = 10_000_000;
/// For how long a holder's account is left to its waiter.
const LONGEST_NS: u64 = 100_000_000;

impl Accounts {
    /// Takes in what was told and what can be read; returns the time before which all is known.
    pub(super) fn turn(&mut self, tracer: &mut Tracer, now: u64, is_end: bool) -> u64 {
        let mut told = std::mem::take(&mut tracer.told.accounts);
        told.sort_by_key(|account| account.at);
        for Account { at, waiter, holder, time } in told {
            if self.open.remove(&waiter).is_none_or(|(of, _)| of != holder) {
                self.open.insert(waiter, (holder, at));
            }
            let events: Vec<_> = self.coarse.account(holder, at, time, ASLEEP).collect();
            tracer.finds(events);
        }
        let is_young = |since: u64| now.saturating_sub(since) < LONGEST_NS;
        self.open.retain(|waiter, (_, since)| {
            tracer.threads.contains_key(waiter) && is_young(*since) && !is_end
        });
        if is_end || now.saturating_sub(self.read) >= EVERY_NS {
            self.read = now;
            let left: HashSet<u32> = self.open.values().map(|(holder, _)| *holder).collect();
            let found = self.coarse.turn(tracer, &left);
            tracer.finds(found);
        }
        self.open.values().map(|(_, since)| *since).min().unwrap_or(self.read).min(self.read)
    }
}
