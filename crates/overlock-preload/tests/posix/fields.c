/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The fields of a mutex that programs and debuggers read behind libc's back, and the resources that libc provides. */
#include "mutex.h"

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
