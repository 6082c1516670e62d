/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every lock within one process: exclusion, trylock, timedlock, static initialisers, halts and
 * kicks, and use after fork.
 */
#define _POSIX_C_SOURCE 200809L
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 4, ROUNDS = 20000, YIELD_EVERY = 64 };

/* A lock's functions as one type, so that one body tests them all. */
struct lock {
    const char *name;
    void *object;
    void (*lock)(void *);
    int (*trylock)(void *);
    int (*timedlock)(void *, const struct timespec *);
    void (*unlock)(void *);
    int (*has_halted)(void *);
};

#define UNTIMED(X, UPPER, CELL)                                                            \
    static ol_##X##_t X##_object = OL_##UPPER##_INIT;                                      \
    static void X##_lock(void *lock) { ol_##X##_lock((ol_##X##_t *)lock); }                \
    static int X##_trylock(void *lock) { return ol_##X##_trylock((ol_##X##_t *)lock); }    \
    static void X##_unlock(void *lock) { ol_##X##_unlock((ol_##X##_t *)lock); }            \
    static int X##_has_halted(void *lock)                                                  \
    {                                                                                      \
        uint32_t cell = __atomic_load_n(&((ol_##X##_t *)lock)->CELL, __ATOMIC_RELAXED);    \
        return (cell & OL_##UPPER##_SLOW) != 0;                                            \
    }
#define TIMED(X, UPPER)                                                                    \
    UNTIMED(X, UPPER, word)                                                                \
    static int X##_timedlock(void *lock, const struct timespec *at)                        \
    {                                                                                      \
        return ol_##X##_timedlock((ol_##X##_t *)lock, at);                                 \
    }
#define LOCK(X, TIMEDLOCK) \
    { #X, &X##_object, X##_lock, X##_trylock, TIMEDLOCK, X##_unlock, X##_has_halted }

TIMED(mutex, MUTEX)
TIMED(hybrid, HYBRID)
TIMED(queued, QUEUED)
UNTIMED(ticket, TICKET, head)
TIMED(test_and_set, TEST_AND_SET)
TIMED(shared, SHARED)

static const struct lock LOCKS[] = {
    LOCK(mutex, mutex_timedlock),
    LOCK(hybrid, hybrid_timedlock),
    LOCK(queued, queued_timedlock),
    LOCK(ticket, NULL),
    LOCK(test_and_set, test_and_set_timedlock),
    LOCK(shared, shared_timedlock),
};

static volatile unsigned long sum;

static void *adds(void *argument)
{
    const struct lock *lock = argument;
    for (unsigned round = 0; round < ROUNDS; round++) {
        lock->lock(lock->object);
        unsigned long old = sum;
        if (round % YIELD_EVERY == 0)
            sched_yield(); /* Other threads come in here if the lock lets them. */
        sum = old + 1;
        lock->unlock(lock->object);
    }
    return NULL;
}

static void excludes(const struct lock *lock)
{
    pthread_t threads[THREADS];
    sum = 0;
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, adds, (void *)lock) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(sum == (unsigned long)THREADS * ROUNDS);
}

static void *finds_it_taken(void *argument)
{
    const struct lock *lock = argument;
    CHECK(lock->trylock(lock->object) == EBUSY);
    if (lock->timedlock != NULL) {
        struct timespec soon = after_ms(20);
        CHECK(lock->timedlock(lock->object, &soon) == ETIMEDOUT);
        CHECK(has_passed(&soon));
        struct timespec past = { 0, 0 };
        CHECK(lock->timedlock(lock->object, &past) == ETIMEDOUT);
        struct timespec before_time = { -1, 0 };
        CHECK(lock->timedlock(lock->object, &before_time) == ETIMEDOUT);
        struct timespec too_many = { 0, 1000000000 };
        CHECK(lock->timedlock(lock->object, &too_many) == EINVAL);
        struct timespec too_few = { 0, -1 };
        CHECK(lock->timedlock(lock->object, &too_few) == EINVAL);
        CHECK(lock->timedlock(lock->object, NULL) == EINVAL);
    }
    return NULL;
}

static void refuses_politely(const struct lock *lock)
{
    CHECK(lock->trylock(lock->object) == 0);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, finds_it_taken, (void *)lock) == 0);
    CHECK(pthread_join(other, NULL) == 0);
    lock->unlock(lock->object);
    if (lock->timedlock != NULL) {
        /* A free lock is taken whatever the time. */
        struct timespec past = { 0, 0 };
        CHECK(lock->timedlock(lock->object, &past) == 0);
        lock->unlock(lock->object);
        struct timespec later = after_ms(60000);
        CHECK(lock->timedlock(lock->object, &later) == 0);
        lock->unlock(lock->object);
    }
}

static void *takes_once(void *argument)
{
    const struct lock *lock = argument;
    errno = 77;
    lock->lock(lock->object);
    sum += 1;
    lock->unlock(lock->object);
    CHECK(errno == 77);
    return NULL;
}

static void *takes_once_in_time(void *argument)
{
    const struct lock *lock = argument;
    struct timespec later = after_ms(60000);
    CHECK(lock->timedlock(lock->object, &later) == 0);
    sum += 1;
    lock->unlock(lock->object);
    return NULL;
}

/* A child process has a copy of the lock, but not of the thread that waits for it. */
static void child_goes_on(const struct lock *lock)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        lock->unlock(lock->object);
        lock->lock(lock->object);
        lock->unlock(lock->object);
        _Exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* A waiter halts; the inline release has to notice that and kick it. */
static void calls_back(const struct lock *lock, void *(*waiter)(void *))
{
    sum = 0;
    lock->lock(lock->object);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, waiter, (void *)lock) == 0);
    while (!lock->has_halted(lock->object))
        sched_yield();
    CHECK(sum == 0);
    if (lock->object != &ticket_object)
        child_goes_on(lock);
    lock->unlock(lock->object);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(sum == 1);
}

static void counters_have_names(void)
{
    size_t index = 0;
    uint64_t count = 0;
    for (const char *name; (name = ol_counter_name(index)) != NULL; index++) {
        CHECK(strlen(name) > 0);
        CHECK(ol_counter(name, &count) == 0);
    }
    CHECK(index > 10);
    CHECK(ol_counter_name((size_t)-1) == NULL);
    CHECK(ol_counter("no_such_event", &count) == EINVAL);
    CHECK(ol_counter("pv_wait_nod", &count) == EINVAL);
    CHECK(ol_counter(NULL, &count) == EINVAL);
    CHECK(ol_counter("pv_wait_node", NULL) == EINVAL);
}

int main(void)
{
    CHECK(strcmp(ol_version(), OL_VERSION) == 0);
    counters_have_names();
    for (size_t i = 0; i < sizeof LOCKS / sizeof *LOCKS; i++) {
        fprintf(stderr, "%s\n", LOCKS[i].name);
        excludes(&LOCKS[i]);
        refuses_politely(&LOCKS[i]);
        calls_back(&LOCKS[i], takes_once);
        if (LOCKS[i].timedlock != NULL)
            calls_back(&LOCKS[i], takes_once_in_time);
    }
    CHECK(counted("lock_slowpath") > 0);
    CHECK(halts() > 0);
    CHECK(counted("pv_kick_unlock") > 0);
    return 0;
}
