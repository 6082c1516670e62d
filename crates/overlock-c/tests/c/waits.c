/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The read-write lock and the condition variable: exclusion, readers beside each other, time-outs on both
 * clocks, no lost signal.
 *
 * With -DBROKEN writers take the lock for reading, and the program must fail: this shows that it can.
 */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 5000 };

static ol_rwlock_t rwlock = OL_RWLOCK_INIT;
static ol_mutex_t mutex = OL_MUTEX_INIT;
static ol_cond_t cond = OL_COND_INIT;
static long one, other;
static int items, taken;

static void *reads_and_writes(void *unused)
{
    (void)unused;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 4 == 0) {
#ifdef BROKEN
            ol_rwlock_rdlock(&rwlock);
#else
            ol_rwlock_wrlock(&rwlock);
#endif
            one++;
            if (i % 64 == 0)
                sched_yield();
            other++;
#ifdef BROKEN
            ol_rwlock_rdunlock(&rwlock);
#else
            ol_rwlock_wrunlock(&rwlock);
#endif
        } else {
            ol_rwlock_rdlock(&rwlock);
            CHECK(one == other);
            ol_rwlock_rdlock_again(&rwlock);
            ol_rwlock_rdunlock(&rwlock);
            ol_rwlock_rdunlock(&rwlock);
        }
    }
    return NULL;
}

static void *takes_items(void *unused)
{
    (void)unused;
    ol_mutex_lock(&mutex);
    for (;;) {
        while (items == 0)
            ol_cond_wait(&cond, &mutex);
        if (items < 0)
            break;
        items--;
        taken++;
        if (taken % 2 == 0)
            ol_cond_broadcast(&cond);
    }
    ol_mutex_unlock(&mutex);
    return NULL;
}

static void run(pthread_t *threads, void *(*body)(void *))
{
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, body, NULL) == 0);
}

static void join(pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* The time on a clock in `ms` milliseconds. */
static struct timespec on_clock(clockid_t clock, long ms)
{
    struct timespec at;
    CHECK(clock_gettime(clock, &at) == 0);
    at.tv_nsec += ms * 1000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

static void times_out(clockid_t clock)
{
    ol_rwlock_t lock = OL_RWLOCK_INIT;
    ol_cond_t silent = OL_COND_INIT;
    struct timespec at = on_clock(clock, 20);
    CHECK(ol_rwlock_clockrdlock(&lock, clock, &at) == 0);
    CHECK(ol_rwlock_clockwrlock(&lock, clock, &at) == ETIMEDOUT);
    CHECK(on_clock(clock, 0).tv_sec >= at.tv_sec);
    CHECK(ol_rwlock_tryrdlock(&lock) == 0);
    CHECK(ol_rwlock_trywrlock(&lock) == EBUSY);
    CHECK(ol_rwlock_clockwrlock(&lock, clock, NULL) == EINVAL);
    CHECK(ol_rwlock_clockwrlock(&lock, 12345, &at) == EINVAL);
    ol_rwlock_rdunlock(&lock);
    ol_rwlock_rdunlock(&lock);
    CHECK(ol_rwlock_trywrlock(&lock) == 0);
    CHECK(ol_rwlock_tryrdlock(&lock) == EBUSY);
    at = on_clock(clock, 20);
    CHECK(ol_rwlock_clockrdlock(&lock, clock, &at) == ETIMEDOUT);
    ol_rwlock_wrunlock(&lock);

    ol_mutex_lock(&mutex);
    at = on_clock(clock, 20);
    CHECK(ol_cond_clockwait(&silent, &mutex, clock, &at) == ETIMEDOUT);
    CHECK(ol_mutex_trylock(&mutex) == EBUSY);
    at.tv_nsec = 1000000000;
    CHECK(ol_cond_clockwait(&silent, &mutex, clock, &at) == EINVAL);
    CHECK(ol_cond_clockwait(&silent, &mutex, 12345, &at) == EINVAL);
    CHECK(ol_mutex_trylock(&mutex) == EBUSY);
    ol_mutex_unlock(&mutex);
}

int main(void)
{
    pthread_t threads[THREADS];

    run(threads, reads_and_writes);
    join(threads);
    CHECK(one == other && one == (long)THREADS * ROUNDS / 4);

    run(threads, takes_items);
    for (int i = 0; i < ROUNDS; i++) {
        ol_mutex_lock(&mutex);
        items++;
        ol_mutex_unlock(&mutex);
        ol_cond_signal(&cond);
    }
    for (;;) {
        ol_mutex_lock(&mutex);
        if (items == 0)
            break;
        ol_mutex_unlock(&mutex);
        sched_yield();
    }
    CHECK(taken == ROUNDS);
    items = -1;
    ol_mutex_unlock(&mutex);
    ol_cond_broadcast(&cond);
    join(threads);

    times_out(CLOCK_MONOTONIC);
    times_out(CLOCK_REALTIME);
    return 0;
}
