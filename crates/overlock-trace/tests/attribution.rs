//! Are waits split by what the holder did? Each trace is written by hand, in microseconds, one
//! event a line, and what must come out stands beside it.

use overlock_trace::analysis::{
    Analysis, Holder, Limits, Link, Look, Reason, Report, SHARED, Site, Snapshot, State,
    TraceEvent, WaitStats, Wakes, What,
};

/// Reads a trace. Threads are letters; `A+` is born, `A>` gets a processor, `A|` loses it, `A/` is
/// throttled, `A-5` sleeps for reason 5, `A-5s` at site s, `A_5s20` has done so since 20, as is
/// known only now, `A"B` is seen to sleep for what B has, `A!B` is woken by B, `A!Bs` at site s of
/// B, `A?x` waits for lock x at the site of that letter, `A?xs` at site s, `A:x` waits for x that
/// is known to be a lock, `A.` ends its wait, `A@` with what it waited for, `A&x` takes x past
/// those that wait, `A^x` wakes its waiters, `A%x` does so as a reader, `A,` has done so, `A=x`
/// owns x, `A#x` is seen to have been taken and `A$x` to be free, `A*` spins when it is sampled,
/// `A~` ends.
fn events(trace: &str) -> Vec<TraceEvent> {
    let mut events = Vec::new();
    for line in trace.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (at, words) = line.split_once(' ').unwrap();
        let at_ns = at.parse::<u64>().unwrap() * 1000;
        for word in words.split_whitespace() {
            let number = |at: usize| u32::from(word.as_bytes()[at]);
            let site = |at: usize| Site(word.as_bytes().get(at).map_or(0, |one| (*one).into()));
            let lock = || u64::from(word.as_bytes()[2]);
            let what = match word.as_bytes()[1] {
                b'+' => What::Born { process: 1, runs: true },
                b'>' => What::In,
                b'|' => What::Out(State::Preempted),
                b'/' => What::Out(State::Throttled),
                b'-' => What::Out(State::Asleep(Reason(number(2) - u32::from(b'0')), site(3))),
                b'_' => {
                    let since = word[4..].parse::<u64>().ok().map(|since| since * 1000);
                    let reason = Reason(number(2) - u32::from(b'0'));
                    What::Slept { since, reason, site: site(3), by: 0 }
                }
                b'"' => What::SleepsFor(number(2)),
                b'!' => What::Woken { by: number(2), site: site(3) },
                b'?' => {
                    What::Wait { lock: lock(), site: Site(number(word.len() - 1)), is_lock: false }
                }
                b':' => What::Wait { lock: lock(), site: Site(number(2)), is_lock: true },
                b'.' => What::WaitEnd,
                b'@' => What::Got,
                b'&' => What::Takes { lock: lock() },
                b'^' => What::Wake { lock: lock(), how: Wakes::default() },
                b'%' => {
                    What::Wake { lock: lock(), how: Wakes { by_reader: true, ..Wakes::default() } }
                }
                b',' => What::WakeEnd,
                b'=' => What::Owns { lock: lock(), is_all: true },
                b'#' => What::Seen { lock: lock(), is_free: false },
                b'$' => What::Seen { lock: lock(), is_free: true },
                b'*' => What::Sample { site: Site(9), spins: true },
                b'~' => What::Exit,
                other => panic!("{other}"),
            };
            events.push(TraceEvent { at_ns, thread: number(0), what });
        }
    }
    events
}

fn report(events: &[TraceEvent]) -> Report {
    let mut analysis = Analysis::new(Limits::default());
    events.iter().for_each(|event| analysis.event(*event));
    analysis.report(0)
}

fn asleep(reason: u32) -> State {
    State::Asleep(Reason(reason), Site(0))
}

/// Returns the rows of waits on words.
fn waits(report: &Report) -> Vec<WaitStats> {
    report.rows.iter().filter(|row| row.key.reason.is_none()).cloned().collect()
}

/// Returns the sum of all waits and sleeps at the site of a letter.
fn at(report: &Report, site: char) -> WaitStats {
    let is_there = |row: &&WaitStats| row.key.site == Site(u32::from(site));
    let mut sum = WaitStats::default();
    report.rows.iter().filter(is_there).for_each(|row| sum.merge(row));
    sum
}

/// Returns the split of all waits at the site of a letter, in microseconds: running, preempted,
/// throttled, asleep, late, unknown.
fn split(report: &Report, site: char) -> [u64; 6] {
    State::HOLDERS.map(|state| at(report, site).holder.of(state) / 1000)
}

