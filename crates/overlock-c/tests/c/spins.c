/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* With waiting switched off no thread ever halts; the locks still exclude, and waiters can give up. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

enum { THREADS = 2, ROUNDS = 20000 };

static ol_mutex_t mutex = OL_MUTEX_INIT;
static ol_ticket_t ticket = OL_TICKET_INIT;
static volatile unsigned long sums[2];

static void *adds(void *unused)
{
    (void)unused;
    for (int round = 0; round < ROUNDS; round++) {
        ol_mutex_lock(&mutex);
        sums[0] = sums[0] + 1;
        ol_mutex_unlock(&mutex);
        ol_ticket_lock(&ticket);
        sums[1] = sums[1] + 1;
        ol_ticket_unlock(&ticket);
    }
    return NULL;
}

#define GIVES_UP(X)                                                                        \
    static void *X##_gives_up(void *lock)                                                  \
    {                                                                                      \
        struct timespec soon = after_ms(20);                                               \
        CHECK(ol_##X##_timedlock((ol_##X##_t *)lock, &soon) == ETIMEDOUT);                 \
        CHECK(has_passed(&soon));                                                          \
        return NULL;                                                                       \
    }                                                                                      \
    static void X##_can_be_given_up(void)                                                  \
    {                                                                                      \
        ol_##X##_t lock = { 0 };                                                           \
        pthread_t other;                                                                   \
        ol_##X##_lock(&lock);                                                              \
        CHECK(pthread_create(&other, NULL, X##_gives_up, &lock) == 0);                     \
        CHECK(pthread_join(other, NULL) == 0);                                             \
        ol_##X##_unlock(&lock);                                                            \
    }

GIVES_UP(hybrid)
GIVES_UP(queued)
GIVES_UP(test_and_set)

int main(void)
{
    CHECK(ol_set_waiting(true) == 0);
    CHECK(ol_set_waiting(false) == 0);
    hybrid_can_be_given_up();
    queued_can_be_given_up();
    test_and_set_can_be_given_up();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, adds, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(sums[0] == (unsigned long)THREADS * ROUNDS);
    CHECK(sums[1] == (unsigned long)THREADS * ROUNDS);
    CHECK(halts() == 0);
    return 0;
}
