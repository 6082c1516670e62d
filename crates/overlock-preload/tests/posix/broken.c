/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Deliberately broken pthread calls, to show that the cases notice. Preloaded before libc; the environment variable
 * BROKEN names the one fault there is, and every call that it does not concern is libc's.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static int is(const char *fault)
{
	const char *chosen = getenv("BROKEN");

	return chosen != NULL && strcmp(chosen, fault) == 0;
}

/* libc's function of the same name, and version where there are several. */
#define REAL(name, version)                                                                   \
	static __typeof__(&name) real;                                                        \
	if (real == NULL)                                                                     \
	real = (__typeof__(&name))(version[0] != 0 ? dlvsym(RTLD_NEXT, #name, version) :      \
						     dlsym(RTLD_NEXT, #name))
#define COND "GLIBC_2.3.2"

static void nap(void)
{
	struct timespec time = { 0, 1000000 };

	nanosleep(&time, NULL);
}

/* A first-come-first-served lock that ignores forks and jumps: `next` in __lock, `serving` in __count. */
static void ticket_lock(pthread_mutex_t *mutex)
{
	unsigned mine = atomic_fetch_add((atomic_uint *)&mutex->__data.__lock, 1);

	while (atomic_load((atomic_uint *)&mutex->__data.__count) != mine)
		nap();
}

/* A lock whose unlock looks for the holder first and counts down then, so that two at once count down twice. */
static int counting_trylock(pthread_mutex_t *mutex)
{
	int free = 0;

	if (!atomic_compare_exchange_strong((atomic_int *)&mutex->__data.__lock, &free, 1))
		return EBUSY;
	atomic_store((atomic_int *)&mutex->__data.__owner, 1);
	return 0;
}

static int counting_lock(pthread_mutex_t *mutex)
{
	while (counting_trylock(mutex) != 0)
		nap();
	return 0;
}

static int counting_unlock(pthread_mutex_t *mutex)
{
	if (atomic_load((atomic_int *)&mutex->__data.__owner) == 0)
		return 0;
	/* Time for another that finds the holder too. */
	sched_yield();
	atomic_store((atomic_int *)&mutex->__data.__owner, 0);
	atomic_fetch_sub((atomic_int *)&mutex->__data.__lock, 1);
	return 0;
}

static __thread int has_jumped;

void siglongjmp(sigjmp_buf target, int value)
{
	static void (*real)(sigjmp_buf, int) __attribute__((noreturn));

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "siglongjmp");
	has_jumped = 1;
	real(target, value);
}

/* Waits until the lock is free and the thread has never jumped. */
static int lock_unless_jumped(pthread_mutex_t *mutex)
{
	while (has_jumped || pthread_mutex_trylock(mutex) != 0)
		nap();
	return 0;
}

/* The mutex that a thread has locked last, for a child that takes it for its own. */
static pthread_mutex_t *last;

static void clean_last(void)
{
	if (last != NULL)
		*(volatile int *)&last->__data.__lock = 0;
}

static void begin_tickets_anew(void)
{
	if (last != NULL)
		*(volatile unsigned *)&last->__data.__count = 0;
	clean_last();
}

static int has_tickets(void)
{
	return is("vanished_waiters_keep_their_tickets") || is("children_begin_tickets_anew");
}

__attribute__((constructor)) static void prepare(void)
{
	pthread_key_t key;

	if (is("children_clean_every_mutex"))
		pthread_atfork(NULL, NULL, clean_last);
	if (is("children_begin_tickets_anew"))
		pthread_atfork(NULL, NULL, begin_tickets_anew);
	if (is("a_key_is_taken"))
		pthread_key_create(&key, NULL);
}

int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	REAL(pthread_mutex_lock, "");
	int error;

	if (is("lock_does_nothing"))
		return 0;
	if (has_tickets()) {
		last = mutex;
		ticket_lock(mutex);
		return 0;
	}
	if (is("any_jump_ends_a_wait"))
		return lock_unless_jumped(mutex);
	if (is("children_clean_every_mutex"))
		last = mutex;
	if (is("lock_calls_membarrier"))
		syscall(SYS_membarrier, 0, 0, 0);
	if (is("lock_asks_for_the_thread"))
		syscall(SYS_gettid);
	if (is("two_unlocks_count_twice"))
		return counting_lock(mutex);
	if (is("recursion_without_limit") && mutex->__data.__count == UINT_MAX)
		return 0;
	error = real(mutex);
	if (is("lock_clobbers_errno"))
		errno = EAGAIN;
	if (is("relock_is_allowed") && error == EDEADLK)
		return 0;
	if (is("dead_owner_is_not_reported") && error == EOWNERDEAD)
		return 0;
	return error;
}

int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	REAL(pthread_mutex_trylock, "");
	int error = is("two_unlocks_count_twice") ? counting_trylock(mutex) : real(mutex);

	if (is("trylock_always_succeeds"))
		return 0;
	return is("trylock_has_the_wrong_error") && error == EBUSY ? EAGAIN : error;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
	REAL(pthread_mutex_unlock, "");
	int error;

	if (has_tickets()) {
		atomic_fetch_add((atomic_uint *)&mutex->__data.__count, 1);
		return 0;
	}
	if (is("two_unlocks_count_twice"))
		return counting_unlock(mutex);
	error = real(mutex);
	if (is("unlock_touches_the_mutex_afterwards")) {
		nap();
		*(volatile short *)&mutex->__data.__spins = 1;
	}
	return is("unlock_by_anybody") && error == EPERM ? 0 : error;
}

