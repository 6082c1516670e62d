//! How urgent threads are to the kernel's scheduler, in `/proc`.

use crate::analysis::hash::HashMap;

/// How many threads are asked for at once.
const MOST: usize = 64;
/// The kernel's number of the policy for threads that run where no other one wants to.
const SCHED_IDLE: i64 = 5;
/// Such a thread comes after those of any nice value, and real-time priority 0 would be this.
const LAST: i64 = 20;
const FIRST: i64 = -21;

/// The rank of each thread: its nice value, or a number beyond all of them.
#[derive(Debug, Default)]
pub(crate) struct Urgency(HashMap<u32, i64>);

impl Urgency {
    /// Asks for threads, each with its process, that are not known yet or have no processor: they
    /// may have been given another rank since.
    pub(crate) fn ask(&mut self, threads: impl Iterator<Item = (u32, u32, bool)>) {
        let wanted = threads.filter(|(thread, _, lacks)| *lacks || !self.0.contains_key(thread));
        for (thread, process, _) in wanted.take(MOST).collect::<Vec<_>>() {
            let stat = std::fs::read_to_string(format!("/proc/{process}/task/{thread}/stat"));
            self.0.extend(stat.ok().and_then(|stat| Some((thread, rank(&stat)?))));
        }
    }

    /// Says how urgent a thread is, if others are more so.
    pub(crate) fn behind(&self, thread: u32) -> Option<String> {
        let (own, most) = (self.0.get(&thread)?, self.0.values().min()?);
        let words = |rank: i64| match rank {
            LAST => "SCHED_IDLE".to_owned(),
            ..FIRST => format!("real-time priority {}", FIRST - rank),
            nice => format!("nice {nice}"),
        };
        (own > most).then(|| format!("{}, while others have {}", words(*own), words(*most)))
    }
}

/// Returns the rank of a thread by its line in `/proc`: after the name, which can contain anything,
/// comes the third field.
fn rank(stat: &str) -> Option<i64> {
    let fields: Vec<&str> = stat.rsplit(") ").next()?.split_whitespace().collect();
    let [priority, policy] = [18, 41].map(|number| fields.get(number - 3)?.parse::<i64>().ok());
    Some(if policy? == SCHED_IDLE { LAST } else { priority? - 20 })
}

#[test]
fn a_thread_is_named_if_others_are_more_urgent() {
    let stat = |priority: &str, policy: &str| {
        let (before, between) = ("0 ".repeat(14), "0 ".repeat(22));
        rank(&format!("7 (a) b) S {before}{priority} {between}{policy} 0")).unwrap()
    };
    let ranks = [stat("39", "0"), stat("20", "0"), stat("-51", "1"), stat("20", "5")];
    let urgency = Urgency((1..).zip(ranks).collect());
    let said = |thread| urgency.behind(thread).unwrap_or_default();
    assert_eq!(said(1), "nice 19, while others have real-time priority 50");
    assert_eq!(said(4), "SCHED_IDLE, while others have real-time priority 50");
    assert_eq!((said(3), said(9)), (String::new(), String::new()));
}
