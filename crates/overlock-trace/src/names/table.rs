// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of names: what a thread waits for by the functions of its stack, by the kernel's
//! functions, and by its system call.
//!
//! To teach `trace` another library, add a line here. The last column of each line is an example,
//! the innermost function first, and the tests demand that each line is what decides its example.

use super::Kind;

/// Parts of the names of functions of libraries that pass a wait on: the first that is found in a
/// function decides for it.
pub(super) const PARTS: &[(&str, Kind, &str)] = &[
    ("wrlock", Kind::Writer, "pthread_rwlock_wrlock"),
    ("RwLock::write", Kind::Writer, "std::sync::RwLock::write"),
    ("RwLock<T>::write", Kind::Writer, "std::sync::RwLock<T>::write"),
    ("lock_exclusive", Kind::Writer, "parking_lot::raw_rwlock::lock_exclusive_slow"),
    ("shared_lock<", Kind::RwLock, "pthread_rwlock_x <- std::shared_lock<std::shared_mutex>::lock"),
    ("lock_shared", Kind::RwLock, "parking_lot::raw_rwlock::lock_shared_slow"),
    ("shared_mutex", Kind::Writer, "std::shared_mutex::lock"),
    ("shared_timed_mutex", Kind::Writer, "std::shared_timed_mutex::lock"),
    ("_join", Kind::Join, "pthread_join"),
    ("join_ex", Kind::Join, "__pthread_clockjoin_ex"),
    ("::join", Kind::Join, "std::thread::JoinHandle<T>::join"),
    ("JoinInner", Kind::Join, "std::thread::JoinInner<T>"),
    ("pthread_mutex", Kind::Mutex, "___pthread_mutex_lock"),
    ("pthread_rwlock", Kind::RwLock, "pthread_rwlock_rdlock"),
    ("pthread_cond_", Kind::Condvar, "pthread_cond_wait"),
    ("pthread_barrier", Kind::Barrier, "pthread_barrier_wait"),
    ("sem_wait", Kind::Semaphore, "sem_wait"),
    ("sem_timedwait", Kind::Semaphore, "sem_timedwait"),
    ("sem_clockwait", Kind::Semaphore, "sem_clockwait"),
    ("cnd_", Kind::Condvar, "pthread_x <- std::cnd_wait"),
    ("mtx_", Kind::Mutex, "std::mtx_lock"),
    ("condvar", Kind::Condvar, "std::sys::sync::condvar::futex::wait"),
    ("condition_variable", Kind::Condvar, "std::condition_variable::wait"),
    ("Condvar", Kind::Condvar, "std::sync::Condvar::wait"),
    ("thread_parking", Kind::Condvar, "std::sys::sync::thread_parking::futex::park"),
    ("RwLock", Kind::RwLock, "std::sync::RwLock<T>::read"),
    ("rwlock", Kind::RwLock, "std::sys::sync::rwlock::futex::read_contended"),
    ("Mutex", Kind::Mutex, "std::sync::Mutex<T>::lock"),
    ("mutex", Kind::Mutex, "parking_lot::raw_mutex::lock_slow"),
    ("Once", Kind::Mutex, "std::sync::Once::call"),
    ("malloc", Kind::Libc, "pthread_x <- __libc_malloc"),
    ("__lll_lock_wait_private", Kind::Libc, "__lll_lock_wait_private"),
];

