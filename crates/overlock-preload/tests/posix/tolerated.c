/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Behaviour that POSIX leaves undefined and libc tolerates: programs depend on it. */
#include "mutex.h"

#include <limits.h>

static void expect_usable(pthread_mutex_t *mutex)
{
	struct section section = { .mutex = mutex };
	pthread_t threads[4];

	EQ(pthread_mutex_lock(mutex), 0);
	for (int i = 0; i < 4; i++)
		threads[i] = start(enter_section, &section);
	pause_ms(10);
	CHECK(!section.entered);
	EQ(pthread_mutex_unlock(mutex), 0);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	EQ(pthread_mutex_trylock(mutex), 0);
	EQ(pthread_mutex_unlock(mutex), 0);
}

/* libc has miscounted the users. */
static void expect_unused(pthread_mutex_t *mutex)
{
	if (is_overlock())
		EQ(pthread_mutex_destroy(mutex), 0);
}

/* As nginx does before it becomes a server, whose workers still end by exit. */
CASE(environment_is_overwritten)
{
	extern char **environ;
	struct section section = { .mutex = &(pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER };
	pthread_t thread;

	for (char **variable = environ; *variable != NULL; variable++)
		memset(*variable, 'x', strlen(*variable));
	environ = NULL;
	EQ(pthread_mutex_lock(section.mutex), 0);
	thread = start(enter_section, &section);
	pause_ms(10);
	EQ(pthread_mutex_unlock(section.mutex), 0);
	join(thread);
}

CASE(unlock_of_a_free_mutex)
{
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);
		int knows_owner = type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE;

		EQ(pthread_mutex_unlock(&mutex), knows_owner ? EPERM : 0);
		EQ(pthread_mutex_unlock(&mutex), knows_owner ? EPERM : 0);
		expect_usable(&mutex);
		EQ(pthread_mutex_unlock(&mutex), knows_owner ? EPERM : 0);
		expect_usable(&mutex);
		expect_unused(&mutex);
	}
}

CASE(timed_wait_without_the_mutex)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec at = in_ms(CLOCK_REALTIME, 20);

	EQ(pthread_cond_timedwait(&cond, &mutex, &at), ETIMEDOUT);
	/* It comes back with the mutex. */
	EQ(pthread_mutex_trylock(&mutex), EBUSY);
	EQ(pthread_mutex_unlock(&mutex), 0);
	expect_usable(&mutex);
	EQ(pthread_cond_destroy(&cond), 0);
	expect_unused(&mutex);
}

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	atomic_int waits;
} lone = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };

static void *wait_without_mutex(void *argument)
{
	lone.waits = 1;
	EQ(pthread_cond_wait(&lone.cond, &lone.mutex), 0);
	EQ(pthread_mutex_unlock(&lone.mutex), 0);
	lone.waits = 2;
	return argument;
}

CASE(wait_without_the_mutex)
{
	pthread_t thread = start(wait_without_mutex, NULL);

	while (lone.waits != 2) {
		pause_ms(1);
		EQ(pthread_cond_signal(&lone.cond), 0);
	}
	join(thread);
	expect_usable(&lone.mutex);
}

static void *unlock_it(void *mutex)
{
	EQ(pthread_mutex_unlock(mutex), 0);
	return NULL;
}

/* A mutex used as a semaphore: another thread releases it. */
CASE(unlock_by_another_thread)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	for (int i = 0; i < 100; i++) {
		EQ(pthread_mutex_lock(&mutex), 0);
		elsewhere(unlock_it, &mutex);
	}
	expect_usable(&mutex);
}

/*
 * Two threads that unlock one mutex at the same moment, after an error in the program's own accounting. libc's unlock
 * is one exchange: however two of them overlap, the mutex is free afterwards.
 */
static struct {
	pthread_mutex_t mutex;
	atomic_long rounds, go, done;
} twice = { .mutex = PTHREAD_MUTEX_INITIALIZER };

/* Looks for a while before it yields: the two threads are to run at the same time. */
static void await(atomic_long *round, long wanted)
{
	for (int looks = 1; *round < wanted; looks++)
		if (looks % 50 == 0)
			sched_yield();
}

static void *unlock_in_every_round(void *argument)
{
	for (long round = 1; round <= twice.rounds; round++) {
		await(&twice.go, round);
		if (round > twice.rounds)
			break;
		EQ(pthread_mutex_unlock(&twice.mutex), 0);
		twice.done = round;
	}
	return argument;
}

/* Unlocks the mutex while the other thread does. The moment moves from round to round. */
static void unlock_at_once(long round)
{
	twice.go = round;
	for (volatile long i = 0; i < round % 256; i++)
		;
	EQ(pthread_mutex_unlock(&twice.mutex), 0);
	await(&twice.done, round);
}

/* Ends the rounds after this one if they have taken long, as on a busy machine: two threads must run for each. */
static void may_end_after(long round, time_t began)
{
	if (time(NULL) - began > 5)
		twice.rounds = round;
	if (round == twice.rounds)
		twice.go = round + 1;
}

/* Takes the mutex in each round, by `take`, and unlocks it twice at once. */
static void unlock_in_rounds(long rounds, int (*take)(pthread_mutex_t *))
{
	time_t began = time(NULL);
	pthread_t other;

	twice.rounds = rounds;
	other = start(unlock_in_every_round, NULL);
	for (long round = 1; round <= twice.rounds; round++) {
		EQ(take(&twice.mutex), 0);
		unlock_at_once(round);
		may_end_after(round, began);
	}
	join(other);
}

CASE(unlock_by_two_threads_at_once)
{
	unlock_in_rounds(10000, pthread_mutex_trylock);
	expect_usable(&twice.mutex);
}

static void *pass_by(void *argument)
{
	while (twice.done < twice.rounds) {
		EQ(pthread_mutex_lock(&twice.mutex), 0);
		EQ(pthread_mutex_unlock(&twice.mutex), 0);
	}
	return argument;
}

/* The second unlock may let one too many in, but leaves no waiter behind. libc ends the process when it notices. */
CASE(unlock_by_two_threads_at_once_before_waiters)
{
	pthread_t passers[3];

	if (!is_overlock())
		return;
	twice.rounds = LONG_MAX;
	for (int i = 0; i < 3; i++)
		passers[i] = start(pass_by, NULL);
	unlock_in_rounds(getenv("OVERLOCK_VERIFY") != NULL ? 2000 : 500, pthread_mutex_lock);
	for (int i = 0; i < 3; i++)
		join(passers[i]);
	expect_usable(&twice.mutex);
}
