/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The calls of the C library that wait, in front of the library's own, or of those of the next preloaded library.
 *
 * A call that need not wait is passed on, and tells nothing unless other threads wait for the same lock. Whether a lock
 * has to be waited for, the call that does not wait finds out. Each exported function ends in a call of its slow half
 * only where it waits, so the frame of the program's own function is never more than one further out.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <linux/prctl.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>

#include "tell.h"

#define EXPORT __attribute__((visibility("default")))
#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

/* The stamps between two releases that are told although the lock changes no hands: some milliseconds. */
#define OFTEN 20000000
/* The same where several threads can hold the lock. */
#define OFTEN_SHARED 200000

#define FUNCTIONS(X) \
	X(pthread_mutex_lock, (pthread_mutex_t *)) \
	X(pthread_mutex_trylock, (pthread_mutex_t *)) \
	X(pthread_mutex_timedlock, (pthread_mutex_t *, const struct timespec *)) \
	X(pthread_mutex_clocklock, (pthread_mutex_t *, clockid_t, const struct timespec *)) \
	X(pthread_mutex_unlock, (pthread_mutex_t *)) \
	X(mtx_lock, (mtx_t *)) \
	X(mtx_trylock, (mtx_t *)) \
	X(mtx_timedlock, (mtx_t *, const struct timespec *)) \
	X(mtx_unlock, (mtx_t *)) \
	X(pthread_rwlock_rdlock, (pthread_rwlock_t *)) \
	X(pthread_rwlock_tryrdlock, (pthread_rwlock_t *)) \
	X(pthread_rwlock_timedrdlock, (pthread_rwlock_t *, const struct timespec *)) \
	X(pthread_rwlock_clockrdlock, (pthread_rwlock_t *, clockid_t, const struct timespec *)) \
	X(pthread_rwlock_wrlock, (pthread_rwlock_t *)) \
	X(pthread_rwlock_trywrlock, (pthread_rwlock_t *)) \
	X(pthread_rwlock_timedwrlock, (pthread_rwlock_t *, const struct timespec *)) \
	X(pthread_rwlock_clockwrlock, (pthread_rwlock_t *, clockid_t, const struct timespec *)) \
	X(pthread_rwlock_unlock, (pthread_rwlock_t *)) \
	X(pthread_spin_lock, (pthread_spinlock_t *)) \
	X(pthread_spin_trylock, (pthread_spinlock_t *)) \
	X(pthread_spin_unlock, (pthread_spinlock_t *)) \
	X(pthread_barrier_wait, (pthread_barrier_t *)) \
	X(pthread_join, (pthread_t, void **)) \
	X(sched_yield, (void)) \
	X(sem_wait, (sem_t *)) \
	X(sem_timedwait, (sem_t *, const struct timespec *)) \
	X(sem_clockwait, (sem_t *, clockid_t, const struct timespec *)) \
	X(sem_post, (sem_t *)) \
	X(cnd_wait, (cnd_t *, mtx_t *)) \
	X(cnd_timedwait, (cnd_t *, mtx_t *, const struct timespec *)) \
	X(cnd_signal, (cnd_t *)) \
	X(cnd_broadcast, (cnd_t *)) \
	X(pthread_cond_clockwait, (pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))

/* There are older ones of another layout. */
#define VERSIONED(X) \
	X(pthread_cond_wait, (pthread_cond_t *, pthread_mutex_t *)) \
	X(pthread_cond_timedwait, (pthread_cond_t *, pthread_mutex_t *, const struct timespec *)) \
	X(pthread_cond_signal, (pthread_cond_t *)) \
	X(pthread_cond_broadcast, (pthread_cond_t *))

static struct {
#define POINTER(name, arguments) int(*name) arguments;
	FUNCTIONS(POINTER)
	VERSIONED(POINTER)
	long (*syscall)(long, long, long, long, long, long, long);
} next;

static _Atomic bool is_ready;
bool is_libcs;

/* Another address until the dynamic linker has relocated this library. */
static void *volatile relocated = (void *)&relocated;