/// Beginnings of the names of functions of runtimes and libraries, of which it is known what their
/// callers wait for there. The outermost that is found decides.
pub(super) const FUNCTIONS: &[(&str, Kind, &str)] = &[
    // CPython.
    ("take_gil", Kind::Gil, "pthread_cond_timedwait <- take_gil <- f"),
    ("PyEval_RestoreThread", Kind::Gil, "pthread_cond_timedwait <- PyEval_RestoreThread"),
    ("PyEval_AcquireThread", Kind::Gil, "pthread_cond_timedwait <- PyEval_AcquireThread"),
    ("PyGILState_Ensure", Kind::Gil, "pthread_cond_timedwait <- PyGILState_Ensure"),
    ("_PyThreadState_Attach", Kind::Gil, "pthread_cond_timedwait <- _PyThreadState_Attach"),
    ("PyThread_acquire_lock", Kind::Mutex, "sem_clockwait <- PyThread_acquire_lock_timed"),
    ("_PyMutex_Lock", Kind::Mutex, "sem_wait <- _PySemaphore_Wait <- _PyMutex_LockTimed"),
    // Ruby.
    ("gvl_acquire", Kind::Gvl, "pthread_cond_wait <- gvl_acquire"),
    ("thread_sched_to_running", Kind::Gvl, "pthread_cond_wait <- thread_sched_to_running_common"),
    ("thread_sched_wait_running", Kind::Gvl, "pthread_cond_wait <- thread_sched_wait_running_turn"),
    ("native_sleep", Kind::Timer, "pthread_cond_timedwait <- native_sleep"),
    // HotSpot.
    ("ObjectMonitor::wait", Kind::Condvar, "os::PlatformEvent::park <- ObjectMonitor::wait"),
    ("ObjectMonitor::", Kind::Monitor, "os::PlatformEvent::park <- ObjectMonitor::EnterI"),
    ("ObjectSynchronizer::enter", Kind::Monitor, "futex <- ObjectSynchronizer::enter"),
    ("Parker::park", Kind::Park, "pthread_cond_wait <- Parker::park"),
    ("Unsafe_Park", Kind::Park, "pthread_cond_wait <- Parker::park <- Unsafe_Park"),
    ("JavaThread::sleep", Kind::Timer, "os::PlatformEvent::park_nanos <- JavaThread::sleep"),
    ("os::PlatformMonitor::wait", Kind::Idle, "pthread_cond_wait <- os::PlatformMonitor::wait"),
    ("PlatformMonitor::wait", Kind::Idle, "pthread_cond_wait <- PlatformMonitor::wait"),
    ("PosixSemaphore::wait", Kind::Idle, "sem_wait <- PosixSemaphore::wait"),
    ("JavaMain", Kind::Join, "pthread_cond_wait <- JavaMain"),
    ("ThreadJavaMain", Kind::Join, "pthread_x <- ThreadJavaMain"),
    ("CallJavaMainInNewThread", Kind::Join, "pthread_x <- CallJavaMainInNewThread"),
    // Go's runtime.
    ("runtime.lock2", Kind::GoLock, "runtime.futex <- runtime.futexsleep <- runtime.lock2"),
    ("runtime.notesleep", Kind::Idle, "runtime.futex <- runtime.futexsleep <- runtime.notesleep"),
    ("runtime.notetsleep", Kind::Idle, "runtime.futex <- runtime.notetsleep_internal"),
    ("runtime.netpoll", Kind::Idle, "runtime/internal/syscall.EpollWait <- runtime.netpoll"),
    ("runtime.usleep", Kind::Idle, "runtime.usleep <- runtime.sysmon"),
    // Schedulers of Rust.
    (
        "tokio::runtime",
        Kind::Idle,
        "std::sys::sync::condvar::x <- tokio::runtime::park::Inner::park",
    ),
    ("rayon_core", Kind::Idle, "std::sync::Condvar::wait <- rayon_core::sleep::Sleep::sleep"),
    // libuv, under Node.
    ("uv_mutex_lock", Kind::Mutex, "pthread_mutex_lock <- uv_mutex_lock"),
    ("uv_rwlock_rdlock", Kind::RwLock, "pthread_rwlock_rdlock <- uv_rwlock_rdlock"),
    ("uv_rwlock_wrlock", Kind::Writer, "pthread_rwlock_wrlock <- uv_rwlock_wrlock"),
    ("uv_sem_wait", Kind::Semaphore, "sem_wait <- uv_sem_wait"),
    ("uv_cond_", Kind::Condvar, "pthread_cond_wait <- uv_cond_wait"),
    ("uv__io_poll", Kind::Idle, "epoll_pwait <- uv__io_poll"),
    // abseil, tcmalloc.
    ("absl::Mutex::", Kind::Mutex, "absl::synchronization_internal::x <- absl::Mutex::LockSlow"),
    ("absl::CondVar::", Kind::Condvar, "absl::synchronization_internal::x <- absl::CondVar::Wait"),
    ("absl::synchronization_internal", Kind::Mutex, "absl::synchronization_internal::FutexWaiter"),
    ("base::internal::SpinLockDelay", Kind::Spin, "nanosleep <- base::internal::SpinLockDelay"),
    ("SpinLock::SlowLock", Kind::Spin, "nanosleep <- SpinLock::SlowLock"),
    // PostgreSQL's processes sleep on semaphores for its light-weight locks, and for nothing else.
    ("PGSemaphoreLock", Kind::Mutex, "sem_wait <- PGSemaphoreLock"),
    ("LWLock", Kind::Mutex, "sem_wait <- LWLockAcquire"),
    ("perform_spin_delay", Kind::Spin, "nanosleep <- perform_spin_delay"),
    ("s_lock", Kind::Spin, "nanosleep <- s_lock"),
    // Teams of OpenMP.
    ("gomp_team_barrier", Kind::Barrier, "futex_wait <- gomp_team_barrier_wait_end"),
    ("gomp_barrier", Kind::Barrier, "futex_wait <- gomp_barrier_wait_end"),
    ("gomp_mutex", Kind::Mutex, "futex_wait <- gomp_mutex_lock_slow"),
    ("__kmp_", Kind::Barrier, "pthread_cond_wait <- __kmp_suspend_64"),
    // musl.
    ("__lock", Kind::Libc, "__futexwait <- __lock"),
    ("__pthread_mutex_timedlock", Kind::Mutex, "__timedwait <- __pthread_mutex_timedlock"),
    ("__private_cond", Kind::Condvar, "__timedwait_cp <- __private_cond_signal"),
    ("__pthread_timedjoin_np", Kind::Join, "__timedwait_cp <- __pthread_timedjoin_np"),
];

