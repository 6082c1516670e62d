/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library whose IFUNC resolver locks while the library is being relocated, before any that was preloaded is. With
 * WAITS it waits for a semaphore, which stays libc's.
 */
#include <pthread.h>
#ifdef WAITS
#include <semaphore.h>
#endif

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = { { 0, 0, 0, 0, PTHREAD_MUTEX_RECURSIVE, 0, 0, { 0, 0 } } };
#ifdef WAITS
static sem_t semaphore = { .__align = 1 };
#endif
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static int answer(void)
{
	return 42;
}

static int (*resolve(void))(void)
{
	pthread_mutex_lock(&normal);
	pthread_mutex_lock(&recursive);
	pthread_rwlock_rdlock(&rwlock);
	pthread_rwlock_unlock(&rwlock);
#ifdef WAITS
	sem_wait(&semaphore);
#endif
	pthread_mutex_unlock(&recursive);
	pthread_mutex_unlock(&normal);
	return answer;
}

__attribute__((visibility("hidden"))) int resolved(void) __attribute__((ifunc("resolve")));
int (*resolved_table)(void) = resolved;
int locks_are_free(void);
int locks_are_free(void)
{
	return pthread_mutex_trylock(&normal) == 0 && pthread_mutex_trylock(&recursive) == 0;
}