/// Returns the time of a row, in microseconds, in which threads did these things, each while the
/// one before it waited for it.
fn chain(row: &WaitStats, links: &str) -> f64 {
    let links: Vec<(u32, State)> = events(&format!("0 {links}"))
        .into_iter()
        .map(|TraceEvent { thread, what, .. }| match what {
            What::Out(state) => (thread, state),
            What::Wait { site, .. } => (thread, State::Waiting(0, site)),
            _ => (thread, State::Running),
        })
        .collect();
    let is_it = |chain: &[Link]| chain.iter().map(|one| (one.thread, one.state)).eq(links.clone());
    row.chains.iter().filter(|(chain, _)| is_it(chain)).map(|(_, ns)| *ns as f64 / 1000.0).sum()
}

/// Asks for what a line of `attribution.txt` demands.
fn demand(found: &Report, demand: &str, told: &str) {
    let row = at(found, demand.chars().next().unwrap());
    let (what, right) = demand.split_once(':').unwrap_or((demand, ""));
    let numbers = right.split_whitespace().map(|number| number.parse::<f64>().unwrap());
    let (us, count) = (|ns: u64| ns as f64 / 1000.0, |count: u64| count as f64);
    match &what[1..] {
        "" => {
            let split = State::HOLDERS.map(|state| us(row.holder.of(state)));
            assert_eq!(split.to_vec(), numbers.collect::<Vec<_>>(), "{told}");
        }
        links if !right.is_empty() => {
            assert_eq!(vec![chain(&row, links)], numbers.collect::<Vec<_>>(), "{told}");
        }
        fields => {
            let words: Vec<&str> = fields.split_whitespace().collect();
            for pair in words.chunks(2) {
                let seen = match pair[0] {
                    "waits" => count(row.waits),
                    "waited" => us(row.waited_ns),
                    "longest" => us(row.longest_ns),
                    "passed" => us(row.passed_ns),
                    "relays" => count(row.relays),
                    "handed" => count(row.handed_on),
                    "holds" => count(row.hold_ns.count()),
                    "lost" => count(row.lost),
                    "over" => count(row.timed_out),
                    "overus" => us(row.timed_out_ns),
                    other => panic!("{other}"),
                };
                assert_eq!(seen.to_string(), pair[1], "{} of {told}", pair[0]);
            }
        }
    }
}

#[test]
fn each_trace_comes_out_as_it_stands_beside_it() {
    let (mut trace, mut changed, mut name) = (String::new(), None, "");
    for line in include_str!("attribution.txt").lines().filter(|line| !line.is_empty()) {
        match line.split_once(' ').unwrap() {
            ("==", title) => (trace, changed, name) = (String::new(), None, title),
            ("#", _) => {}
            ("~", words) => {
                let words: Vec<&str> = words.split(' ').collect();
                let change = |old: String, pair: &[&str]| old.replace(pair[0], pair[1]);
                changed = Some(words.chunks(2).fold(trace.clone(), change));
            }
            ("=", wanted) => {
                let trace = changed.as_ref().unwrap_or(&trace);
                demand(&report(&events(trace)), wanted, &format!("{name}: {wanted}"));
            }
            _ => trace += &format!("{line}\n"),
        }
    }
}

/// A holds x and runs, loses its processor, runs; B waits, is woken and comes late.
const PREEMPTED: &str = "
    0 A+ B+
    10 B?x B-0
    30 A|
    70 A>
    80 A^x B!A A,
    95 B> B.
    99 B^x B, A~ B~";

/// A wrong attribution is noticed: with two threads swapped, another split comes out.
#[test]
fn swapped_threads_are_noticed() {
    let trace = format!("0 C+\n{PREEMPTED}").replace("30 A|", "20 C|\n30 A|");
    let right = split(&report(&events(&trace)), 'x');
    assert_eq!(right, [30, 40, 0, 0, 15, 0]);
    let mut swapped = events(&trace);
    for event in &mut swapped {
        // Only where they run: A is still the thread that releases the lock.
        if matches!(event.what, What::In | What::Out(_)) {
            event.thread = match u8::try_from(event.thread) {
                Ok(b'A') => u32::from(b'C'),
                Ok(b'C') => u32::from(b'A'),
                _ => event.thread,
            };
        }
    }
    assert_ne!(split(&report(&swapped), 'x'), right);
}

