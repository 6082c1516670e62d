/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Timed acquisitions while the program's clock is not the kernel's, as under libfaketime. */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

static long ahead_s;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    long result = syscall(SYS_clock_gettime, clock, now);
    now->tv_sec += ahead_s;
    return (int)result;
}

static void *try_for_100_ms(void *argument)
{
    ol_hybrid_t *lock = argument;
    struct timespec at = after_ms(100);
    CHECK(ol_hybrid_timedlock(lock, &at) == ETIMEDOUT);
    CHECK(has_passed(&at));
    return NULL;
}

int main(void)
{
    static const long hours[] = { 0, 1, 24 * 365 * 10, -24 * 365 * 10 };
    for (size_t i = 0; i < sizeof hours / sizeof *hours; i++) {
        ol_hybrid_t lock = OL_HYBRID_INIT;
        pthread_t thread;
        ahead_s = hours[i] * 3600;
        ol_hybrid_lock(&lock);
        CHECK(pthread_create(&thread, NULL, try_for_100_ms, &lock) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        ol_hybrid_unlock(&lock);
    }
    puts("fine");
    return 0;
}
