/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * C11's mutexes and condition variables (C17, 7.26), where they are not pthread's by another name: what they return,
 * and which kinds there are.
 */
#include "posix.h"

#include <setjmp.h>
#include <threads.h>

static const int kinds[] = { mtx_plain, mtx_timed, mtx_plain | mtx_recursive, mtx_timed | mtx_recursive };

/* Runs a block for every kind of mutex, with a fresh one of it. */
#define for_each_kind(kind, mutex)                                                                         \
	for (int i_##kind = 0, kind; i_##kind < 4 && (kind = kinds[i_##kind], init(&(mutex), kind), 1); \
	     i_##kind++, mtx_destroy(&(mutex)))

static mtx_t mutex;
static cnd_t cond;
static atomic_int arrived, inside;

static void init(mtx_t *which, int kind)
{
	memset(which, 0xa5, sizeof *which);
	EQ(mtx_init(which, kind), thrd_success);
}

static void *try_it(void *unused)
{
	int result = mtx_trylock(&mutex);

	(void)unused;
	if (result == thrd_success)
		EQ(mtx_unlock(&mutex), thrd_success);
	return (void *)(long)result;
}

CASE(lock_trylock_unlock)
{
	for_each_kind(kind, mutex) {
		EQ(elsewhere(try_it, NULL), thrd_success);
		EQ(mtx_lock(&mutex), thrd_success);
		EQ(elsewhere(try_it, NULL), thrd_busy);
		EQ(mtx_trylock(&mutex), kind & mtx_recursive ? thrd_success : thrd_busy);
		if (kind & mtx_recursive) {
			EQ(mtx_unlock(&mutex), thrd_success);
			EQ(elsewhere(try_it, NULL), thrd_busy);
		}
		EQ(mtx_unlock(&mutex), thrd_success);
		EQ(elsewhere(try_it, NULL), thrd_success);
	}
}

static void *unlock_it(void *unused)
{
	(void)unused;
	return (void *)(long)mtx_unlock(&mutex);
}

CASE(a_recursive_mutex_knows_its_owner)
{
	init(&mutex, mtx_recursive);
	EQ(mtx_lock(&mutex), thrd_success);
	EQ(mtx_lock(&mutex), thrd_success);
	EQ(elsewhere(unlock_it, NULL), thrd_error);
	EQ(mtx_unlock(&mutex), thrd_success);
	EQ(mtx_unlock(&mutex), thrd_success);
	EQ(mtx_unlock(&mutex), thrd_error);
}

static struct timespec utc_in_ms(long ms)
{
	return in_ms(CLOCK_REALTIME, ms);
}

static void *time_out(void *unused)
{
	struct timespec at = utc_in_ms(50);

	(void)unused;
	EQ(mtx_timedlock(&mutex, &at), thrd_timedout);
	CHECK(has_passed(CLOCK_REALTIME, at));
	at = utc_in_ms(-1000);
	EQ(mtx_timedlock(&mutex, &at), thrd_timedout);
	at.tv_nsec = 1000000000;
	EQ(mtx_timedlock(&mutex, &at), thrd_error);
	return NULL;
}

/* Two waits that time out, of each kind. */
CASE(a_timed_lock_times_out_and_not_early)
{
	for_each_kind(kind, mutex) {
		struct timespec at = utc_in_ms(-1000);

		EQ(mtx_timedlock(&mutex, &at), thrd_success);
		elsewhere(time_out, NULL);
		EQ(mtx_unlock(&mutex), thrd_success);
	}
}

static void *lock_in_time(void *unused)
{
	struct timespec at = utc_in_ms(100000);

	arrived++;
	EQ(mtx_timedlock(&mutex, &at), thrd_success);
	EQ(mtx_unlock(&mutex), thrd_success);
	return unused;
}

static void *lock_it(void *unused)
{
	arrived++;
	EQ(mtx_lock(&mutex), thrd_success);
	CHECK(!inside);
	EQ(mtx_unlock(&mutex), thrd_success);
	return unused;
}

static void until_blocked(int threads)
{
	while (arrived < threads)
		pause_ms(1);
	pause_ms(50);
}

/* Two threads wait for a mutex, of each kind. */
CASE(waiters_get_the_mutex)
{
	for_each_kind(kind, mutex) {
		pthread_t threads[2];

		arrived = 0;
		EQ(mtx_lock(&mutex), thrd_success);
		inside = 1;
		threads[0] = start(lock_it, NULL);
		threads[1] = start(lock_in_time, NULL);
		until_blocked(2);
		inside = 0;
		EQ(mtx_unlock(&mutex), thrd_success);
		join(threads[0]);
		join(threads[1]);
	}
}

static volatile long count;

static void *count_to(void *rounds)
{
	for (long i = 0; i < (long)rounds; i++) {
		EQ(mtx_lock(&mutex), thrd_success);
		CHECK(!inside);
		inside = 1;
		if (count % 256 == 0)
			thrd_yield();
		count++;
		inside = 0;
		EQ(mtx_unlock(&mutex), thrd_success);
	}
	return NULL;
}

static void count_with_threads(void)
{
	pthread_t threads[4];

	count = 0;
	for (int i = 0; i < 4; i++)
		threads[i] = start(count_to, (void *)10000);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	EQ(count, 40000);
}

CASE(threads_exclude_each_other)
{
	for_each_kind(kind, mutex)
		count_with_threads();
}

static int permits;

static int wait_by(int timed)
{
	struct timespec at = utc_in_ms(100000);

	return timed ? cnd_timedwait(&cond, &mutex, &at) : cnd_wait(&cond, &mutex);
}

static void *wait_for_a_permit(void *timed)
{
	EQ(mtx_lock(&mutex), thrd_success);
	arrived++;
	while (permits == 0)
		EQ(wait_by(timed != NULL), thrd_success);
	permits--;
	EQ(mtx_unlock(&mutex), thrd_success);
	return NULL;
}

static void give(int number, int (*wake)(cnd_t *))
{
	EQ(mtx_lock(&mutex), thrd_success);
	permits += number;
	EQ(mtx_unlock(&mutex), thrd_success);
	EQ(wake(&cond), thrd_success);
}

static void until_taken(void)
{
	for (int left = 1; left > 0; pause_ms(1)) {
		EQ(mtx_lock(&mutex), thrd_success);
		left = permits;
		EQ(mtx_unlock(&mutex), thrd_success);
	}
}

/* Four waits, of two kinds, for either kind of mutex. */
CASE(conditions_wake)
{
	for (int kind = mtx_plain; kind <= mtx_recursive; kind += mtx_recursive) {
		pthread_t threads[4];

		init(&mutex, kind);
		EQ(cnd_init(&cond), thrd_success);
		EQ(cnd_signal(&cond), thrd_success);
		EQ(cnd_broadcast(&cond), thrd_success);
		arrived = 0;
		for (long i = 0; i < 4; i++)
			threads[i] = start(wait_for_a_permit, i % 2 ? &cond : NULL);
		until_blocked(4);
		give(1, cnd_signal);
		until_taken();
		give(3, cnd_broadcast);
		for (int i = 0; i < 4; i++)
			join(threads[i]);
		cnd_destroy(&cond);
		mtx_destroy(&mutex);
	}
}

CASE(a_timed_wait_times_out_and_not_early)
{
	struct timespec at = utc_in_ms(50);
	int result;

	init(&mutex, mtx_plain);
	EQ(cnd_init(&cond), thrd_success);
	EQ(mtx_lock(&mutex), thrd_success);
	while ((result = cnd_timedwait(&cond, &mutex, &at)) == thrd_success)
		;
	EQ(result, thrd_timedout);
	CHECK(has_passed(CLOCK_REALTIME, at));
	at.tv_nsec = -1;
	EQ(cnd_timedwait(&cond, &mutex, &at), thrd_error);
	EQ(elsewhere(try_it, NULL), thrd_busy);
	EQ(mtx_unlock(&mutex), thrd_success);
}

static atomic_int cleaned;

static void clean_up(void *unused)
{
	(void)unused;
	EQ(mtx_unlock(&mutex), thrd_success);
	cleaned++;
}

static void *be_cancelled(void *timed)
{
	EQ(mtx_lock(&mutex), thrd_success);
	pthread_cleanup_push(clean_up, NULL);
	arrived++;
	for (;;)
		EQ(wait_by(timed != NULL), thrd_success);
	pthread_cleanup_pop(0);
	return NULL;
}

/* In glibc both waits are cancellation points, and a thrd_t is a pthread_t. */
CASE(a_wait_is_cancelled_with_the_mutex)
{
	init(&mutex, mtx_recursive);
	EQ(cnd_init(&cond), thrd_success);
	for (int timed = 0; timed < 2; timed++) {
		pthread_t thread;

		arrived = 0;
		thread = start(be_cancelled, timed ? &cond : NULL);
		until_blocked(1);
		EQ(pthread_cancel(thread), 0);
		CHECK(join(thread) == PTHREAD_CANCELED);
		EQ(cleaned, timed + 1);
		EQ(mtx_trylock(&mutex), thrd_success);
		EQ(mtx_unlock(&mutex), thrd_success);
	}
}

static __thread sigjmp_buf out;

static void jump_out(int number)
{
	siglongjmp(out, number);
}

static void *wait_and_jump(void *unused)
{
	if (sigsetjmp(out, 1) == 0) {
		arrived++;
		mtx_lock(&mutex);
		fail(__FILE__, __LINE__, "the mutex was free");
	}
	return unused;
}

CASE(a_waiter_jumps_out)
{
	struct sigaction action = { .sa_handler = jump_out };

	EQ(sigaction(SIGUSR1, &action, NULL), 0);
	for_each_kind(kind, mutex) {
		pthread_t jumper, waiter;

		arrived = 0;
		EQ(mtx_lock(&mutex), thrd_success);
		jumper = start(wait_and_jump, NULL);
		until_blocked(1);
		waiter = start(lock_it, NULL);
		until_blocked(2);
		EQ(pthread_kill(jumper, SIGUSR1), 0);
		join(jumper);
		EQ(mtx_unlock(&mutex), thrd_success);
		join(waiter);
		count_with_threads();
	}
}

/* libc's waiters leave a mark in a mutex, which does no harm in a child; ours are in a queue there. */
CASE(a_child_unlocks_what_others_waited_for)
{
	pthread_t threads[3];
	pid_t child;

	init(&mutex, mtx_plain);
	EQ(mtx_lock(&mutex), thrd_success);
	for (int i = 0; i < 3; i++)
		threads[i] = start(lock_it, NULL);
	until_blocked(3);
	child = fork();
	EQ(mtx_unlock(&mutex), thrd_success);
	if (child == 0) {
		count_with_threads();
		_exit(0);
	}
	expect_success(child);
	for (int i = 0; i < 3; i++)
		join(threads[i]);
}