/// The same in two processes: only a word that they share has a holder in the other one.
#[test]
fn a_word_that_processes_share_is_one() {
    let of_two = |mark: u64| {
        let mut all = events(PREEMPTED);
        for TraceEvent { thread, what, .. } in &mut all {
            match what {
                What::Born { process, .. } if *thread == u32::from(b'B') => *process = 2,
                What::Wait { lock, .. } | What::Wake { lock, .. } => *lock |= mark,
                _ => {}
            }
        }
        report(&all)
    };
    let one = report(&events(PREEMPTED));
    let shared = of_two(SHARED);
    assert_eq!(split(&shared, 'x'), split(&one, 'x'));
    assert_eq!(
        waits(&shared)[0].key.lock,
        waits(&one)[0].key.lock,
        "reports have the address itself"
    );
    assert_eq!(split(&of_two(0), 'x')[..4], [0; 4], "nothing is known of a holder");
}

#[test]
fn lost_events_are_unknown_and_nothing_else() {
    let all = events(PREEMPTED);
    let mut analysis = Analysis::new(Limits::default());
    for event in &all {
        analysis.event(*event);
        if event.what == What::Out(State::Preempted) {
            analysis.lost(50_000);
        }
    }
    let found = analysis.report(0);
    // Until 50 all is unknown, and so is A's state until its next event at 70.
    assert_eq!(split(&found, 'x'), [10, 0, 0, 0, 15, 40 + 20]);
    assert_eq!(found.losses, 1);
    assert_eq!(found.time.total(), 2 * 99_000);
}

/// A futex call that returns at once, because the word has changed, is no wait.
#[test]
fn a_call_that_does_not_sleep_is_no_wait() {
    let found = report(&events("0 A+ B+\n10 B?x\n11 B.\n20 A^x A,"));
    assert!(found.rows.is_empty());
}

#[test]
fn too_many_locks_of_a_place_are_counted_together() {
    let mut analysis = Analysis::new(Limits { sites: 3, ..Limits::default() });
    let round = |(lock, at): (char, u32)| {
        format!("{at} A?{lock}s A-0\n{0} B^{lock} A!B B,\n{1} A> A.\n", at + 10, at + 15)
    };
    let rounds: String = ('a'..='j').zip((100..).step_by(100)).map(round).collect();
    events(&format!("0 A+ B+\n{rounds}")).iter().for_each(|event| analysis.event(*event));
    let found = analysis.report(0);
    assert_eq!(found.rows.len(), 4);
    assert_eq!(found.rows[0].key.lock, 0);
    assert_eq!(found.rows.iter().map(|site| site.waits).sum::<u64>(), 10);
    assert_eq!(found.rows.iter().map(|site| site.waited_ns).sum::<u64>(), 150_000);
}

/// Several of them may have the same words, which only those who name them know.
#[test]
fn a_holder_may_sleep_for_many_reasons() {
    let mut all = events("0 A+ B+ A>\n10 B?x B-0");
    for (reason, at_ns) in (0..500).zip((20_000..).step_by(10_000)) {
        let event = |at_ns, what| TraceEvent { at_ns, thread: u32::from(b'A'), what };
        all.push(event(at_ns, What::Out(asleep(reason))));
        all.push(event(at_ns + 5_000, What::In));
    }
    all.extend(events("9000 A^x A, B>\n9010 B."));
    let found = report(&all);
    let row = &waits(&found)[0];
    assert_eq!((row.chains.len(), chain(row, "A-0")), (501, 5.0));
}

#[test]
fn samples_say_whether_others_lacked_a_processor() {
    let found = report(&events("0 A+ B+\n10 A*\n20 B|\n30 A*\n40 A*\n50 B>\n60 A*"));
    assert_eq!((found.spins[0].samples, found.spins[0].while_others_starved), (4, 2));
}

