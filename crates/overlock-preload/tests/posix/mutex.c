/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pthread_mutex_lock, _trylock, _unlock, _destroy: types and errors (POSIX.1-2017, pthread_mutex_lock and
 * pthread_mutex_destroy).
 */
#include "mutex.h"

static void *lock_elsewhere(void *mutex)
{
	return (void *)(long)pthread_mutex_lock(mutex);
}

static void *trylock_elsewhere(void *mutex)
{
	int error = pthread_mutex_trylock(mutex);

	if (error == 0)
		EQ(pthread_mutex_unlock(mutex), 0);
	return (void *)(long)error;
}

static void *unlock_elsewhere(void *mutex)
{
	return (void *)(long)pthread_mutex_unlock(mutex);
}

CASE(lock_and_unlock)
{
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);

		for (int i = 0; i < 3; i++) {
			EQ(pthread_mutex_lock(&mutex), 0);
			EQ(elsewhere(trylock_elsewhere, &mutex), EBUSY);
			EQ(pthread_mutex_unlock(&mutex), 0);
			EQ(elsewhere(trylock_elsewhere, &mutex), 0);
		}
		EQ(pthread_mutex_destroy(&mutex), 0);
	}
}

CASE(default_attributes)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t mutex;
	int type;

	EQ(pthread_mutexattr_init(&attributes), 0);
	EQ(pthread_mutexattr_gettype(&attributes, &type), 0);
	EQ(type, PTHREAD_MUTEX_DEFAULT);
	EQ(pthread_mutexattr_settype(&attributes, 12345), EINVAL);
	EQ(pthread_mutex_init(&mutex, &attributes), 0);
	EQ(pthread_mutexattr_destroy(&attributes), 0);
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_mutex_trylock(&mutex), EBUSY);
	EQ(pthread_mutex_unlock(&mutex), 0);
	EQ(pthread_mutex_destroy(&mutex), 0);
	EQ(pthread_mutex_init(&mutex, NULL), 0);
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	EQ(pthread_mutex_destroy(&mutex), 0);
}

CASE(static_initialisers)
{
	static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
	static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	static pthread_mutex_t errorcheck = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	static pthread_mutex_t adaptive = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;
	pthread_mutex_t *all[] = { &normal, &recursive, &errorcheck, &adaptive };

	for (int i = 0; i < 4; i++) {
		EQ(pthread_mutex_lock(all[i]), 0);
		EQ(elsewhere(trylock_elsewhere, all[i]), EBUSY);
	}
	EQ(pthread_mutex_trylock(&normal), EBUSY);
	EQ(pthread_mutex_trylock(&adaptive), EBUSY);
	EQ(pthread_mutex_lock(&errorcheck), EDEADLK);
	EQ(pthread_mutex_lock(&recursive), 0);
	EQ(pthread_mutex_unlock(&recursive), 0);
	for (int i = 0; i < 4; i++) {
		EQ(pthread_mutex_unlock(all[i]), 0);
		EQ(elsewhere(trylock_elsewhere, all[i]), 0);
		EQ(pthread_mutex_destroy(all[i]), 0);
	}
}

CASE(normal_mutex_unlocked_by_another_thread)
{
	/* Undefined in POSIX for a mutex that is not robust, but libc allows it and programs do it. */
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	for (int i = 0; i < 3; i++) {
		EQ(elsewhere(lock_elsewhere, &mutex), 0);
		EQ(pthread_mutex_trylock(&mutex), EBUSY);
		EQ(pthread_mutex_unlock(&mutex), 0);
	}
	EQ(pthread_mutex_trylock(&mutex), 0);
}

CASE(recursive_overflow_is_eagain)
{
	pthread_mutex_t mutex = new_mutex(PTHREAD_MUTEX_RECURSIVE);
	struct timespec later = in_ms(CLOCK_REALTIME, 60000);

	EQ(pthread_mutex_lock(&mutex), 0);
	/* Four billion calls later: */
	mutex.__data.__count = ~0u;
	EQ(pthread_mutex_lock(&mutex), EAGAIN);
	EQ(pthread_mutex_trylock(&mutex), EAGAIN);
	EQ(pthread_mutex_timedlock(&mutex, &later), EAGAIN);
	EQ(pthread_mutex_unlock(&mutex), 0);
	EQ(pthread_mutex_lock(&mutex), 0);
}

