/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program whose second thread waits for the first, at the kind of lock that its argument names, or at none. The wait
 * takes at least as many milliseconds as the second argument says.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pthread_mutex_t normal = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_mutex_t *mutex = &normal;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;
static int is_rwlock, is_semaphore, is_none;
static atomic_int waiter;

static void take(void)
{
	if (is_rwlock)
		pthread_rwlock_wrlock(&rwlock);
	else if (is_semaphore)
		sem_wait(&semaphore);
	else if (!is_none)
		pthread_mutex_lock(mutex);
}

static void give(void)
{
	if (is_rwlock)
		pthread_rwlock_unlock(&rwlock);
	else if (is_semaphore)
		sem_post(&semaphore);
	else if (!is_none)
		pthread_mutex_unlock(mutex);
}

/* Whether a thread of this process sleeps. */
static int sleeps(int thread)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
	file = fopen(path, "r");
	if (file != NULL) {
		if (fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = 0;
		fclose(file);
	}
	return state == 'S';
}

static void *second(void *unused)
{
	waiter = gettid();
	take();
	give();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	is_rwlock = argc > 1 && strcmp(argv[1], "rwlock") == 0;
	is_semaphore = argc > 1 && strcmp(argv[1], "semaphore") == 0;
	is_none = argc > 1 && strcmp(argv[1], "none") == 0;
	if (argc > 1 && strcmp(argv[1], "recursive") == 0)
		mutex = &recursive;
	if (is_semaphore && sem_init(&semaphore, 0, 1) != 0)
		return 1;
	take();
	if (pthread_create(&thread, NULL, second, NULL) != 0)
		return 1;
	/* Without a lock the thread just ends: there is no wait to look for. */
	for (int ms = 0; !is_none && (waiter == 0 || !sleeps(waiter)); ms++) {
		if (ms == 120000)
			return 1;
		usleep(1000);
	}
	if (argc > 2)
		usleep(1000 * atoi(argv[2]));
	give();
	return pthread_join(thread, NULL);
}
