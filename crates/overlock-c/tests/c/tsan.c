/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every lock under the thread sanitizer: it must see what each acquisition acquires. */
#include <overlock.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 4, ROUNDS = 5000, ROUNDS_BETWEEN_MEETINGS = 500 };

static int arrived;

/* Returns when all threads have come here as often as this one. Relaxed accesses do not
   synchronize, so a race across a meeting is still one. Without meetings, a thread may end before
   the next begins, and then the sanitizer has forgotten what it did. */
static void meet(int times)
{
    const struct timespec moment = { 0, 100000 };
    __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
    while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) < times * THREADS)
        nanosleep(&moment, NULL);
}

static struct timespec later(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += 100;
    return at;
}

#define TIMED(X)                                                                               \
    if (i % 3 == 1) {                                                                          \
        struct timespec at = later();                                                          \
        if (ol_##X##_timedlock(&X##_lock, &at) != 0)                                           \
            continue;                                                                          \
    } else
#define UNTIMED(X)

#define THREAD(X, HOW)                                                                         \
    static ol_##X##_t X##_lock;                                                                \
    static long X##_sum;                                                                       \
    static void *X##_thread(void *unused)                                                      \
    {                                                                                          \
        for (int i = 0; i < ROUNDS; i++) {                                                     \
            if (i % ROUNDS_BETWEEN_MEETINGS == 0)                                              \
                meet(i / ROUNDS_BETWEEN_MEETINGS + 1);                                         \
            HOW(X) if (i % 3 == 2) {                                                           \
                while (ol_##X##_trylock(&X##_lock) != 0)                                       \
                    ;                                                                          \
            } else {                                                                           \
                ol_##X##_lock(&X##_lock);                                                      \
            }                                                                                  \
            X##_sum++;                                                                         \
            ol_##X##_unlock(&X##_lock);                                                        \
        }                                                                                      \
        return unused;                                                                         \
    }

THREAD(hybrid, TIMED)
THREAD(queued, TIMED)
THREAD(ticket, UNTIMED)
THREAD(test_and_set, TIMED)
THREAD(shared, TIMED)

static int adds_up(const char *name, void *(*run)(void *), const long *sum)
{
    pthread_t threads[THREADS];
    arrived = 0;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, run, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%s %ld\n", name, *sum);
    return *sum == (long)THREADS * ROUNDS;
}

int main(void)
{
    int fine = adds_up("hybrid", hybrid_thread, &hybrid_sum);
    fine &= adds_up("queued", queued_thread, &queued_sum);
    fine &= adds_up("ticket", ticket_thread, &ticket_sum);
    fine &= adds_up("test-and-set", test_and_set_thread, &test_and_set_sum);
    fine &= adds_up("shared", shared_thread, &shared_sum);
    return fine ? 0 : 1;
}
