//! Do the conformance cases notice a faulty library?
//!
//! `tests/posix/broken.c` has one fault at a time. The case that covers it must fail with the fault
//! and pass without it. What results calls have is `differential.rs`'s question.

use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use crate::support::{compile, has_cxx, program, text};

/// Each fault, the program of the cases that must notice it, and these cases, of which some exist
/// on one machine only.
const FAULTS: &str = "
lock_does_nothing stress.c counting;
lock_clobbers_errno mutex.c errno_is_left_alone;
recursion_without_limit mutex.c recursive_overflow_is_eagain;
relock_is_allowed mutex.c static_initialisers;
trylock_always_succeeds mutex.c lock_and_unlock;
trylock_has_the_wrong_error mutex.c lock_and_unlock;
destroy_of_locked_is_allowed mutex.c destroy_of_locked_is_ebusy;
unlock_touches_the_mutex_afterwards stress.c destroy_right_after_unlock;
deadline_is_forgotten timed.c times_out_and_not_early;
deadline_comes_early timed.c times_out_and_not_early;
nanoseconds_are_not_checked timed.c bad_nanoseconds_are_einval;
clocks_are_confused timed.c times_out_and_not_early;
clock_is_not_checked timed.c bad_clock_is_einval;
vanished_waiters_keep_their_tickets fork.c child_unlocks_a_mutex_that_others_waited_for;
children_begin_tickets_anew fork.c x86_64:a_handler_forks_at_every_instruction_of_a_wait;
vanished_waiters_keep_their_tickets jumps.c a_waiter_jumps_out
    a_waiter_jumps_out_from_a_stack_above a_waiter_jumps_out_again_and_again
    a_waiter_exits_in_a_handler a_waiter_is_cancelled_in_a_handler
    a_jump_leaves_the_inner_wait_only x86_64:a_waiter_jumps_out_after_every_instruction
    x86_64:waiters_jump_out_while_others_lock_and_unlock;
any_jump_ends_a_wait jumps.c a_jump_within_a_handler_leaves_the_wait_alone
    a_jump_within_a_handler_on_another_stack_leaves_the_wait_alone;
vanished_waiters_keep_their_tickets coroutines.c a_jump_leaves_a_coroutine
    a_jump_leaves_a_coroutine_from_the_stack_for_handlers
    a_jump_out_of_a_coroutine_leaves_the_wait_that_it_has_interrupted;
any_jump_ends_a_wait coroutines.c a_jump_within_a_coroutine_leaves_the_wait_alone;
trylock_always_succeeds unshared.c a_stranger_does_not_own_what_it_shares
    strangers_exclude_each_other;
dead_owner_is_not_reported special.c robust_mutex_reports_a_dead_owner;
lock_does_nothing special.c processes_share_a_mutex;
shared_condition_is_private special.c processes_share_a_condition;
wait_never_releases_the_mutex cond.c signal_wakes;
signal_does_nothing cond.c signal_wakes no_signal_is_lost_to_one_that_found_nobody_asleep;
one_signal_in_twenty_is_lost cond.c no_signal_is_lost_when_sent_without;
broadcast_wakes_one cond.c broadcast_wakes_all no_broadcast_is_lost;
timed_wait_times_out_early cond.c timed_waits_time_out_and_not_early;
woken_waiter_touches_the_condition_late cond.c destroy_right_after_broadcast;
cancelled_without_the_mutex cancel.c blocked_waiter_is_cancelled_with_the_mutex;
wait_is_no_cancellation_point cancel.c blocked_waiter_is_cancelled_with_the_mutex;
cancelled_waiter_keeps_its_signal cancel.c cancelled_waiter_uses_up_no_signal;
two_unlocks_count_twice tolerated.c unlock_by_two_threads_at_once;
children_clean_every_mutex fork.c child_leaves_alone_what_it_shares
    child_leaves_alone_what_it_has_not_got;
vanished_waiters_keep_their_tickets outside.c a_waiter_that_is_cancelled_leaves_the_mutex_whole;
lock_does_nothing fields.c the_holder_is_in_the_mutex;
a_key_is_taken fields.c all_keys_are_the_programs;
signal_does_nothing versions.c versioned_wait_meets_linked_signal;
lock_calls_membarrier sandboxed.c a_sandbox_that_kills_for_membarrier;
lock_calls_membarrier allowed.c the_calls_that_are_documented_suffice;
lock_asks_for_the_thread sandboxed.c a_thread_that_may_make_no_call_takes_a_free_mutex
    a_child_that_may_make_no_call_takes_a_free_mutex;
