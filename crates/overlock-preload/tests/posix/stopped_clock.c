/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that is preloaded before ours and stops the clocks, as libfaketime does: under a mutex. */
#include <pthread.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	pthread_mutex_lock(&mutex);
	*now = (struct timespec){ .tv_sec = 1577836800 };
	pthread_mutex_unlock(&mutex);
	return 0;
}