CASE(destroy_of_locked_is_ebusy)
{
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);

		EQ(pthread_mutex_lock(&mutex), 0);
		EQ(pthread_mutex_destroy(&mutex), EBUSY);
		EQ(elsewhere(trylock_elsewhere, &mutex), EBUSY);
		EQ(pthread_mutex_unlock(&mutex), 0);
		EQ(pthread_mutex_destroy(&mutex), 0);
	}
}

CASE(destroyed_is_refused)
{
	/* POSIX does not require this; libc does it, and it finds bugs. */
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);
		struct timespec later = in_ms(CLOCK_REALTIME, 60000);

		EQ(pthread_mutex_destroy(&mutex), 0);
		EQ(pthread_mutex_lock(&mutex), EINVAL);
		EQ(pthread_mutex_trylock(&mutex), EINVAL);
		EQ(pthread_mutex_timedlock(&mutex, &later), EINVAL);
		EQ(pthread_mutex_unlock(&mutex), EINVAL);
		EQ(pthread_mutex_init(&mutex, NULL), 0);
		EQ(pthread_mutex_lock(&mutex), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
	}
}

CASE(owner_that_has_ended_still_owns)
{
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);

		EQ(elsewhere(lock_elsewhere, &mutex), 0);
		for (int i = 0; i < 20; i++) {
			EQ(elsewhere(trylock_elsewhere, &mutex), EBUSY);
			if (type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE)
				EQ(elsewhere(unlock_elsewhere, &mutex), EPERM);
		}
	}
}

CASE(errno_is_left_alone)
{
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);
		struct timespec soon;
		pthread_t threads[4];
		struct counter counter = { .mutex = &mutex, .rounds = 20000 };

		for (int i = 0; i < 4; i++)
			threads[i] = start(count_and_check_errno, &counter);
		for (int i = 0; i < 4; i++)
			join(threads[i]);
		EQ(elsewhere(lock_elsewhere, &mutex), 0);
		soon = in_ms(CLOCK_REALTIME, 10);
		errno = ECHILD;
		EQ(pthread_mutex_timedlock(&mutex, &soon), ETIMEDOUT);
		EQ(errno, ECHILD);
	}
}

static pthread_mutex_t interrupted = PTHREAD_MUTEX_INITIALIZER;

static void on_signal(int number)
{
	(void)number;
}

CASE(signals_do_not_end_the_wait)
{
	struct section section = { .mutex = &interrupted };
	struct sigaction action = { .sa_handler = on_signal };
	pthread_t thread;

	EQ(sigaction(SIGUSR1, &action, NULL), 0);
	EQ(pthread_mutex_lock(&interrupted), 0);
	thread = start(enter_section, &section);
	for (int i = 0; i < 50; i++) {
		pause_ms(1);
		EQ(pthread_kill(thread, SIGUSR1), 0);
	}
	CHECK(!section.entered);
	EQ(pthread_mutex_unlock(&interrupted), 0);
	join(thread);
}

static void *lock_while_cancelled(void *argument)
{
	pthread_mutex_t *mutexes = argument;
	struct timespec soon = in_ms(CLOCK_REALTIME, 20);

	EQ(pthread_cancel(pthread_self()), 0);
	EQ(pthread_mutex_timedlock(&mutexes[0], &soon), ETIMEDOUT);
	EQ(pthread_mutex_trylock(&mutexes[0]), EBUSY);
	EQ(pthread_mutex_unlock(&mutexes[1]), EPERM);
	EQ(pthread_mutex_lock(&mutexes[1]), 0);
	EQ(pthread_mutex_unlock(&mutexes[1]), 0);
	pthread_testcancel();
	return NULL;
}

CASE(no_call_is_a_cancellation_point)
{
	pthread_mutex_t mutexes[2] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP };
	pthread_t thread;

	EQ(pthread_mutex_lock(&mutexes[0]), 0);
	EQ(pthread_mutex_lock(&mutexes[1]), 0);
	thread = start(lock_while_cancelled, mutexes);
	pause_ms(100);
	EQ(pthread_mutex_unlock(&mutexes[1]), 0);
	CHECK(join(thread) == PTHREAD_CANCELED);
	/* The thread was not cancelled while it held the mutex. */
	EQ(pthread_mutex_lock(&mutexes[1]), 0);
}
