/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_mutex_timedlock and pthread_mutex_clocklock (POSIX.1-2017 and Issue 8): deadlines, both clocks, errors. */
#include "mutex.h"

/* A timed call: pthread_mutex_timedlock, or pthread_mutex_clocklock on a clock. */
static const struct way {
	int is_timedlock;
	clockid_t clock;
} ways[] = { { 1, CLOCK_REALTIME }, { 0, CLOCK_REALTIME }, { 0, CLOCK_MONOTONIC } };

#define for_each_way(way) for (const struct way *way = ways; way < ways + 3; way++)

static int lock_until(const struct way *way, pthread_mutex_t *mutex, const struct timespec *at)
{
	return way->is_timedlock ? pthread_mutex_timedlock(mutex, at) : pthread_mutex_clocklock(mutex, way->clock, at);
}

/* A thread that holds a mutex until told otherwise. */
struct holder {
	pthread_mutex_t *mutex;
	pthread_barrier_t held;
	long release_after_ms; /* or 0: when `release` is unlocked */
	pthread_mutex_t release;
	pthread_t thread;
};

static void *hold(void *argument)
{
	struct holder *holder = argument;

	EQ(pthread_mutex_lock(holder->mutex), 0);
	pthread_barrier_wait(&holder->held);
	if (holder->release_after_ms != 0)
		pause_ms(holder->release_after_ms);
	else
		EQ(pthread_mutex_lock(&holder->release), 0);
	EQ(pthread_mutex_unlock(holder->mutex), 0);
	return NULL;
}

static void start_holder(struct holder *holder, pthread_mutex_t *mutex, long release_after_ms)
{
	holder->mutex = mutex;
	holder->release_after_ms = release_after_ms;
	EQ(pthread_barrier_init(&holder->held, NULL, 2), 0);
	EQ(pthread_mutex_init(&holder->release, NULL), 0);
	EQ(pthread_mutex_lock(&holder->release), 0);
	holder->thread = start(hold, holder);
	pthread_barrier_wait(&holder->held);
}

static void end_holder(struct holder *holder)
{
	EQ(pthread_mutex_unlock(&holder->release), 0);
	join(holder->thread);
}

CASE(times_out_and_not_early)
{
	for_each_type(type) {
		for_each_way(way) {
			pthread_mutex_t mutex = new_mutex(type);
			struct holder holder;
			struct timespec at;

			start_holder(&holder, &mutex, 0);
			at = in_ms(way->clock, 60);
			EQ(lock_until(way, &mutex, &at), ETIMEDOUT);
			CHECK(has_passed(way->clock, at));
			at = in_ms(way->clock, -1000);
			EQ(lock_until(way, &mutex, &at), ETIMEDOUT);
			at = (struct timespec){ -1, 0 };
			EQ(lock_until(way, &mutex, &at), ETIMEDOUT);
			end_holder(&holder);
			/* The waiters that gave up have left no trace. */
			EQ(pthread_mutex_trylock(&mutex), 0);
			EQ(pthread_mutex_unlock(&mutex), 0);
			EQ(pthread_mutex_destroy(&mutex), 0);
		}
	}
}

CASE(bad_nanoseconds_are_einval)
{
	static const long bad[] = { -1, 1000000000, 2000000000 };

	for_each_type(type) {
		for_each_way(way) {
			pthread_mutex_t mutex = new_mutex(type);
			struct holder holder;

			start_holder(&holder, &mutex, 0);
			for (int i = 0; i < 3; i++) {
				struct timespec at = in_ms(way->clock, 100000);

				at.tv_nsec = bad[i];
				EQ(lock_until(way, &mutex, &at), EINVAL);
			}
			end_holder(&holder);
		}
	}
}

CASE(bad_clock_is_einval)
{
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);
		struct timespec at = in_ms(CLOCK_REALTIME, 1000);

		EQ(pthread_mutex_clocklock(&mutex, CLOCK_PROCESS_CPUTIME_ID, &at), EINVAL);
		EQ(pthread_mutex_clocklock(&mutex, CLOCK_BOOTTIME, &at), EINVAL);
		EQ(pthread_mutex_clocklock(&mutex, 4711, &at), EINVAL);
		EQ(pthread_mutex_trylock(&mutex), 0);
	}
}

static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static volatile long count;
static atomic_long taken;

static void *contend(void *argument)
{
	long number = (long)argument;

	for (int i = 0; i < 2000; i++) {
		const struct way *way = &ways[(i + number) % 3];
		struct timespec at = in_ms(way->clock, 0);
		int error;

		at.tv_nsec += 50000;
		if (at.tv_nsec >= 1000000000) {
			at.tv_nsec -= 1000000000;
			at.tv_sec++;
		}
		error = number % 2 == 0 ? pthread_mutex_lock(&contended) : lock_until(way, &contended, &at);
		if (error == 0) {
			count++;
			atomic_fetch_add(&taken, 1);
			EQ(pthread_mutex_unlock(&contended), 0);
		} else {
			EQ(error, ETIMEDOUT);
		}
	}
	return NULL;
}

CASE(giving_up_among_others_that_wait)
{
	pthread_t threads[8];

	for (long i = 0; i < 8; i++)
		threads[i] = start(contend, (void *)i);
	for (int i = 0; i < 8; i++)
		join(threads[i]);
	EQ(count, taken);
	CHECK(count >= 4 * 2000);
	EQ(pthread_mutex_trylock(&contended), 0);
}

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static atomic_int enough;

static void *keep_taking(void *unused)
{
	while (!enough) {
		EQ(pthread_mutex_lock(&busy), 0);
		for (volatile int i = 0; i < 2000; i++)
			;
		EQ(pthread_mutex_unlock(&busy), 0);
	}
	return unused;
}

/* The mutex is never free for long, but the deadline is far away. */
CASE(a_timed_waiter_is_served_while_others_keep_coming)
{
	pthread_t others[3];

	for (int i = 0; i < 3; i++)
		others[i] = start(keep_taking, NULL);
	pause_ms(50);
	for (int i = 0; i < 3; i++) {
		struct timespec at = in_ms(CLOCK_REALTIME, 100000);

		EQ(pthread_mutex_timedlock(&busy, &at), 0);
		EQ(pthread_mutex_unlock(&busy), 0);
	}
	enough = 1;
	for (int i = 0; i < 3; i++)
		EQ(pthread_join(others[i], NULL), 0);
}