/// A source that only looks: each look stands for 10 us, and chains are followed in it.
#[test]
fn looks_are_split_like_events() {
    let wait = |site: char, holder| Look {
        state: State::Waiting(u64::from(u32::from(site)), Site(u32::from(site))),
        holder,
        is_old: false,
    };
    let mut analysis = Analysis::new(Limits::default());
    let look = |doing| Snapshot::from([(2, wait('x', Holder::Thread(1))), (1, doing)]);
    for doing in [
        State::Running.into(),
        State::Preempted.into(),
        State::Throttled.into(),
        asleep(4).into(),
        wait('y', Holder::Nobody),
        wait('y', Holder::Thread(2)),
    ] {
        analysis.snapshot(7, &look(doing), (0, 10_000), true);
    }
    for holder in [Holder::Nobody, Holder::Unknown, Holder::Thread(99)] {
        analysis.snapshot(7, &Snapshot::from([(2, wait('x', holder))]), (0, 10_000), true);
    }
    let found = analysis.report(0);
    // A holder that waits for a free lock lacks nothing but a processor.
    assert_eq!(split(&found, 'x'), [10, 20, 10, 20, 10, 20]);
    let x = at(&found, 'x');
    assert_eq!((x.waits, x.waited_ns, x.holder.total()), (9, 90_000, 90_000));
    let is_circle =
        |chain: &[Link]| matches!(chain.last(), Some(Link { state: State::Waiting(..), .. }));
    let circles = x.chains.iter().filter(|(chain, _)| is_circle(chain)).map(|(_, ns)| ns);
    assert_eq!(circles.sum::<u64>(), 10_000);
}

/// Between two looks, the switches of the holder say what it did.
#[test]
fn a_look_is_split_by_what_the_holder_did_since_the_last() {
    let mut analysis = Analysis::new(Limits::default());
    let trace = "0 A+ B+\n20 B-0\n30 A|\n70 A>\n90 A-5";
    events(trace).iter().for_each(|event| analysis.event(*event));
    let (a, b) = (u32::from(b'A'), u32::from(b'B'));
    let state = State::Waiting(1, Site(1));
    let waits = Look { state, holder: Holder::Thread(a), is_old: false };
    let threads = Snapshot::from([(b, waits), (a, asleep(5).into())]);
    analysis.snapshot(1, &threads, (0, 100_000), true);
    let found = analysis.report(0);
    // B slept for 80 us of the 100: A ran for 30 of them, was off for 40, and slept for 10.
    let holder = split(&found, '\u{1}');
    assert_eq!(holder, [37, 50, 0, 12, 0, 0]);
}

/// The kernel's accounts say for how long threads ran since the last look, but not when: what the
/// holder did may have been before the wait.
#[test]
fn a_new_wait_is_split_by_the_look_alone_if_the_order_is_not_known() {
    for (is_old, preempted) in [(false, 0), (true, 60_000)] {
        let mut analysis = Analysis::new(Limits::default());
        events("0 A+ B+\n0 A| B-0\n60 A> A-5").iter().for_each(|event| analysis.event(*event));
        let (a, b) = (u32::from(b'A'), u32::from(b'B'));
        let state = State::Waiting(1, Site(1));
        let waits = |holder, is_old| Look { state, holder, is_old };
        let first = Snapshot::from([(b, waits(Holder::Unknown, false))]);
        analysis.snapshot(1, &first, (0, 0), false);
        let holder = waits(Holder::Thread(a), is_old);
        let threads = Snapshot::from([(b, holder), (a, asleep(5).into())]);
        analysis.snapshot(1, &threads, (0, 100_000), false);
        let found = at(&analysis.report(0), '\u{1}').holder;
        assert_eq!((found.of(State::Preempted), found.total()), (preempted, 100_000));
    }
}

/// A waiter that waited for one holder, and for longer for the next, waited for both.
#[test]
fn each_holder_is_weighed_by_the_time_waited_for_it() {
    let trace = "0 A+ B+ N+\n10 B:x B-0\n20 A^x B!A A,\n25 B> B.\n26 B:x B-0\n40 N^x B!N N,\n41 B> B.\n50 B^x";
    let row = at(&report(&events(trace)), 'x');
    let enders = row.enders.iter().map(|((thread, _), sums)| (*thread, *sums));
    let (a, n) = (u32::from(b'A'), u32::from(b'N'));
    assert_eq!(enders.collect::<Vec<_>>(), [(a, (0, 10_000)), (n, (1, 21_000))]);
}

/// All time of threads is in a state, and all sleep is in a row.
#[test]
fn sleeps_have_places_and_those_who_end_them() {
    let found = report(&events("0 A+ B+\n10 A> B-5s\n60 B!At B>\n70 B-6\n90 B> A~ B~"));
    let site = Site(b's'.into());
    let row = &found.rows[0];
    assert_eq!((row.key.reason, row.key.site, row.waited_ns), (Some(Reason(5)), site, 50_000));
    assert_eq!(row.enders[&(u32::from(b'A'), Site(b't'.into()))], (1, 50_000));
    assert_eq!(found.rows[1].key.reason, Some(Reason(6)));
    let slept: u64 = found.rows.iter().map(|row| row.waited_ns).sum();
    assert_eq!((slept, found.time.of(State::asleep())), (70_000, 70_000));
    assert_eq!(found.time.total(), 180_000);
}

