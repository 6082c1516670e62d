/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the cases about mutexes. */
#ifndef MUTEX_H
#define MUTEX_H

#include "posix.h"

static const int mutex_types[] = { PTHREAD_MUTEX_NORMAL, PTHREAD_MUTEX_RECURSIVE, PTHREAD_MUTEX_ERRORCHECK,
				   PTHREAD_MUTEX_ADAPTIVE_NP };

/* Runs a block for every type of mutex. */
#define for_each_type(type) for (int i_##type = 0, type; i_##type < 4 && (type = mutex_types[i_##type], 1); i_##type++)

__attribute__((unused)) static pthread_mutex_t new_mutex(int type)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t mutex;

	EQ(pthread_mutexattr_init(&attributes), 0);
	EQ(pthread_mutexattr_settype(&attributes, type), 0);
	/* Initialisation must not rely on fresh memory. */
	memset(&mutex, 0xa5, sizeof mutex);
	EQ(pthread_mutex_init(&mutex, &attributes), 0);
	EQ(pthread_mutexattr_destroy(&attributes), 0);
	return mutex;
}

/* Programs compare the bytes to learn whether a mutex is in use. A ticket lock's count, in two places, goes on. */
__attribute__((unused)) static void expect_new(const pthread_mutex_t *mutex, pthread_mutex_t new)
{
	if (is_ticket()) {
		new.__data.__lock = mutex->__data.__lock;
		memcpy(new.__size + 36, mutex->__size + 36, 4);
	}
	CHECK(memcmp(mutex, &new, sizeof *mutex) == 0);
}

/* A critical section entered once. */
struct section {
	pthread_mutex_t *mutex;
	atomic_int entered;
};

__attribute__((unused)) static void *enter_section(void *argument)
{
	struct section *section = argument;

	EQ(pthread_mutex_lock(section->mutex), 0);
	section->entered = 1;
	EQ(pthread_mutex_unlock(section->mutex), 0);
	return NULL;
}

/* A counter that only the mutex protects: two threads inside at once lose counts. */
struct counter {
	pthread_mutex_t *mutex;
	long rounds;
	volatile long count;
	volatile int inside;
};

__attribute__((unused)) static void count_once(struct counter *counter)
{
	CHECK(!counter->inside);
	counter->inside = 1;
	/* Sometimes the holder loses its CPU: on a busy machine the threads may never run at once. */
	if (counter->count % 256 == 0)
		sched_yield();
	counter->count++;
	counter->inside = 0;
}

__attribute__((unused)) static void *count_and_check_errno(void *argument)
{
	struct counter *counter = argument;

	for (long i = 0; i < counter->rounds; i++) {
		errno = EDOM;
		EQ(pthread_mutex_lock(counter->mutex), 0);
		EQ(errno, EDOM);
		count_once(counter);
		EQ(pthread_mutex_unlock(counter->mutex), 0);
		EQ(errno, EDOM);
	}
	return NULL;
}

#endif
