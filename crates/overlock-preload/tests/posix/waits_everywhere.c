/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Threads that wait in each way that the library has: for a library that stands in for what it calls. */
#include "posix.h"

#include <semaphore.h>

enum { THREADS = 4, TURNS = 4000 };

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t semaphore;
static long count, spins, turn;

static void *use_everything(void *which)
{
	long me = (long)which;

	for (int i = 0; i < TURNS; i++) {
		struct timespec at = in_ms(CLOCK_REALTIME, 100000);

		if (i % 2 == 0)
			EQ(pthread_mutex_lock(&normal), 0);
		else
			EQ(pthread_mutex_timedlock(&normal, &at), 0);
		count++;
		if (i % 100 == 0)
			sched_yield();
		EQ(pthread_mutex_unlock(&normal), 0);
		EQ(pthread_mutex_lock(&recursive), 0);
		EQ(pthread_mutex_unlock(&recursive), 0);
		EQ(pthread_spin_lock(&spin), 0);
		spins++;
		EQ(pthread_spin_unlock(&spin), 0);
		if (i % 50 == 0) {
			EQ(pthread_rwlock_wrlock(&rwlock), 0);
			EQ(pthread_rwlock_unlock(&rwlock), 0);
			EQ(sem_wait(&semaphore), 0);
			EQ(sem_post(&semaphore), 0);
			EQ(pthread_mutex_lock(&normal), 0);
			while (turn % THREADS != me)
				EQ(pthread_cond_wait(&cond, &normal), 0);
			turn++;
			EQ(pthread_cond_broadcast(&cond), 0);
			EQ(pthread_mutex_unlock(&normal), 0);
		}
	}
	return NULL;
}

CASE(threads_wait_in_every_way)
{
	pthread_t threads[THREADS];

	EQ(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE), 0);
	EQ(sem_init(&semaphore, 0, 1), 0);
	for (long i = 0; i < THREADS; i++)
		threads[i] = start(use_everything, (void *)i);
	for (int i = 0; i < THREADS; i++)
		EQ(pthread_join(threads[i], NULL), 0);
	EQ(count, THREADS * TURNS);
	EQ(spins, THREADS * TURNS);
}
