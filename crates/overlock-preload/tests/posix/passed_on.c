/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that stay libc's: read-write locks, semaphores and barriers. Each case makes a thread wait a number of times
 * that library.rs knows, or none.
 */
#include "posix.h"

#include <limits.h>
#include <semaphore.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int arrived, inside, cleaned;

/* Waits until another thread is blocked in the kernel, which shows in its state. */
static void until_blocked(void)
{
	while (arrived == 0)
		pause_ms(1);
	pause_ms(100);
}

enum way { PLAIN, TIMED, CLOCKED };

static int lock_by(enum way way, int write)
{
	struct timespec at = in_ms(way == CLOCKED ? CLOCK_MONOTONIC : CLOCK_REALTIME, 100000);

	switch (way) {
	case TIMED:
		return write ? pthread_rwlock_timedwrlock(&lock, &at) : pthread_rwlock_timedrdlock(&lock, &at);
	case CLOCKED:
		return write ? pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &at) :
			       pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &at);
	default:
		return write ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock);
	}
}

static void *take(void *way_and_write)
{
	long which = (long)way_and_write;

	arrived++;
	EQ(lock_by((enum way)(which / 2), which % 2), 0);
	EQ(inside, 0);
	EQ(pthread_rwlock_unlock(&lock), 0);
	return NULL;
}

/* Six waits: a reader and a writer, in three ways, behind a writer. */
CASE(readers_and_writers_wait)
{
	for (long which = 0; which < 6; which++) {
		pthread_t thread;

		EQ(pthread_rwlock_wrlock(&lock), 0);
		inside = 1;
		arrived = 0;
		thread = start(take, (void *)which);
		until_blocked();
		inside = 0;
		EQ(pthread_rwlock_unlock(&lock), 0);
		join(thread);
	}
}

CASE(a_free_lock_is_no_wait)
{
	EQ(pthread_rwlock_rdlock(&lock), 0);
	EQ(pthread_rwlock_rdlock(&lock), 0);
	EQ(pthread_rwlock_tryrdlock(&lock), 0);
	EQ(pthread_rwlock_trywrlock(&lock), EBUSY);
	for (int i = 0; i < 3; i++)
		EQ(pthread_rwlock_unlock(&lock), 0);
	EQ(pthread_rwlock_wrlock(&lock), 0);
	EQ(pthread_rwlock_unlock(&lock), 0);
}

/* One wait, in vain. */
CASE(a_deadline_is_kept)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 30);

	EQ(pthread_rwlock_wrlock(&lock), 0);
	EQ(pthread_rwlock_wrlock(&lock), EDEADLK);
	EQ(pthread_rwlock_unlock(&lock), 0);
	EQ(pthread_rwlock_rdlock(&lock), 0);
	EQ(pthread_rwlock_timedwrlock(&lock, &at), ETIMEDOUT);
	CHECK(has_passed(CLOCK_REALTIME, at));
	EQ(pthread_rwlock_unlock(&lock), 0);
}

static sem_t semaphore;

static int wait_by(enum way way)
{
	struct timespec at = in_ms(way == CLOCKED ? CLOCK_MONOTONIC : CLOCK_REALTIME, 100000);

	switch (way) {
	case TIMED:
		return sem_timedwait(&semaphore, &at);
	case CLOCKED:
		return sem_clockwait(&semaphore, CLOCK_MONOTONIC, &at);
	default:
		return sem_wait(&semaphore);
	}
}

static void *wait_for_a_post(void *way)
{
	arrived++;
	EQ(wait_by((enum way)(long)way), 0);
	return NULL;
}

/* Three waits, and three that need none. */
CASE(semaphores_wait)
{
	EQ(sem_init(&semaphore, 0, 3), 0);
	for (long way = PLAIN; way <= CLOCKED; way++)
		EQ(wait_by((enum way)way), 0);
	for (long way = PLAIN; way <= CLOCKED; way++) {
		pthread_t thread;

		arrived = 0;
		thread = start(wait_for_a_post, (void *)way);
		until_blocked();
		EQ(sem_post(&semaphore), 0);
		join(thread);
	}
	EQ(sem_trywait(&semaphore), -1);
	EQ(errno, EAGAIN);
}

static void clean_up(void *unused)
{
	(void)unused;
	cleaned++;
}

static void *be_cancelled(void *way)
{
	pthread_cleanup_push(clean_up, NULL);
	arrived++;
	wait_by((enum way)(long)way);
	pthread_cleanup_pop(0);
	return NULL;
}

/* Three waits that never end. */
CASE(a_wait_for_a_semaphore_is_cancelled)
{
	EQ(sem_init(&semaphore, 0, 0), 0);
	for (long way = PLAIN; way <= CLOCKED; way++) {
		pthread_t thread;

		arrived = 0;
		cleaned = 0;
		thread = start(be_cancelled, (void *)way);
		until_blocked();
		EQ(pthread_cancel(thread), 0);
		CHECK(join(thread) == PTHREAD_CANCELED);
		EQ(cleaned, 1);
	}
}

static pthread_barrier_t barrier;

static void *meet(void *unused)
{
	(void)unused;
	return (void *)(long)pthread_barrier_wait(&barrier);
}

/* Two waits: libc tells one of three threads that it is the serial one. */
CASE(barriers_wait)
{
	pthread_t threads[3];
	int serial = 0;

	EQ(pthread_barrier_init(&barrier, NULL, 3), 0);
	for (int i = 0; i < 3; i++)
		threads[i] = start(meet, NULL);
	for (int i = 0; i < 3; i++)
		serial += (long)join(threads[i]) == PTHREAD_BARRIER_SERIAL_THREAD;
	EQ(serial, 1);
}

/* libc looks at clock and time before it takes even a free lock. */
CASE(bad_arguments_are_refused_although_the_lock_is_free)
{
	static const clockid_t bad_clocks[] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_BOOTTIME, -1, 99 };
	static const long bad_ns[] = { -1, 1000000000, LONG_MAX, LONG_MIN };
	struct timespec at = in_ms(CLOCK_REALTIME, 100000);

	for (size_t i = 0; i < sizeof(bad_clocks) / sizeof(bad_clocks[0]); i++) {
		EQ(pthread_rwlock_clockrdlock(&lock, bad_clocks[i], &at), EINVAL);
		EQ(pthread_rwlock_clockwrlock(&lock, bad_clocks[i], &at), EINVAL);
	}
	for (size_t i = 0; i < sizeof(bad_ns) / sizeof(bad_ns[0]); i++) {
		at.tv_nsec = bad_ns[i];
		EQ(pthread_rwlock_timedrdlock(&lock, &at), EINVAL);
		EQ(pthread_rwlock_timedwrlock(&lock, &at), EINVAL);
		EQ(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &at), EINVAL);
		EQ(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &at), EINVAL);
	}
	/* None of them took it. */
	EQ(pthread_rwlock_trywrlock(&lock), 0);
	EQ(pthread_rwlock_unlock(&lock), 0);
}
