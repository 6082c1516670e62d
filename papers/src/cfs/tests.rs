//! Who runs when, on a host of one socket or two.

use overlock_sim::hosts::OtherScheduler as _;
use overlock_vcpu::host::sched::yield_to::{Chosen, Missed, by_name};
use overlock_vcpu::host::sched::{Action, Event, Spin, Standing};
use overlock_vcpu::host::{Nanos, Pcpu, Vcpu};

use super::{Cfs, LATENCY_NS, MIGRATION_NS, TICK_NS};

/// A host whose actions are carried out at once.
struct Host {
    cfs: Cfs,
    now: u64,
}

impl Host {
    fn new(vcpus: u32, pcpus: u32, policy: &str) -> Self {
        let policy = by_name(policy, vcpus).unwrap();
        Self { cfs: Cfs::new((vcpus, vcpus), (pcpus, pcpus), true, policy), now: 0 }
    }

    fn on(&mut self, event: Event) {
        let mut actions = Vec::new();
        self.cfs.on(self.now, event, &mut actions);
        for action in actions {
            if let Action::Preempt { vcpu, .. } = action {
                self.on(Event::Preempted { vcpu });
            }
        }
        self.check();
    }

    /// Each vCPU is in one place.
    fn check(&self) {
        for (vcpu, task) in (0..).zip(&self.cfs.tasks) {
            let places = self.cfs.queues.iter().map(|queue| {
                queue.waiting.iter().filter(|&&other| other == vcpu).count()
                    + usize::from(queue.owner == Some(vcpu))
            });
            let in_one = matches!(task.standing, Standing::Running(_) | Standing::Queued(_));
            assert_eq!(places.sum::<usize>(), usize::from(in_one), "vCPU {vcpu}: {task:?}");
        }
        for queue in &self.cfs.queues {
            assert!(queue.owner.is_some() || queue.waiting.is_empty(), "{queue:?}");
        }
    }

    fn wake(&mut self, vcpu: u32) {
        self.on(Event::Kicked { target: Vcpu(vcpu) });
    }

    /// A long spin. Returns the pCPUs of those to which the handler attempted to yield.
    fn spin(&mut self, vcpu: u32) -> Vec<u32> {
        self.on(Event::LongSpin { spin: Spin::reported(Vcpu(vcpu)) });
        let mut attempts: Vec<u32> = self.cfs.attempt.take().into_iter().collect();
        while self.cfs.handles(vcpu) {
            let mut actions = Vec::new();
            self.cfs.go_on(self.now, vcpu, &mut actions);
            attempts.extend(self.cfs.attempt.take());
        }
        attempts
    }

    /// Lets time pass, with the ticks of each pCPU.
    fn pass(&mut self, ns: u64) {
        let end = self.now + ns;
        while self.now < end {
            self.now = (self.now + TICK_NS / 4).min(end);
            for pcpu in 0..self.cfs.queues.len() as u32 {
                if self.cfs.tick(pcpu).is_some_and(|at| at <= self.now) {
                    self.on(Event::Timer { pcpu: Pcpu(pcpu) });
                }
            }
        }
    }

    fn runs(&self, vcpu: u32) -> bool {
        matches!(self.cfs.standing(vcpu), Standing::Running(_))
    }
}

#[test]
fn those_that_compute_share_a_pcpu_equally() {
    let mut host = Host::new(3, 1, "none");
    (0..3).for_each(|vcpu| host.wake(vcpu));
    host.pass(20 * LATENCY_NS);
    for vcpu in 0..3 {
        let ran = host.cfs.usage(host.now, vcpu).ran.0 as f64 / host.now as f64;
        assert!((0.3..0.37).contains(&ran), "{vcpu} ran for {ran}");
    }
}

#[test]
fn a_pcpu_that_is_never_idle_for_long_fetches_nobody_until_it_looks() {
    for (idle_ns, fetches) in [(2 * MIGRATION_NS, true), (MIGRATION_NS / 2, false)] {
        let mut host = Host::new(3, 2, "none");
        // Its first home is pCPU 0, as that of vCPU 0.
        (0..3).for_each(|vcpu| host.wake(vcpu));
        host.pass(TICK_NS);
        host.cfs.queues[1].idle_ns = idle_ns;
        assert!(host.runs(0) && host.runs(1) && !host.runs(2));
        host.on(Event::Halted { vcpu: Vcpu(1) });
        assert_eq!(host.runs(2), fetches);
        let mut actions = Vec::new();
        host.cfs.look(host.now, 1, &mut actions);
        host.check();
        assert!(host.runs(2), "the periodic look");
    }
}

