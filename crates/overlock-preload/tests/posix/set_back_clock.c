/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library that is preloaded behind ours and sets CLOCK_REALTIME back by ten years, as libfaketime does: under a
 * mutex.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	pthread_mutex_lock(&mutex);
	int result = (int)syscall(SYS_clock_gettime, clock, now);
	if (clock == CLOCK_REALTIME)
		now->tv_sec -= 10L * 365 * 24 * 3600;
	pthread_mutex_unlock(&mutex);
	return result;
}
