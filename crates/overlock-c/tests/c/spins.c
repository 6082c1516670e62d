/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* With waiting switched off nobody ever halts, and the locks still exclude. */
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

int main(void)
{
    ol_set_waiting(false);
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