#[test]
fn one_that_ran_just_before_is_not_fetched() {
    let mut host = Host::new(3, 2, "none");
    (0..3).for_each(|vcpu| host.wake(vcpu));
    while !host.runs(2) {
        host.pass(TICK_NS / 4);
    }
    assert!(!host.runs(0), "it has just lost its pCPU");
    host.on(Event::Halted { vcpu: Vcpu(1) });
    assert!(!host.runs(0));
}

#[test]
fn a_yield_makes_its_target_the_next_on_the_targets_own_pcpu() {
    let mut host = Host::new(4, 2, "round-robin");
    (0..4).for_each(|vcpu| host.wake(vcpu));
    host.pass(2 * TICK_NS);
    assert!(host.runs(0) && host.runs(1), "2 waits behind 0, and 3 behind 1");
    // The policy's turn begins with vCPU 2, the first that waits.
    assert_eq!(host.spin(1), [0]);
    assert!(host.runs(2) && !host.runs(0), "on the pCPU of vCPU 0");
    assert!(host.runs(3) && !host.runs(1), "the spinner is skipped on its own");
    assert_eq!(host.cfs.tally().directed(Chosen::NextInTurn), 1);
}

#[test]
fn a_vcpu_in_the_host_costs_an_attempt_and_one_in_the_guest_does_not() {
    for (policy, attempts) in [("round-robin", &[1][..]), ("skip-spinners", &[])] {
        let mut host = Host::new(3, 3, policy);
        (0..3).for_each(|vcpu| host.wake(vcpu));
        host.now = 500;
        host.cfs.is_in_host(1, 0, 1_000);
        assert_eq!(host.spin(0), attempts, "{policy}");
        assert!(host.runs(0), "there is nobody to yield to");
        // Skipped the last time, it is due now.
        assert_eq!(host.spin(2), [1], "{policy}");
    }
}

#[test]
fn yields_stay_within_a_guest() {
    let policy = by_name("round-robin", 4).unwrap();
    let mut host = Host { cfs: Cfs::new((4, 2), (2, 2), true, policy), now: 0 };
    for vcpu in [0, 1, 2, 3] {
        host.wake(vcpu);
    }
    host.now = Nanos::from_millis(2).0;
    assert!(host.spin(0).is_empty());
    assert!(host.runs(0) && host.runs(1), "2 and 3 belong to the other guest");
    assert_eq!(host.cfs.tally().decisions(), 1);
}

#[test]
fn since_2013_a_handler_gives_up_where_nobody_waits() {
    let mut host = Host::new(8, 8, "round-robin");
    host.cfs.is_2012 = false;
    (0..8).for_each(|vcpu| host.wake(vcpu));
    host.now = 500;
    (1..8).for_each(|vcpu| host.cfs.is_in_host(vcpu, 0, 1_000));
    assert!(host.spin(0).is_empty() && host.runs(0));
    assert_eq!(host.cfs.tally().stayed(Missed::NotOvercommitted), 1);
}

#[test]
fn attempts_wait_for_each_others_locks() {
    let mut host = Host::new(4, 4, "round-robin");
    host.cfs.now = 100;
    assert_eq!(host.cfs.locks(0, 1, 50), 150);
    assert_eq!(host.cfs.locks(2, 3, 50), 150, "other locks");
    assert_eq!(host.cfs.locks(2, 1, 50), 200, "after both");
}

#[test]
fn three_on_two_pcpus_get_equal_shares_in_time() {
    let mut host = Host::new(3, 2, "none");
    (0..3).for_each(|vcpu| host.wake(vcpu));
    let every = host.cfs.look_every_ns();
    for _ in 0..4_000 {
        host.pass(every);
        for pcpu in 0..2 {
            let mut actions = Vec::new();
            host.cfs.look(host.now, pcpu, &mut actions);
            host.check();
        }
    }
    for vcpu in 0..3 {
        let ran = host.cfs.usage(host.now, vcpu).ran.0 as f64 / host.now as f64;
        assert!((0.6..0.74).contains(&ran), "{vcpu} ran for {ran}");
    }
}
