/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library that is preloaded behind ours and sets CLOCK_REALTIME back by ten years, as libfaketime does: under a
 * mutex. In every second call the thread sleeps first, as if it had lost its processor.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int calls;
	static const struct timespec nap = { .tv_nsec = 10 * 1000 * 1000 };

	pthread_mutex_lock(&mutex);
	if (calls++ % 2)
		nanosleep(&nap, NULL);
	int result = (int)syscall(SYS_clock_gettime, clock, now);
	if (clock == CLOCK_REALTIME)
		now->tv_sec -= 10L * 365 * 24 * 3600;
	pthread_mutex_unlock(&mutex);
	return result;
}
