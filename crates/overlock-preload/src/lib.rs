//! Overlock's locks for unmodified programs: `LD_PRELOAD=liboverlock_preload.so program`.
//!
//! The library defines `pthread_mutex_*`, `pthread_cond_*`, `pthread_rwlock_*`, `pthread_spin_*`
//! and `pthread_barrier_*` calls of glibc and C11's `mtx_*` and `cnd_*`, and the dynamic linker
//! binds programs and their libraries to these. The state of a lock lives in the caller's own
//! object; there is no table beside it.
//!
//! | environment | meaning |
//! |---|---|
//! | `OVERLOCK_LOCK` | `hybrid` (default), `ticket`, `queued` or `test-and-set`; `none` keeps libc's locks, to measure what the library alone costs; anything else ends the process with status 2 |
//! | `OVERLOCK_COUNTERS` | a file to which the process appends a line of JSON when it exits (`counters.rs`) |
//! | `OVERLOCK_TALLY` | memory of the command that started the process, to count there (`tally.rs`) |
//! | `OVERLOCK_CHECK` | `1`: reports where the program misuses a mutex (`misuse.rs`) |
//!
//! # What is replaced
//!
//! | calls | by |
//! |---|---|
//! | `pthread_mutex_lock`, `_trylock`, `_timedlock`, `_clocklock`, `_unlock`, `_destroy` | `mutex.rs` on `word.rs` |
//! | `pthread_cond_wait`, `_timedwait`, `_clockwait`, `_signal`, `_broadcast`, `_destroy` | `cond.rs` and `block.c` |
//! | `pthread_rwlock_rdlock`, `_wrlock`, their `try`, `timed` and `clock` variants, `_unlock` | `rwlock.rs` |
//! | `pthread_spin_lock`, `_trylock`, `_unlock` | `spin.rs` |
//! | `pthread_barrier_wait`, `_destroy` | `barrier.rs` |
//! | C11's `mtx_*` and `cnd_*`, except for `mtx_init` and `cnd_init` | `c11.rs`, as pthread's |
//! | `longjmp`, `_longjmp`, `siglongjmp` | `jump.rs`, then libc's |
//!
//! # What stays libc's
//!
//! * Initialisation: libc's initialisers write the type and zeros, which is our initial state too.
//! * Mutexes that are robust, priority-inheriting, priority-protecting or process-shared,
//!   process-shared condition variables with such mutexes, and process-shared read-write locks and
//!   barriers: recognised by their own bytes and handed over in every call.
//! * Semaphores: the library counts when a thread has to wait, and passes the call on
//!   (`passed_on.rs`).
//! * `pthread_once`, C11's `call_once`, and the locks inside libc.
//! * Calls of a library that was opened with `RTLD_DEEPBIND` or `dlmopen`: the dynamic linker binds
//!   them to libc before anything preloaded. Likewise calls that a program looks up in libc itself,
//!   by `dlsym` with the handle of `libc.so.6`, or C11's by their bare names (`exports.rs`). If
//!   such calls share mutexes with the rest of the program, which uses ours, run that program
//!   without Overlock: the two do not exclude each other.
//!
//! # Rules for this code
//!
//! Lock paths run in memory allocators, in constructors before ours, in destructors of thread-local
//! data, and in forked children. So they allocate nothing, use no buffered I/O and no thread-local
//! data with a constructor or a destructor, do not panic, and leave `errno` alone.
//!
//! # Fork
//!
//! A forked child keeps what the forking thread held and may unlock it, even if other threads of
//! the parent were waiting for it (`stamp.rs`); it may destroy condition variables on which threads
//! of the parent were blocked (`cond.rs`). What other threads of the parent held stays locked. The
//! child knows that it is a child because the kernel has cleared some memory (`unforked.rs`), even
//! after a bare `clone` system call. A child of `vfork` shares the parent's memory and its locks,
//! as it should.

#[cfg(not(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
compile_error!(
    "the layouts of pthread_mutex_t and pthread_cond_t are known only for glibc on x86-64 and aarch64"
);

mod barrier;
mod c11;
mod cell;
mod choice;
mod clock;
mod cond;
mod counters;
mod exports;
mod frames;
mod gate;
mod guarded;
mod identity;
mod jump;
mod libcs;
mod longest;
mod misuse;
mod mutex;
mod numbers;
mod operations;
mod passed_on;
mod platform;
mod process;
mod real;
mod rwlock;
mod shared;
mod spin;
mod stamp;
mod tables;
mod tally;
mod text;
mod thread;
mod unforked;
mod word;
mod yields;