/// Programs and libraries that are an interpreter: all that they wait for by a condition variable,
/// in functions that have lost their names, is its lock.
pub(super) const INTERPRETERS: &[(&str, Kind)] = &[
    ("python3", Kind::Gil),
    ("libpython3", Kind::Gil),
    ("libruby", Kind::Gvl),
    ("ruby", Kind::Gvl),
];

/// Modules that only pass a wait on.
pub(super) const LIBRARIES: &[&str] = &[
    "libc.so",
    "libc-",
    "libpthread",
    "ld-linux",
    "libstdc++",
    "libc++",
    "libgcc",
    "ld-musl",
    "liboverlock_",
    "[vdso]",
];

/// Beginnings of the names of functions that only pass a wait on.
pub(super) const WRAPPERS: &[&str] = &[
    "std::",
    "core::",
    "<std::",
    "<core::",
    "alloc::",
    "parking_lot",
    "<parking_lot",
    "lock_api",
    "<lock_api",
    "__glibcxx",
    "crossbeam_utils::backoff",
    "PGSemaphore",
    "__gthread",
    "__gthrw",
    "runtime.",
    "runtime/internal/",
    "sync.",
    "internal/",
    "syscall",
    "futex",
    "pthread_",
    "__pthread",
    "___pthread",
    "__lll",
    "__futex",
    "sem_",
    "sccp",
    "__timedwait",
    "__syscall",
    "_PySemaphore",
    "os::PlatformEvent::park",
    "Mutex::",
    "Monitor::",
    "__wait",
];

