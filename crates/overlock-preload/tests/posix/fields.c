/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The fields of a mutex that programs and debuggers read behind libc's back, and the resources that libc provides. */
#include "mutex.h"

#include <sys/prctl.h>
#include <sys/syscall.h>

static int kernels_number(void)
{
	return (int)syscall(SYS_gettid);
}

static void expect_held(pthread_mutex_t *mutex, int owner, unsigned count)
{
	EQ(mutex->__data.__owner, owner);
	EQ(mutex->__data.__nusers, owner != 0);
	EQ(mutex->__data.__count, count);
}

static void *hold_elsewhere(void *argument)
{
	pthread_mutex_t *mutex = argument;
	struct timespec at = in_ms(CLOCK_REALTIME, 60000);

	EQ(pthread_mutex_timedlock(mutex, &at), 0);
	EQ(mutex->__data.__owner, kernels_number());
	EQ(pthread_mutex_unlock(mutex), 0);
	return NULL;
}

CASE(the_holder_is_in_the_mutex)
{
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);
		unsigned once = type == PTHREAD_MUTEX_RECURSIVE;
		pthread_t thread;

		expect_held(&mutex, 0, 0);
		EQ(pthread_mutex_lock(&mutex), 0);
		expect_held(&mutex, kernels_number(), once);
		if (type == PTHREAD_MUTEX_RECURSIVE) {
			EQ(pthread_mutex_lock(&mutex), 0);
			expect_held(&mutex, kernels_number(), 2);
			EQ(pthread_mutex_unlock(&mutex), 0);
			expect_held(&mutex, kernels_number(), 1);
		}
		thread = start(hold_elsewhere, &mutex);
		pause_ms(5);
		expect_held(&mutex, kernels_number(), once);
		EQ(pthread_mutex_unlock(&mutex), 0);
		join(thread);
		expect_held(&mutex, 0, 0);
		EQ(pthread_mutex_trylock(&mutex), 0);
		expect_held(&mutex, kernels_number(), once);
		EQ(pthread_mutex_unlock(&mutex), 0);
		expect_held(&mutex, 0, 0);
	}
}

static int holder_of(pthread_mutex_t *mutex)
{
	int holder;

	EQ(pthread_mutex_lock(mutex), 0);
	holder = mutex->__data.__owner;
	EQ(pthread_mutex_unlock(mutex), 0);
	return holder;
}

/*
 * Chromium's sandbox makes a child by a bare clone, where libc still has the parent's number. It reads that from a
 * mutex, finds it in libc's record of the thread, writes the child's there, and reads the mutex again.
 */
CASE(the_holder_is_what_libc_has_for_it)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	int *libcs = NULL;
	pid_t child;

	enum { GET_TID_ADDRESS = 40 };

	if (prctl(GET_TID_ADDRESS, &libcs) != 0 || libcs == NULL) {
		skipped("the kernel does not say where libc has the number of a thread");
		return;
	}
	EQ(holder_of(&mutex), *libcs);
	child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (child == 0) {
		EQ(holder_of(&mutex), *libcs);
		CHECK(kernels_number() != *libcs);
		*libcs = kernels_number();
		EQ(holder_of(&mutex), kernels_number());
		_exit(0);
	}
	expect_success(child);
}

CASE(the_holder_is_there_in_a_child_too)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pid_t child;

	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	child = fork();
	if (child == 0) {
		EQ(pthread_mutex_lock(&mutex), 0);
		expect_held(&mutex, getpid(), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
		expect_held(&mutex, 0, 0);
		_exit(0);
	}
	expect_success(child);
}

static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;
static atomic_int started;

static void *lock_it(void *argument)
{
	EQ(pthread_mutex_lock(argument), 0);
	EQ(pthread_mutex_unlock(argument), 0);
	return NULL;
}

/* A thread that can be cancelled at any instruction waits in a way of its own. */
static void *lock_it_cancellably(void *argument)
{
	EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	return lock_it(argument);
}

static void *give_up(void *argument)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 5);
	int error = pthread_mutex_timedlock(argument, &at);

	/* Unless it comes when the mutex is free. */
	if (error == 0)
		EQ(pthread_mutex_unlock(argument), 0);
	else
		EQ(error, ETIMEDOUT);
	return NULL;
}

static void *wait_for_a_condition(void *argument)
{
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec at = in_ms(CLOCK_REALTIME, 5);

	EQ(pthread_mutex_lock(argument), 0);
	EQ(pthread_cond_timedwait(&cond, argument, &at), ETIMEDOUT);
	EQ(pthread_mutex_unlock(argument), 0);
	return NULL;
}

CASE(a_mutex_that_is_free_again_has_the_bytes_of_a_new_one)
{
	void *(*const uses[])(void *) = { hold_elsewhere, lock_it_cancellably, give_up, wait_for_a_condition, lock_it };

	for_each_type(type) {
		pthread_mutex_t mutex, new = new_mutex(type);

		/* libc keeps there how long to spin. */
		if (type == PTHREAD_MUTEX_ADAPTIVE_NP && !is_overlock())
			continue;
		memcpy(&mutex, &new, sizeof mutex);
		for (int round = 0; round < 6; round++) {
			pthread_t threads[10];
			pid_t child;

			EQ(pthread_mutex_lock(&mutex), 0);
			EQ(pthread_mutex_unlock(&mutex), 0);
			expect_new(&mutex, new);
			EQ(pthread_mutex_lock(&mutex), 0);
			for (int i = 0; i < 10; i++)
				threads[i] = start(uses[(round + i) % (round < 3 ? 5 : 2)], &mutex);
			pause_ms(20);
			child = is_overlock() ? fork() : -1;
			EQ(pthread_mutex_unlock(&mutex), 0);
			if (child == 0) {
				expect_new(&mutex, new);
				_exit(0);
			}
			for (int i = 0; i < 10; i++)
				join(threads[i]);
			expect_new(&mutex, new);
			if (child > 0)
				expect_success(child);
		}
	}
}

static void *wait_for_it(void *argument)
{
	started++;
	EQ(pthread_mutex_lock(&contended), 0);
	EQ(pthread_mutex_unlock(&contended), 0);
	return argument;
}

/* All keys for thread-specific data belong to the program. */
CASE(all_keys_are_the_programs)
{
	pthread_t threads[4];
	pthread_key_t key;
	int keys = 0;

	EQ(pthread_mutex_lock(&contended), 0);
	for (int i = 0; i < 4; i++)
		threads[i] = start(wait_for_it, NULL);
	while (started < 4)
		sched_yield();
	pause_ms(10);
	EQ(pthread_mutex_unlock(&contended), 0);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	while (pthread_key_create(&key, NULL) == 0)
		keys++;
	EQ(keys, sysconf(_SC_THREAD_KEYS_MAX));
}