bool prepare(void)
{
	Dl_info file;

	if (relocated != (void *)&relocated)
		return false;
#define FIND(name, arguments) next.name = (int(*) arguments)dlsym(RTLD_NEXT, #name);
	FUNCTIONS(FIND)
#define FIND_VERSION(name, arguments) next.name = (int(*) arguments)dlvsym(RTLD_NEXT, #name, "GLIBC_2.3.2");
	VERSIONED(FIND_VERSION)
	next.syscall = (long (*)(long, long, long, long, long, long, long))dlsym(RTLD_NEXT, "syscall");
	start_stamps();
	find_sleeps();
	/* Before 2.34, the C library has its threads in a file of their own. */
	is_libcs = dladdr((void *)next.pthread_rwlock_unlock, &file) != 0 &&
		   (strstr(file.dli_fname, "libc.so") != NULL || strstr(file.dli_fname, "libpthread") != NULL);
	/* ORDERING: pairs with the load in READY: the pointers come first. */
	atomic_store_explicit(&is_ready, true, memory_order_release);
	return true;
}

#define READY \
	if (unlikely(!atomic_load_explicit(&is_ready, memory_order_acquire)) && !prepare()) \
		return 0

__attribute__((constructor)) static void start(void)
{
	prepare();
	tell_start();
	pthread_atfork(NULL, NULL, tell_forked);
}

#define HERE __builtin_return_address(0), __builtin_frame_address(0)

static inline void has_taken(enum kind kind, const volatile void *lock)
{
	struct waited *entry = waited(kind, lock);

	if (kind == WRITER)
		has_it_to_write(lock);
	if (unlikely(entry != NULL))
		tell_takes(entry, kind, lock);
}


/*
 * Exports a call that takes a lock: `try` finds out whether it has to wait, which the error `busy` says. A time that
 * libc would refuse is passed on at once.
 */
#define TAKES_LOCK(name, try, busy, kind, is_fine, parameters, arguments) \
	static SLOW int name##_slow parameters \
	{ \
		struct wait wait = tell_waits(kind, lock, NULL, HERE); \
		int error = next.name arguments; \
 \
		tell_leaves(&wait, error == 0 || error == EOWNERDEAD); \
		return error; \
	} \
 \
	EXPORT int name parameters \
	{ \
		int error; \
 \
		READY; \
		if (!(is_fine)) \
			return next.name arguments; \
		error = next.try(lock); \
		if (unlikely(error == (busy))) \
			return name##_slow arguments; \
		if (likely(error == 0) && (kind) != READER) \
			has_taken(kind, lock); \
		return error; \
	}

#define TRIES_LOCK(name, kind, type) \
	EXPORT int name(type *lock) \
	{ \
		int error; \
 \
		READY; \
		error = next.name(lock); \
		if (likely(error == 0)) \
			has_taken(kind, lock); \
		return error; \
	}

#define RELEASES_LOCK(name, kind, type, period) \
	static SLOW int name##_slow(type *lock, struct waited *entry) \
	{ \
		tell_releases(entry, kind, lock, period, HERE); \
		return next.name(lock); \
	} \
 \
	EXPORT int name(type *lock) \
	{ \
		struct waited *entry; \
 \
		READY; \
		kept_since = NULL; \
		entry = waited(kind, lock); \
		return unlikely(entry != NULL) ? name##_slow(lock, entry) : next.name(lock); \
	}

#define WAKES(name, kind, type, all) \
	static SLOW int name##_slow(type *lock) \
	{ \
		tell_wakes(kind, lock, all, HERE); \
		return next.name(lock); \
	} \
 \
	EXPORT int name(type *lock) \
	{ \
		READY; \
		return unlikely(waited(kind, lock) != NULL) ? name##_slow(lock) : next.name(lock); \
	}

static inline bool is_time(const struct timespec *at)
{
	return at->tv_nsec >= 0 && at->tv_nsec < 1000000000;
}

static inline bool is_clock(clockid_t clock)
{
	return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
}

TAKES_LOCK(pthread_mutex_lock, pthread_mutex_trylock, EBUSY, MUTEX, true, (pthread_mutex_t * lock),
	   (lock))
TAKES_LOCK(pthread_mutex_timedlock, pthread_mutex_trylock, EBUSY, MUTEX, true,
	   (pthread_mutex_t * lock, const struct timespec *at), (lock, at))
TAKES_LOCK(pthread_mutex_clocklock, pthread_mutex_trylock, EBUSY, MUTEX, is_clock(clock),
	   (pthread_mutex_t * lock, clockid_t clock, const struct timespec *at), (lock, clock, at))
TRIES_LOCK(pthread_mutex_trylock, MUTEX, pthread_mutex_t)
RELEASES_LOCK(pthread_mutex_unlock, MUTEX, pthread_mutex_t, OFTEN)

