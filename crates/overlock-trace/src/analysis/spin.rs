//! Loops in which threads wait on a processor: no system call shows them, samples do.

use super::state::Site;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpinReport {
    pub process: u32,
    pub site: Site,
    pub samples: u64,
    /// How many of them while another thread of the process could run, but had no processor.
    pub while_others_starved: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Spins {
    places: HashMap<(u32, Site), SpinReport>,
    pub(crate) samples: u64,
}

impl Spins {
    pub(crate) fn sample(
        &mut self,
        process: u32,
        site: Site,
        spins: bool,
        starved: bool,
        most: usize,
    ) {
        self.samples += 1;
        if !spins || (self.places.len() >= most && !self.places.contains_key(&(process, site))) {
            return;
        }
        let new = SpinReport { process, site, samples: 0, while_others_starved: 0 };
        let place = self.places.entry((process, site)).or_insert(new);
        place.samples += 1;
        place.while_others_starved += u64::from(starved);
    }

    pub(crate) fn report(&self) -> Vec<SpinReport> {
        let mut all: Vec<SpinReport> = self.places.values().copied().collect();
        all.sort_by_key(|place| (std::cmp::Reverse(place.samples), place.site));
        all
    }
}
