/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A program with a bug: it unlocks locks that no thread holds. Each stays free, and excludes as before.
 */
#define _POSIX_C_SOURCE 200809L
#include "check.h"

enum { THREADS = 2, ROUNDS = 20000, UNLOCKS = 3 };

static volatile unsigned long sum;

#define SURVIVES(X)                                                                        \
    static ol_##X##_t X##_object;                                                          \
    static void *X##_adds(void *unused)                                                    \
    {                                                                                      \
        (void)unused;                                                                      \
        for (int round = 0; round < ROUNDS; round++) {                                     \
            ol_##X##_lock(&X##_object);                                                    \
            sum = sum + 1;                                                                 \
            ol_##X##_unlock(&X##_object);                                                  \
        }                                                                                  \
        return NULL;                                                                       \
    }                                                                                      \
    static void *X##_is_taken(void *unused)                                                \
    {                                                                                      \
        (void)unused;                                                                      \
        CHECK(ol_##X##_trylock(&X##_object) == EBUSY);                                     \
        return NULL;                                                                       \
    }                                                                                      \
    static void X##_survives(void)                                                         \
    {                                                                                      \
        pthread_t threads[THREADS];                                                        \
        fprintf(stderr, #X "\n");                                                          \
        sum = 0;                                                                           \
        uint64_t before = counted("unlock_of_free");                                       \
        errno = 77;                                                                        \
        for (int i = 0; i < UNLOCKS; i++)                                                  \
            ol_##X##_unlock(&X##_object);                                                  \
        CHECK(errno == 77);                                                                \
        CHECK(ol_##X##_trylock(&X##_object) == 0);                                         \
        CHECK(pthread_create(&threads[0], NULL, X##_is_taken, NULL) == 0);                 \
        CHECK(pthread_join(threads[0], NULL) == 0);                                        \
        ol_##X##_unlock(&X##_object);                                                      \
        ol_##X##_unlock(&X##_object);                                                      \
        CHECK(counted("unlock_of_free") == before + UNLOCKS + 1);                          \
        for (int i = 0; i < THREADS; i++)                                                  \
            CHECK(pthread_create(&threads[i], NULL, X##_adds, NULL) == 0);                 \
        for (int i = 0; i < THREADS; i++)                                                  \
            CHECK(pthread_join(threads[i], NULL) == 0);                                    \
        CHECK(sum == (unsigned long)THREADS * ROUNDS);                                     \
        CHECK(counted("unlock_of_free") == before + UNLOCKS + 1);                          \
    }

SURVIVES(mutex)
SURVIVES(hybrid)
SURVIVES(queued)
SURVIVES(ticket)
SURVIVES(test_and_set)
SURVIVES(shared)

int main(void)
{
    mutex_survives();
    hybrid_survives();
    queued_survives();
    ticket_survives();
    test_and_set_survives();
    shared_survives();
    return 0;
}