TAKES_LOCK(mtx_lock, mtx_trylock, thrd_busy, MUTEX, true, (mtx_t * lock), (lock))
TAKES_LOCK(mtx_timedlock, mtx_trylock, thrd_busy, MUTEX, true, (mtx_t * lock, const struct timespec *at),
	   (lock, at))
TRIES_LOCK(mtx_trylock, MUTEX, mtx_t)
RELEASES_LOCK(mtx_unlock, MUTEX, mtx_t, OFTEN)

TAKES_LOCK(pthread_rwlock_rdlock, pthread_rwlock_tryrdlock, EBUSY, READER, true,
	   (pthread_rwlock_t * lock), (lock))
TAKES_LOCK(pthread_rwlock_timedrdlock, pthread_rwlock_tryrdlock, EBUSY, READER, is_time(at),
	   (pthread_rwlock_t * lock, const struct timespec *at), (lock, at))
TAKES_LOCK(pthread_rwlock_clockrdlock, pthread_rwlock_tryrdlock, EBUSY, READER,
	   is_clock(clock) && is_time(at), (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *at),
	   (lock, clock, at))
TAKES_LOCK(pthread_rwlock_wrlock, pthread_rwlock_trywrlock, EBUSY, WRITER, true,
	   (pthread_rwlock_t * lock), (lock))
TAKES_LOCK(pthread_rwlock_timedwrlock, pthread_rwlock_trywrlock, EBUSY, WRITER, is_time(at),
	   (pthread_rwlock_t * lock, const struct timespec *at), (lock, at))
TAKES_LOCK(pthread_rwlock_clockwrlock, pthread_rwlock_trywrlock, EBUSY, WRITER,
	   is_clock(clock) && is_time(at), (pthread_rwlock_t * lock, clockid_t clock, const struct timespec *at),
	   (lock, clock, at))
TRIES_LOCK(pthread_rwlock_trywrlock, WRITER, pthread_rwlock_t)

/* The C library names a lock's writer until the writer begins to release it. Of other locks, that is not known. */
static SLOW int pthread_rwlock_unlock_slow(pthread_rwlock_t *lock, enum kind kind, struct waited *entry)
{
	tell_releases(entry, kind, lock, OFTEN_SHARED, HERE);
	return next.pthread_rwlock_unlock(lock);
}

EXPORT int pthread_rwlock_unlock(pthread_rwlock_t *lock)
{
	enum kind kind;
	struct waited *entry;

	READY;
	kind = is_libcs && lock->__data.__cur_writer == 0 ? READER : WRITER;
	entry = waited(kind, lock);
	return unlikely(entry != NULL) ? pthread_rwlock_unlock_slow(lock, kind, entry) : next.pthread_rwlock_unlock(lock);
}

TAKES_LOCK(pthread_spin_lock, pthread_spin_trylock, EBUSY, SPIN, true, (pthread_spinlock_t * lock),
	   (lock))
TRIES_LOCK(pthread_spin_trylock, SPIN, pthread_spinlock_t)
RELEASES_LOCK(pthread_spin_unlock, SPIN, pthread_spinlock_t, OFTEN)

WAKES(pthread_cond_signal, CONDVAR, pthread_cond_t, false)
WAKES(pthread_cond_broadcast, CONDVAR, pthread_cond_t, true)
WAKES(cnd_signal, CONDVAR, cnd_t, false)
WAKES(cnd_broadcast, CONDVAR, cnd_t, true)
WAKES(sem_post, SEMAPHORE, sem_t, false)

/* Exports a wait for a condition. The mutex is released before it, and taken after it. */
#define WAITS_FOR_CONDITION(name, parameters, arguments) \
	EXPORT int name parameters \
	{ \
		struct waited *entry; \
		struct wait wait; \
		int error; \
 \
		READY; \
		entry = waited(MUTEX, mutex); \
		if (unlikely(entry != NULL)) \
			tell_releases(entry, MUTEX, mutex, OFTEN, HERE); \
		wait = tell_waits(CONDVAR, lock, mutex, HERE); \
		error = next.name arguments; \
		tell_leaves(&wait, error == 0); \
		kept_since = lock; \
		has_taken(MUTEX, mutex); \
		return error; \
	}

WAITS_FOR_CONDITION(pthread_cond_wait, (pthread_cond_t * lock, pthread_mutex_t *mutex),
		    (lock, mutex))
WAITS_FOR_CONDITION(pthread_cond_timedwait,
		    (pthread_cond_t * lock, pthread_mutex_t *mutex, const struct timespec *at), (lock, mutex, at))
