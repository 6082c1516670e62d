/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that can't join the queue of a lock: real-time threads, threads that can be cancelled anywhere, and too
 * many threads.
 */
#include "mutex.h"


static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int waiting, served, order[16];

static void *wait_and_note(void *argument)
{
	waiting++;
	EQ(pthread_mutex_lock(&mutex), 0);
	order[served++] = (int)(long)argument;
	EQ(pthread_mutex_unlock(&mutex), 0);
	return NULL;
}

/* A thread of a real-time priority, if this process may have one. */
static int start_realtime(pthread_t *thread, void *(*run)(void *), int priority)
{
	struct sched_param parameter = { .sched_priority = priority };
	pthread_attr_t attributes;
	int error;

	EQ(pthread_attr_init(&attributes), 0);
	EQ(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED), 0);
	EQ(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO), 0);
	EQ(pthread_attr_setschedparam(&attributes, &parameter), 0);
	error = pthread_create(thread, &attributes, run, (void *)(long)priority);
	EQ(pthread_attr_destroy(&attributes), 0);
	if (error != 0)
		skipped("no real-time threads here (%s)", strerror(error));
	return error == 0;
}

static void wait_for(int count)
{
	while (waiting < count)
		pause_ms(1);
	pause_ms(20);
}

CASE(realtime_waiters_are_served_by_priority)
{
	static const int priorities[] = { 10, 30, 20 };
	pthread_t ordinary[2], realtime[3];

	for (int round = 0; round < 5; round++) {
		waiting = served = 0;
		EQ(pthread_mutex_lock(&mutex), 0);
		ordinary[0] = start(wait_and_note, NULL);
		wait_for(1);
		for (int i = 0; i < 3; i++) {
			if (!start_realtime(&realtime[i], wait_and_note, priorities[i]))
				_exit(0);
			wait_for(2 + i);
		}
		ordinary[1] = start(wait_and_note, NULL);
		wait_for(5);
		EQ(pthread_mutex_unlock(&mutex), 0);
		for (int i = 0; i < 3; i++)
			join(realtime[i]);
		for (int i = 0; i < 2; i++)
			join(ordinary[i]);
		EQ(served, 5);
		EQ(order[0], 30);
		EQ(order[1], 20);
		EQ(order[2], 10);
	}
}

static void *wait_cancellable_anywhere(void *argument)
{
	(void)argument;
	EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	waiting++;
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	return NULL;
}

CASE(a_waiter_that_is_cancelled_leaves_the_mutex_whole)
{
	struct section section = { .mutex = &mutex };
	pthread_t before, after, cancelled;

	for (int round = 0; round < 20; round++) {
		section.entered = waiting = 0;
		EQ(pthread_mutex_lock(&mutex), 0);
		before = start(enter_section, &section);
		cancelled = start(wait_cancellable_anywhere, NULL);
		while (waiting < 1)
			sched_yield();
		after = start(enter_section, &section);
		pause_ms(round % 4 * 3);
		EQ(pthread_cancel(cancelled), 0);
		CHECK(join(cancelled) == PTHREAD_CANCELED);
		CHECK(!section.entered);
		EQ(pthread_mutex_unlock(&mutex), 0);
		join(before);
		join(after);
	}
}

CASE(a_waiter_that_may_be_cancelled_gets_the_mutex)
{
	pthread_t threads[4];

	EQ(pthread_mutex_lock(&mutex), 0);
	for (int i = 0; i < 4; i++)
		threads[i] = start(wait_cancellable_anywhere, NULL);
	wait_for(4);
	EQ(pthread_mutex_unlock(&mutex), 0);
	for (int i = 0; i < 4; i++)
		CHECK(join(threads[i]) != PTHREAD_CANCELED);
}

static atomic_int stopped, goes_on;

static void stop_here(int signal)
{
	(void)signal;
	stopped = 1;
	while (!goes_on)
		pause_ms(1);
}

/* A handler stops the waiter; another has slept in the queue since before, and more come. */
static void keeps_nobody_out(pthread_t absent)
{
	struct section section = { .mutex = &mutex };
	struct counter counter = { .mutex = &mutex, .rounds = 1000 };
	pthread_mutex_t new = PTHREAD_MUTEX_INITIALIZER;
	pthread_t sleeper = start(enter_section, &section);

	CHECK(signal(SIGUSR1, stop_here) != SIG_ERR);
	wait_for(1);
	EQ(pthread_kill(absent, SIGUSR1), 0);
	while (!stopped)
		pause_ms(1);
	EQ(pthread_mutex_unlock(&mutex), 0);
	join(sleeper);
	join(start(count_and_check_errno, &counter));
	EQ(counter.count, 1000);
	goes_on = 1;
	join(absent);
	expect_new(&mutex, new);
}

CASE(a_stopped_waiter_that_may_be_cancelled_keeps_nobody_out)
{
	EQ(pthread_mutex_lock(&mutex), 0);
	keeps_nobody_out(start(wait_cancellable_anywhere, NULL));
}

CASE(a_stopped_realtime_waiter_keeps_nobody_out)
{
	pthread_t absent;

	EQ(pthread_mutex_lock(&mutex), 0);
	if (start_realtime(&absent, wait_and_note, 10))
		keeps_nobody_out(absent);
}

/*
 * More threads than there are numbers for. Those without one wait outside the queue of any lock in the same way, as
 * in the cases above, so only `hybrid` gets a crowd that takes seconds to create, unless `cargo xtask verify` runs
 * this. libc's threads have no numbers.
 */
static int crowd(void)
{
	const char *lock = getenv("OVERLOCK_LOCK");
	int one = lock == NULL || strcmp(lock, "hybrid") == 0;

	return is_overlock() && (one || getenv("OVERLOCK_VERIFY") != NULL) ? 18000 : 2000;
}

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static long count;
static int go;

/* Waits for the mutex, and then for the condition. */
static void *count_one(void *argument)
{
	EQ(pthread_mutex_lock(&mutex), 0);
	waiting++;
	while (!go)
		EQ(pthread_cond_wait(&cond, &mutex), 0);
	count++;
	EQ(pthread_mutex_unlock(&mutex), 0);
	return argument;
}

/* A crowd; fewer, if the machine has no room. */
static int start_crowd(pthread_t *threads)
{
	pthread_attr_t attributes;
	int started = 0;

	EQ(pthread_attr_init(&attributes), 0);
	EQ(pthread_attr_setstacksize(&attributes, 32768), 0);
	while (started < crowd() && pthread_create(&threads[started], &attributes, count_one, NULL) == 0)
		started++;
	EQ(pthread_attr_destroy(&attributes), 0);
	if (started < crowd())
		skipped("no room for more than %d threads", started);
	return started;
}

CASE(more_threads_than_numbers_wait)
{
	pthread_t *threads = calloc(crowd(), sizeof *threads);
	int started;

	EQ(pthread_mutex_lock(&mutex), 0);
	started = start_crowd(threads);
	pause_ms(100);
	while (waiting < started) {
		EQ(pthread_mutex_unlock(&mutex), 0);
		pause_ms(10);
		EQ(pthread_mutex_lock(&mutex), 0);
	}
	go = 1;
	EQ(pthread_cond_broadcast(&cond), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	for (int i = 0; i < started; i++)
		join(threads[i]);
	EQ(count, started);
	free(threads);
}