/// Looks find some sleeps, and each stands for those since the look before it.
#[test]
fn looks_at_sleeps_stand_for_those_in_between() {
    let mut all = events("0 A+");
    let event = |at_ns, what| TraceEvent { at_ns, thread: u32::from(b'A'), what };
    // Sleeps of 1 ms; of each fifth one a look knows the reason.
    for round in 0..500 {
        let at_ns = round * 2_000_000;
        all.push(event(at_ns, What::In));
        all.push(event(at_ns + 1_000_000, What::Out(State::asleep())));
        if round % 5 == 0 {
            let reason = Reason(if round % 2 == 0 { 1 } else { 2 });
            all.push(event(at_ns + 1_500_000, What::Sleeps(reason, Site(3), 10_000_000)));
        }
    }
    all.push(event(1_000_000_000, What::In));
    let found = report(&all);
    for reason in [1, 2] {
        let of = |row: &&WaitStats| row.key.reason == Some(Reason(reason));
        let row = found.rows.iter().find(of).unwrap();
        assert!(row.waited_ns.abs_diff(250_000_000) < 1_000_000, "{}", row.waited_ns);
        assert!(row.waits.abs_diff(250) < 5, "{}", row.waits);
    }
    let slept: u64 = found.rows.iter().map(|row| row.waited_ns).sum();
    assert_eq!(slept, found.time.of(State::asleep()));
}

/// All are woken, and all but one find nothing to do.
#[test]
fn a_crowd_that_is_woken_for_nothing_is_counted() {
    let mut all = events("0 A+ B+ C+");
    for round in 1..=9 {
        let trace = format!(
            "{0}0 B?x B-0 C?x C-0\n{0}1 A^x B!A C!A A,\n{0}2 B> B.\n{0}3 B?y B-0 C> C.\n{0}4 C^y B!C C,\n{0}5 B> B.",
            round
        );
        all.extend(events(&trace));
    }
    for TraceEvent { what, .. } in &mut all {
        if let What::Wake { lock, how } = what {
            how.all = *lock == u64::from(b'x');
        }
    }
    let row = at(&report(&all), 'x');
    assert_eq!((row.waits, row.in_crowd, row.for_nothing), (18, 18, 16), "also past a mutex");
}

/// Every nanosecond of a wait is in one part, whatever comes.
#[test]
fn parts_add_up_to_the_waits() {
    let mut random = 7_u64;
    let mut next = |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) % below
    };
    let mut analysis = Analysis::new(Limits { states: 32, ..Limits::default() });
    for thread in 0..5 {
        analysis.event(TraceEvent {
            at_ns: 0,
            thread,
            what: What::Born { process: 1, runs: true },
        });
    }
    let mut at_ns = 0;
    for _ in 0..100_000 {
        at_ns += next(50);
        let (thread, lock) = (u32::try_from(next(5)).unwrap(), next(3));
        let what = match next(10) {
            0 => What::In,
            1 => What::Out(State::Preempted),
            2 => What::Out(State::Throttled),
            3 | 4 => What::Out(asleep(1)),
            5 => What::Woken { by: u32::try_from(next(5)).unwrap(), site: Site(0) },
            6 => What::Wait { lock, site: Site(1), is_lock: next(2) == 0 },
            7 => What::WaitEnd,
            8 => {
                let by_reader = next(2) == 0;
                What::Wake { lock, how: Wakes { by_reader, ..Wakes::default() } }
            }
            _ => What::WakeEnd,
        };
        analysis.event(TraceEvent { at_ns, thread, what });
        if next(5000) == 0 {
            analysis.lost(at_ns);
        }
    }
    let found = analysis.report(0);
    assert!(found.rows.iter().map(|row| row.waits).sum::<u64>() > 1000);
    for row in waits(&found) {
        assert_eq!(row.holder.total(), row.waited_ns, "{:?}", row.key);
    }
    let slept: u64 =
        found.rows.iter().filter(|row| row.key.reason.is_some()).map(|row| row.waited_ns).sum();
    assert_eq!(slept, found.time.of(State::asleep()));
    let all: u64 = found.time.total();
    assert_eq!(all, 5 * at_ns);
}
