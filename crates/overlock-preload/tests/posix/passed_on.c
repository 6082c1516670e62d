/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls that stay libc's: semaphores. Each case makes a thread wait a number of times
 * that library.rs knows, or none.
 */
#include "posix.h"

#include <semaphore.h>

static atomic_int arrived, cleaned;

/* Waits until another thread is blocked in the kernel, which shows in its state. */
static void until_blocked(void)
{
	while (arrived == 0)
		pause_ms(1);
	pause_ms(100);
}

enum way { PLAIN, TIMED, CLOCKED };

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