WAITS_FOR_CONDITION(pthread_cond_clockwait,
		    (pthread_cond_t * lock, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *at),
		    (lock, mutex, clock, at))
WAITS_FOR_CONDITION(cnd_wait, (cnd_t * lock, mtx_t *mutex), (lock, mutex))
WAITS_FOR_CONDITION(cnd_timedwait, (cnd_t * lock, mtx_t *mutex, const struct timespec *at),
		    (lock, mutex, at))

/* Exports another wait; the whole call is passed on if it need not wait. */
#define WAITS_FOR(name, kind, object, waits, gets, parameters, arguments) \
	EXPORT int name parameters \
	{ \
		struct wait wait; \
		int error; \
 \
		READY; \
		if (!(waits)) \
			return next.name arguments; \
		wait = tell_waits(kind, (const volatile void *)(object), NULL, HERE); \
		error = next.name arguments; \
		tell_leaves(&wait, (gets) && error == 0); \
		return error; \
	}

static inline bool is_zero(sem_t *semaphore)
{
	int value = 0;

	return sem_getvalue(semaphore, &value) == 0 && value <= 0;
}

WAITS_FOR(sem_wait, SEMAPHORE, lock, is_zero(lock), true, (sem_t * lock), (lock))
WAITS_FOR(sem_timedwait, SEMAPHORE, lock, is_zero(lock), true, (sem_t * lock, const struct timespec *at), (lock, at))
WAITS_FOR(sem_clockwait, SEMAPHORE, lock, is_zero(lock), true,
	  (sem_t * lock, clockid_t clock, const struct timespec *at), (lock, clock, at))
WAITS_FOR(pthread_barrier_wait, BARRIER, lock, true, false, (pthread_barrier_t * lock), (lock))
WAITS_FOR(pthread_join, JOIN, thread, true, false, (pthread_t thread, void **result), (thread, result))

/* A thread that yields again and again waits on its processor, and mostly in the kernel, where no sample is taken. */
EXPORT int sched_yield(void)
{
	int error;

	READY;
	tell_yields(HERE);
	error = next.sched_yield();
	tell_yielded();
	return error;
}

/* Locks that wait by the system call itself: of Rust's standard library, of parking_lot, and C++'s atomics. */
static SLOW long futex(long number, long at, long op, long value, long until, long other, long more)
{
	const volatile void *word = (void *)(at | (op & FUTEX_PRIVATE_FLAG ? 0 : (long)SHARED));
	struct waited *entry;
	struct wait wait;
	long result;

	switch (op & FUTEX_CMD_MASK) {
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
	case FUTEX_LOCK_PI:
		wait = tell_waits(FUTEX, word, (void *)((op & FUTEX_CMD_MASK) << 32 | (uint32_t)value), HERE);
		result = next.syscall(number, at, op, value, until, other, more);
		tell_leaves(&wait, result == 0);
		return result;
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET:
	case FUTEX_UNLOCK_PI:
		entry = waited(FUTEX, word);
		if (entry != NULL)
			tell_releases(entry, FUTEX, word, value > 1 ? ALL : 1, HERE);
	}
	return next.syscall(number, at, op, value, until, other, more);
}

EXPORT long syscall(long number, long one, long two, long three, long four, long five, long six)
{
	uint64_t began;
	long result;

	READY;
	if (unlikely(number == SYS_futex))
		return futex(number, one, two, three, four, five, six);
	if (unlikely(number == SYS_seccomp || number == SYS_prctl))
		leave_sleeps();
	began = stamp();
	result = next.syscall(number, one, two, three, four, five, six);
	if (unlikely(stamp() - began > LONG))
		tell_slept((uint32_t)number, (uint64_t)one, began, HERE, result);
	return result;
}

/* A program may forbid itself the processor's counter, and most calls. */
EXPORT int prctl(int option, unsigned long two, unsigned long three, unsigned long four, unsigned long five)
{
	READY;
	if (option == PR_SET_SECCOMP || option == PR_SET_TSC)
		leave_sleeps();
	return (int)next.syscall(SYS_prctl, option, (long)two, (long)three, (long)four, (long)five, 0);
}

/* libc has older functions of these names, of another layout, which programs of 2003 get. */
#define VERSION(name, arguments) __asm__(".symver " #name ", " #name "@@@GLIBC_2.3.2");
VERSIONED(VERSION)