/// Parts of the names of functions of the kernel, what a thread sleeps for in them, in words, and
/// an example. The first that is found in any of a chain's functions decides.
pub(super) const KERNEL: &[(&str, Kind, &str, &str)] = &[
    ("pipe_", Kind::Pipe, "a pipe", "schedule <- anon_pipe_read <- vfs_read <- ksys_read"),
    ("eventfd_", Kind::Eventfd, "an eventfd", "schedule <- eventfd_read <- vfs_read <- ksys_read"),
    ("timerfd_", Kind::Timer, "a timer", "schedule <- timerfd_read_iter <- ksys_read"),
    ("sys_flock", Kind::FileLock, "a file lock", "locks_lock_inode_wait <- __x64_sys_flock"),
    ("fcntl_setlk", Kind::FileLock, "a file lock", "fcntl_setlk <- __x64_sys_fcntl"),
    ("posix_lock_inode", Kind::FileLock, "a file lock", "posix_lock_inode_wait <- __x64_sys_fcntl"),
    ("semtimedop", Kind::SysV, "a SysV semaphore", "__do_semtimedop <- __x64_sys_semop"),
    ("do_msg", Kind::Signal, "a message", "do_msgrcv <- __x64_sys_msgrcv"),
    ("unix_stream", Kind::Socket, "a socket", "unix_stream_read_generic <- __x64_sys_recvfrom"),
    ("tcp_", Kind::Socket, "a socket", "sk_wait_data <- tcp_recvmsg_locked <- __x64_sys_recvfrom"),
    ("sock_", Kind::Socket, "a socket", "x <- sock_recvmsg <- __x64_sys_recvmsg"),
    ("skb_", Kind::Socket, "a socket", "__skb_wait_for_more_packets <- __x64_sys_recvfrom"),
    ("inet_csk_accept", Kind::Socket, "a socket", "inet_csk_accept <- __x64_sys_accept4"),
    (
        "ep_poll",
        Kind::Poll,
        "any of several files",
        "ep_poll <- do_epoll_wait <- __x64_sys_epoll_wait",
    ),
    ("do_poll", Kind::Poll, "any of several files", "schedule <- do_poll <- __x64_sys_poll"),
    ("do_sys_poll", Kind::Poll, "any of several files", "do_sys_poll <- __x64_sys_poll"),
    ("do_select", Kind::Poll, "any of several files", "do_select <- __x64_sys_select"),
    ("io_cqring_wait", Kind::Poll, "io_uring", "io_cqring_wait <- __x64_sys_io_uring_enter"),
    ("tty_", Kind::Terminal, "a terminal", "n_tty_read <- tty_read <- ksys_read"),
    ("do_wait", Kind::Child, "a process", "do_wait <- kernel_wait4 <- __x64_sys_wait4"),
    (
        "kernel_clone",
        Kind::Child,
        "a process",
        "wait_for_vfork_done <- kernel_clone <- __x64_sys_vfork",
    ),
    ("sigtimedwait", Kind::Signal, "a signal", "do_sigtimedwait <- __x64_sys_rt_sigtimedwait"),
    ("sigsuspend", Kind::Signal, "a signal", "sigsuspend <- __x64_sys_rt_sigsuspend"),
    ("sys_pause", Kind::Signal, "a signal", "__x64_sys_pause"),
    ("io_schedule", Kind::Disk, "a disk", "io_schedule <- folio_wait_bit_common <- ksys_read"),
    ("folio_wait", Kind::Disk, "a disk", "folio_wait_writeback <- __x64_sys_fsync"),
    ("submit_bio", Kind::Disk, "a disk", "submit_bio_wait <- __x64_sys_fsync"),
    ("jbd2_", Kind::Disk, "a disk", "jbd2_log_wait_commit <- __x64_sys_fsync"),
    (
        "rwsem_down",
        Kind::KernelLock,
        "a kernel lock",
        "rwsem_down_write_slowpath <- __x64_sys_munmap",
    ),
    ("down_write", Kind::KernelLock, "a kernel lock", "down_write_killable <- __x64_sys_mmap"),
    ("down_read", Kind::KernelLock, "a kernel lock", "down_read <- __x64_sys_madvise"),
    ("mutex_lock", Kind::KernelLock, "a kernel lock", "__mutex_lock <- __x64_sys_pwrite64"),
    ("percpu_rwsem", Kind::KernelLock, "a kernel lock", "percpu_rwsem_wait <- __x64_sys_clone3"),
    ("nanosleep", Kind::Timer, "time", "do_nanosleep <- hrtimer_nanosleep <- __x64_sys_nanosleep"),
    ("futex_", Kind::Futex, "a futex", "futex_wait_queue <- futex_wait <- __x64_sys_futex"),
];