rwlock_does_nothing rwlock.c readers_and_writers_wait readers_never_see_half_a_change;
rwlock_hides_its_timeout rwlock.c a_deadline_is_kept;
semaphore_does_nothing passed_on.c semaphores_wait;
barrier_does_nothing barrier.c the_last_thread_ends_the_round
    a_round_orders_what_its_threads_write more_threads_than_a_round_has;
barrier_has_two_serial_threads barrier.c the_last_thread_ends_the_round
    more_threads_than_a_round_has;
barrier_is_touched_late barrier.c destroy_right_after_a_round;
mtx_does_nothing c11.c lock_trylock_unlock waiters_get_the_mutex threads_exclude_each_other;
mtx_passes_error_numbers_on c11.c lock_trylock_unlock;
mtx_deadline_comes_early c11.c a_timed_lock_times_out_and_not_early waiters_get_the_mutex;
cnd_signal_does_nothing c11.c conditions_wake;
cnd_times_out_early c11.c a_timed_wait_times_out_and_not_early conditions_wake;
lock_does_nothing cxx.cc every_kind_of_mutex_excludes;
deadline_comes_early cxx.cc timed_mutex_times_out;
signal_does_nothing cxx.cc condition_variable_hands_over;
spin_lock_does_nothing spin.c threads_exclude_each_other;
spin_trylock_has_the_wrong_error spin.c lock_trylock_unlock;";

/// The rows of [`FAULTS`]: a fault, a program and a case.
fn faults() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    FAULTS.split_terminator(';').flat_map(|row| {
        let mut words = row.split_whitespace();
        let (fault, source) = (words.next().expect("a fault"), words.next().expect("a program"));
        let here = |case: &'static str| match case.split_once(':') {
            Some((machine, case)) => (machine == std::env::consts::ARCH).then_some(case),
            None => Some(case),
        };
        words.filter_map(here).map(move |case| (fault, source, case))
    })
}

/// How often a case may run with a fault until it notices it: some faults need a race.
const TRIES: usize = 5;

/// Runs one case with a fault, or with none, for at most `seconds`; returns whether it passed, and
/// its output.
fn passes(program: &Path, case: &str, library: &Path, fault: &str, seconds: u64) -> (bool, String) {
    let output = Command::new(program)
        .arg(case)
        .env("LD_PRELOAD", library)
        .env("BROKEN", fault)
        .env("POSIX_WATCHDOG_S", seconds.to_string())
        .output()
        .expect("the program was just compiled");
    (output.status.success(), text(&output))
}

/// Returns whether the case notices the fault.
///
/// # Panics
/// If it also fails without the fault.
fn notices(source: &str, case: &str, library: &Path, fault: &str) -> bool {
    let program = program(source);
    let begun = Instant::now();
    let (passed, said) = passes(program, case, library, "none", 120);
    assert!(passed, "{source} {case} fails without a fault:\n{said}");
    // Some faults make a case hang; one that is only slow must not count as that.
    let seconds = 3.max((5 * begun.elapsed()).as_secs() + 1);
    (0..TRIES).any(|_| !passes(program, case, library, fault, seconds).0)
}

/// A library that exports a call in some of its versions only.
#[cfg(target_arch = "x86_64")]
#[test]
fn a_version_that_was_forgotten_is_noticed() {
    let map = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/posix/one_version.map");
    let script = format!("-Wl,--version-script={}", map.display());
    let library = compile("one_version.c", "one-version.so", &["-shared", "-fPIC", &script]);
    let case = "every_version_is_of_one_library";
    let (passed, said) = passes(program("versions.c"), case, &library, "none", 120);
    assert!(!passed && said.contains("pthread_cond_signal"), "{said}");
}

/// How many cases run at once: most of the time goes into waiting for those that hang.
const AT_ONCE: usize = 8;

#[test]
fn every_fault_is_noticed() {
    let library = compile("broken.c", "broken.so", &["-shared", "-fPIC"]);
    let can_run = has_cxx();
    let left = Mutex::new(faults().filter(|(_, source, _)| can_run || !source.ends_with(".cc")));
    let next = || left.lock().expect("no worker panics while it has it").next();
    let work = || -> Vec<String> {
        std::iter::from_fn(next)
            .filter(|(fault, source, case)| !notices(source, case, &library, fault))
            .map(|(fault, source, case)| format!("{source} {case} does not notice {fault}"))
            .collect()
    };
    let unnoticed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().expect("a case fails without a fault"))
            .collect()
    });
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
}