int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *at)
{
	REAL(pthread_mutex_timedlock, "");
	struct timespec fixed = *at;

	if (is("deadline_is_forgotten"))
		return pthread_mutex_lock(mutex);
	if (is("deadline_comes_early"))
		return pthread_mutex_trylock(mutex) == 0 ? 0 : ETIMEDOUT;
	if (is("nanoseconds_are_not_checked"))
		fixed.tv_nsec = (fixed.tv_nsec % 1000000000 + 1000000000) % 1000000000;
	return real(mutex, &fixed);
}

int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock, const struct timespec *at)
{
	REAL(pthread_mutex_clocklock, "");

	if (is("clocks_are_confused"))
		clock = CLOCK_REALTIME;
	if (is("clock_is_not_checked") && clock != CLOCK_MONOTONIC)
		clock = CLOCK_REALTIME;
	return real(mutex, clock, at);
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	REAL(pthread_cond_wait, COND);
	int error, state;

	if (is("wait_never_releases_the_mutex"))
		return 0;
	if (is("cancelled_without_the_mutex")) {
		pthread_mutex_unlock(mutex);
		nap();
		return pthread_mutex_lock(mutex);
	}
	if (is("wait_is_no_cancellation_point") || is("cancelled_waiter_keeps_its_signal")) {
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
		error = real(cond, mutex);
		pthread_setcancelstate(state, &state);
		if (is("cancelled_waiter_keeps_its_signal"))
			pthread_testcancel();
		return error;
	}
	error = real(cond, mutex);
	if (is("wait_returns_without_the_mutex"))
		pthread_mutex_unlock(mutex);
	if (is("woken_waiter_touches_the_condition_late")) {
		nap();
		(void)*(volatile unsigned *)&cond->__data.__wrefs;
	}
	return error;
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *at)
{
	REAL(pthread_cond_timedwait, COND);
	int error;

	if (is("timed_wait_times_out_early"))
		return ETIMEDOUT;
	error = real(cond, mutex, at);
	return is("timed_wait_hides_its_timeout") && error == ETIMEDOUT ? 0 : error;
}

int pthread_cond_signal(pthread_cond_t *cond)
{
	REAL(pthread_cond_signal, COND);
	static atomic_long count;

	if (is("signal_does_nothing"))
		return 0;
	if (is("one_signal_in_twenty_is_lost") && atomic_fetch_add(&count, 1) % 20 == 19)
		return 0;
	if (is("shared_condition_is_private") && cond->__data.__wrefs & 1)
		return 0;
	return real(cond);
}

int pthread_cond_broadcast(pthread_cond_t *cond)
{
	REAL(pthread_cond_broadcast, COND);

	if (is("shared_condition_is_private") && cond->__data.__wrefs & 1)
		return 0;
	return is("broadcast_wakes_one") ? pthread_cond_signal(cond) : real(cond);
}

/* A call that a fault replaces by a result. */
#define REPLACED(name, parameters, arguments, fault, result)       \
	int name parameters                                        \
	{                                                          \
		REAL(name, "");                                    \
                                                                   \
		return is(fault) ? (result) : real arguments;      \
	}

/* A call of which a fault changes one result. */
#define CHANGED(name, parameters, arguments, fault, from, to)       \
	int name parameters                                         \
	{                                                           \
		REAL(name, "");                                     \
		int result = real arguments;                        \
                                                                    \
		return is(fault) && result == (from) ? (to) : result; \
	}

CHANGED(pthread_mutex_destroy, (pthread_mutex_t *mutex), (mutex), "destroy_of_locked_is_allowed", EBUSY, 0)
REPLACED(pthread_spin_lock, (pthread_spinlock_t *spin), (spin), "spin_lock_does_nothing", 0)
CHANGED(pthread_spin_trylock, (pthread_spinlock_t *spin), (spin), "spin_trylock_has_the_wrong_error", EBUSY, EAGAIN)
REPLACED(pthread_rwlock_wrlock, (pthread_rwlock_t *lock), (lock), "rwlock_does_nothing", 0)
REPLACED(pthread_rwlock_rdlock, (pthread_rwlock_t *lock), (lock), "rwlock_does_nothing", 0)
CHANGED(pthread_rwlock_timedwrlock, (pthread_rwlock_t *lock, const struct timespec *at), (lock, at),
	"rwlock_hides_its_timeout", ETIMEDOUT, 0)
REPLACED(sem_wait, (sem_t *semaphore), (semaphore), "semaphore_does_nothing", 0)
REPLACED(mtx_lock, (mtx_t *mutex), (mutex), "mtx_does_nothing", thrd_success)
CHANGED(mtx_trylock, (mtx_t *mutex), (mutex), "mtx_passes_error_numbers_on", thrd_busy, EBUSY)
REPLACED(mtx_unlock, (mtx_t *mutex), (mutex), "mtx_does_nothing", thrd_success)
REPLACED(cnd_signal, (cnd_t *cond), (cond), "cnd_signal_does_nothing", thrd_success)
REPLACED(cnd_timedwait, (cnd_t *cond, mtx_t *mutex, const struct timespec *at), (cond, mutex, at),
	 "cnd_times_out_early", thrd_timedout)

int mtx_timedlock(mtx_t *mutex, const struct timespec *at)
{
	REAL(mtx_timedlock, "");

	if (is("mtx_deadline_comes_early"))
		return mtx_trylock(mutex) == thrd_success ? thrd_success : thrd_timedout;
	return real(mutex, at);
}

int pthread_barrier_wait(pthread_barrier_t *barrier)
{
	REAL(pthread_barrier_wait, "");
	int result;

	if (is("barrier_does_nothing"))
		return 0;
	result = real(barrier);
	if (is("barrier_is_touched_late") && result == 0) {
		usleep(1000);
		(void)*(volatile int *)barrier;
	}
	return is("barrier_has_two_serial_threads") ? PTHREAD_BARRIER_SERIAL_THREAD : result;
}
