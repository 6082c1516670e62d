// SPDX-License-Identifier: MIT OR Apache-2.0
//! A filter for system calls that a thread sets up after locks have been biased: its writers find
//! out who reads without `membarrier`, or say that they can't. None waits for ever.

#![cfg(all(feature = "threads", target_os = "linux", target_pointer_width = "64"))]

mod support {
    pub(crate) mod oracle;
    pub(crate) mod skip;
}

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use overlock::counters::Uncounted;
use overlock::platform::{Biased, Threads};
use overlock::{RawLock, RawRwLock};
use support::oracle::{Pulse, watched_for};
use support::skip::skip;

type Lock = RawRwLock<Threads, Uncounted, Biased>;

/// Makes these system calls of this thread fail from now on.
fn forbid(calls: &[libc::c_long]) {
    let [load, equal, ends] =
        [libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, libc::BPF_JMP | libc::BPF_JEQ, libc::BPF_RET]
            .map(|code| code as u16);
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    // The number of a call comes first in what a filter sees.
    let mut steps = vec![step(load, 0, 0, 0)];
    for &call in calls {
        steps.push(step(equal, 0, 1, call as u32));
        steps.push(step(ends, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32));
    }
    steps.push(step(ends, 0, 0, libc::SECCOMP_RET_ALLOW));
    let filter = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
    // SAFETY: numbers, and a filter of so many steps, which the kernel copies.
    unsafe {
        let [on, off, mode] = [1, 0, libc::c_ulong::from(libc::SECCOMP_MODE_FILTER)];
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, on, off, off, off), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter), 0);
    }
}

fn read(lock: &Lock) {
    lock.lock_shared();
    // SAFETY: taken above.
    unsafe { lock.unlock_shared() };
}

/// Biased locks, if there is a bias here.
fn biased<const N: usize>() -> Option<[Lock; N]> {
    let locks = [const { Lock::new() }; N];
    locks.iter().for_each(|lock| (0..200).for_each(|_| read(lock)));
    // A biased lock says that it may be held.
    let are_biased = locks.iter().all(Lock::is_locked_at_all);
    if !are_biased {
        skip("no restartable sequences here (rseq(2), membarrier(2))");
    }
    are_biased.then_some(locks)
}

#[test]
fn a_writer_gets_in_where_membarrier_is_forbidden() {
    let Some(locks) = biased::<32>() else { return };
    let check = move |pulse: &Pulse| {
        let (locks, written, done) = (&locks, &AtomicU32::new(0), &AtomicBool::new(false));
        let torn = thread::scope(|scope| {
            let readers = [(); 3].map(|()| {
                scope.spawn(move || {
                    let mut torn = 0;
                    while !done.load(SeqCst) {
                        for lock in locks {
                            lock.lock_shared();
                            let seen = written.load(SeqCst);
                            torn += u32::from(seen % 2 == 1 && seen / 2 == index(locks, lock));
                            // SAFETY: taken above.
                            unsafe { lock.unlock_shared() };
                        }
                    }
                    torn
                })
            });
            let writer = scope.spawn(|| {
                forbid(&[libc::SYS_membarrier]);
                for lock in locks {
                    RawLock::lock(lock);
                    written.fetch_add(1, SeqCst);
                    thread::yield_now();
                    written.fetch_add(1, SeqCst);
                    // SAFETY: taken above.
                    unsafe { RawLock::unlock(lock) };
                    pulse.beat();
                }
                done.store(true, SeqCst);
            });
            writer.join().expect("the filter is set up");
            readers.map(|reader| reader.join().expect("a reader only reads")).iter().sum::<u32>()
        });
        if torn > 0 {
            return Err(format!("{torn} readers saw the half of a section"));
        }
        // No lock is biased from here on.
        locks.iter().for_each(|lock| (0..200).for_each(|_| read(lock)));
        let biased = locks.iter().filter(|lock| lock.is_locked_at_all()).count();
        if biased > 0 { Err(format!("{biased} locks are biased again")) } else { Ok(()) }
    };
    watched_for(Duration::from_secs(30), check).expect("no writer waits for ever");
}

fn index(locks: &[Lock], lock: &Lock) -> u32 {
    locks.iter().position(|other| std::ptr::eq(other, lock)).map_or(u32::MAX, |i| i as u32)
}

#[test]
fn a_writer_that_cannot_find_out_who_reads_says_so() {
    const CHILD: &str = "OVERLOCK_TEST_FORBIDDEN";
    let name = "a_writer_that_cannot_find_out_who_reads_says_so";
    let Some([lock]) = biased() else { return };
    if std::env::var_os(CHILD).is_some() {
        forbid(&[libc::SYS_membarrier, libc::SYS_sched_setaffinity]);
        // SAFETY: the only argument is a number of seconds; the signal ends a writer that waits.
        unsafe { libc::alarm(20) };
        RawLock::lock(&lock);
        return;
    }
    let program = std::env::current_exe().expect("the path of this test");
    let child = Command::new(program).args(["--exact", name]).env(CHILD, "1").output();
    let child = child.expect("this program starts once more");
    let said = String::from_utf8_lossy(&child.stderr);
    assert_eq!(child.status.signal(), Some(libc::SIGABRT), "{said}");
    assert!(said.contains("forbids membarrier and sched_setaffinity"), "{said}");
}