/// System calls by number, for those who see no more than that: their name, and what a thread
/// sleeps for in them, in words.
pub(super) const CALLS: &[(i64, &str, Kind, &str)] = &[
    (libc::SYS_nanosleep, "nanosleep", Kind::Timer, "time"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep", Kind::Timer, "time"),
    (libc::SYS_read, "read", Kind::Call, ""),
    (libc::SYS_readv, "readv", Kind::Call, ""),
    (libc::SYS_write, "write", Kind::Call, ""),
    (libc::SYS_writev, "writev", Kind::Call, ""),
    (libc::SYS_pread64, "pread64", Kind::Disk, "a disk"),
    (libc::SYS_pwrite64, "pwrite64", Kind::Disk, "a disk"),
    (libc::SYS_fsync, "fsync", Kind::Disk, "a disk"),
    (libc::SYS_fdatasync, "fdatasync", Kind::Disk, "a disk"),
    (libc::SYS_msync, "msync", Kind::Disk, "a disk"),
    (libc::SYS_poll, "poll", Kind::Poll, "any of several files"),
    (libc::SYS_ppoll, "ppoll", Kind::Poll, "any of several files"),
    (libc::SYS_select, "select", Kind::Poll, "any of several files"),
    (libc::SYS_pselect6, "pselect6", Kind::Poll, "any of several files"),
    (libc::SYS_epoll_wait, "epoll_wait", Kind::Poll, "any of several files"),
    (libc::SYS_epoll_pwait, "epoll_pwait", Kind::Poll, "any of several files"),
    (libc::SYS_recvfrom, "recvfrom", Kind::Socket, "a socket"),
    (libc::SYS_recvmsg, "recvmsg", Kind::Socket, "a socket"),
    (libc::SYS_sendto, "sendto", Kind::Socket, "a socket"),
    (libc::SYS_sendmsg, "sendmsg", Kind::Socket, "a socket"),
    (libc::SYS_accept, "accept", Kind::Socket, "a socket"),
    (libc::SYS_accept4, "accept4", Kind::Socket, "a socket"),
    (libc::SYS_connect, "connect", Kind::Socket, "a socket"),
    (libc::SYS_wait4, "wait4", Kind::Child, "a process"),
    (libc::SYS_waitid, "waitid", Kind::Child, "a process"),
    (libc::SYS_vfork, "vfork", Kind::Child, "a process"),
    (libc::SYS_flock, "flock", Kind::FileLock, "a file lock"),
    (libc::SYS_fcntl, "fcntl", Kind::FileLock, "a file lock"),
    (libc::SYS_semop, "semop", Kind::SysV, "a SysV semaphore"),
    (libc::SYS_semtimedop, "semtimedop", Kind::SysV, "a SysV semaphore"),
    (libc::SYS_msgrcv, "msgrcv", Kind::Signal, "a message"),
    (libc::SYS_pause, "pause", Kind::Signal, "a signal"),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend", Kind::Signal, "a signal"),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait", Kind::Signal, "a signal"),
    (libc::SYS_mmap, "mmap", Kind::KernelLock, "the kernel's lock of the memory map"),
    (libc::SYS_munmap, "munmap", Kind::KernelLock, "the kernel's lock of the memory map"),
    (libc::SYS_mprotect, "mprotect", Kind::KernelLock, "the kernel's lock of the memory map"),
    (libc::SYS_brk, "brk", Kind::KernelLock, "the kernel's lock of the memory map"),
    (libc::SYS_madvise, "madvise", Kind::KernelLock, "the kernel's lock of the memory map"),
    (libc::SYS_mremap, "mremap", Kind::KernelLock, "the kernel's lock of the memory map"),
    (libc::SYS_futex, "futex", Kind::Futex, "a futex"),
    // Outside of any system call, only a fault makes a thread sleep.
    (-1, "page fault", Kind::Fault, "memory"),
];

/// What an open file is, by the beginning of the name that `/proc` has for it.
pub(super) const FILES: &[(&str, Kind, &str)] = &[
    ("pipe:", Kind::Pipe, "a pipe"),
    ("socket:", Kind::Socket, "a socket"),
    ("anon_inode:[eventfd]", Kind::Eventfd, "an eventfd"),
    ("anon_inode:[timerfd]", Kind::Timer, "a timer"),
    ("/dev/pts/", Kind::Terminal, "a terminal"),
    ("/dev/tty", Kind::Terminal, "a terminal"),
    ("/", Kind::Disk, "a disk"),
];
