/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the self-test runs under broken libraries. The first argument says which of three: `counts` prints what four
 * threads have counted under a mutex, `wakes` waits for a signal of another thread, `tries` ends with what a mutex
 * that is locked answers.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn = PTHREAD_COND_INITIALIZER;
static volatile int count, is_set;
static atomic_int counters;

static void *counter(void *unused)
{
	/* One that is alone counts right without a lock. */
	counters++;
	while (counters < 4)
		sched_yield();
	for (int i = 0; i < 2000; i++) {
		pthread_mutex_lock(&mutex);
		int seen = count;

		sched_yield(); /* so that another thread runs in the critical section, if one can */
		count = seen + 1;
		pthread_mutex_unlock(&mutex);
	}
	return unused;
}

static void *setter(void *unused)
{
	pthread_mutex_lock(&mutex);
	is_set = 1;
	pthread_cond_signal(&turn);
	pthread_mutex_unlock(&mutex);
	return unused;
}

int main(int arguments, char **argument)
{
	pthread_t threads[4];

	if (arguments != 2)
		return 2;
	pthread_mutex_lock(&mutex);
	if (strcmp(argument[1], "tries") == 0)
		return pthread_mutex_trylock(&mutex);
	if (strcmp(argument[1], "wakes") == 0) {
		pthread_create(&threads[0], NULL, setter, NULL);
		while (!is_set)
			pthread_cond_wait(&turn, &mutex);
		puts("woken");
		return 0;
	}
	pthread_mutex_unlock(&mutex);
	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, counter, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	printf("%d\n", count);
	return 0;
}
