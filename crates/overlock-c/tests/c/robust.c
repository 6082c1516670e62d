/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The mutex that outlives its holder: exclusion between processes, holders that are killed, and threads that end.
 *
 * With -DBROKEN no death is reported, and the program must fail or hang: this shows that it can.
 */
#define _DEFAULT_SOURCE
#include <linux/futex.h>
#include <sys/syscall.h>

#include "processes.h"

#ifdef BROKEN
/* A mutex that processes share, and that is not robust. */
#define ol_robust_init(lock) init_fragile(lock)
static int init_fragile(ol_robust_t *lock)
{
    pthread_mutexattr_t attributes;
    void *mutex = lock;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    CHECK(pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED) == 0);
    CHECK(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK) == 0);
    return pthread_mutex_init(mutex, &attributes);
}
#endif

enum { DEATHS = 50 };

/* `debit + credit` is zero unless a process is changing them. */
struct pool {
    ol_robust_t lock;
    volatile long sum, debit, credit;
    volatile int stage;
};

static void until_stage(int stage)
{
    while (pool->stage != stage)
        sched_yield();
}

static void anew(void)
{
    memset(pool, 0, sizeof *pool);
    CHECK(ol_robust_init(&pool->lock) == 0);
}

static void adds(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(ol_robust_lock(&pool->lock) == 0);
        add_one(&pool->sum, round);
        ol_robust_unlock(&pool->lock);
    }
}

static void excludes(void)
{
    anew();
    add_in_processes(adds, &pool->sum);
}

/* Whether the kernel would look into a mutex for which this thread waits, if the thread ended now. */
static int is_under_way(void)
{
    struct robust_list_head *head;
    size_t size;
    CHECK(syscall(SYS_get_robust_list, 0, &head, &size) == 0);
    return head->list_op_pending != NULL;
}

static void finds_it_taken(void)
{
    struct timespec at = after_ms(20);
    CHECK(ol_robust_trylock(&pool->lock) == EBUSY);
    CHECK(ol_robust_timedlock(&pool->lock, &at) == ETIMEDOUT);
    CHECK(has_passed(&at));
    CHECK(!is_under_way());
    CHECK(ol_robust_timedlock(&pool->lock, NULL) == EINVAL);
    at.tv_nsec = 1000000000;
    CHECK(ol_robust_timedlock(&pool->lock, &at) == EINVAL);
}

static void refuses(void)
{
    struct timespec at = after_ms(-1000);
    anew();
    CHECK(ol_robust_consistent(&pool->lock) == EINVAL);
    CHECK(ol_robust_timedlock(&pool->lock, &at) == 0);
    ended_well(child(finds_it_taken));
    ol_robust_unlock(&pool->lock);
    CHECK(ol_robust_trylock(&pool->lock) == 0);
    ol_robust_unlock(&pool->lock);
}

static void takes_it_and_sleeps(void)
{
    CHECK(ol_robust_lock(&pool->lock) == 0);
    pool->debit = -5;
    pool->stage = 1;
    for (;;)
        pause();
}

static void is_told(void)
{
    pool->stage = 2;
    CHECK(ol_robust_lock(&pool->lock) == EOWNERDEAD);
    CHECK(pool->debit == -5 && pool->credit == 0);
    pool->credit = 5;
    CHECK(ol_robust_consistent(&pool->lock) == 0);
    ol_robust_unlock(&pool->lock);
}

static void sleeps_until_it_is_in_order(void)
{
    pool->stage = 2;
    int error = ol_robust_lock(&pool->lock);
    CHECK(error == 0 || error == EOWNERDEAD);
    if (error == EOWNERDEAD) {
        pool->credit = 5;
        CHECK(ol_robust_consistent(&pool->lock) == 0);
    }
    CHECK(pool->debit + pool->credit == 0);
    ol_robust_unlock(&pool->lock);
}

/* The holder dies before anyone waits. */
static void tells_the_next(void)
{
    anew();
    pid_t holder = child(takes_it_and_sleeps);
    until_stage(1);
    killed(holder);
    ended_well(child(is_told));
    CHECK(ol_robust_trylock(&pool->lock) == 0);
    CHECK(ol_robust_consistent(&pool->lock) == EINVAL);
    ol_robust_unlock(&pool->lock);
}

/* The holder dies while others sleep: one of them is told, and all get the lock. */
static void tells_a_waiter(void)
{
    pid_t waiters[PROCESSES];
    anew();
    pid_t holder = child(takes_it_and_sleeps);
    until_stage(1);
    for (int i = 0; i < PROCESSES; i++) {
        waiters[i] = child(sleeps_until_it_is_in_order);
        until_stage(2);
        pool->stage = 1;
    }
    usleep(50000);
    killed(holder);
    for (int i = 0; i < PROCESSES; i++)
        ended_well(waiters[i]);
    CHECK(pool->credit == 5);
}

static void leaves_it_in_disorder(void)
{
    CHECK(ol_robust_lock(&pool->lock) == EOWNERDEAD);
    pool->stage = 3;
    until_stage(4);
    usleep(50000);
    ol_robust_unlock(&pool->lock);
}

static void gets_it_no_more(void)
{
    CHECK(ol_robust_lock(&pool->lock) == ENOTRECOVERABLE);
}

/* What is released without having been repaired is given up, for waiters too, until it is made anew. */
static void gives_up_what_is_not_repaired(void)
{
    pid_t waiters[PROCESSES];
    anew();
    pid_t holder = child(takes_it_and_sleeps);
    until_stage(1);
    killed(holder);
    pid_t careless = child(leaves_it_in_disorder);
    until_stage(3);
    for (int i = 0; i < PROCESSES; i++)
        waiters[i] = child(gets_it_no_more);
    pool->stage = 4;
    ended_well(careless);
    for (int i = 0; i < PROCESSES; i++)
        ended_well(waiters[i]);
    struct timespec at = after_ms(1000);
    CHECK(ol_robust_trylock(&pool->lock) == ENOTRECOVERABLE);
    CHECK(ol_robust_timedlock(&pool->lock, &at) == ENOTRECOVERABLE);
    anew();
    CHECK(ol_robust_trylock(&pool->lock) == 0);
    ol_robust_unlock(&pool->lock);
}

/* Moves money until it is killed. */
static void moves(void)
{
    for (;;) {
        int error = ol_robust_lock(&pool->lock);
        CHECK(error == 0 || error == EOWNERDEAD);
        if (error == EOWNERDEAD) {
            pool->credit = -pool->debit;
            CHECK(ol_robust_consistent(&pool->lock) == 0);
        }
        CHECK(pool->debit + pool->credit == 0);
        pool->debit -= 1;
        pool->credit += 1;
        pool->sum++;
        ol_robust_unlock(&pool->lock);
    }
}

/* Wherever a process is killed, while it holds the mutex or waits or neither, the others go on. */
static void survives_deaths_at_any_moment(void)
{
    pid_t movers[PROCESSES];
    anew();
    for (int i = 0; i < PROCESSES; i++)
        movers[i] = child(moves);
    for (int death = 0; death < DEATHS; death++) {
        long before = pool->sum;
        while (pool->sum < before + 100 + death)
            sched_yield();
        killed(movers[death % PROCESSES]);
        movers[death % PROCESSES] = child(moves);
    }
    for (int i = 0; i < PROCESSES; i++)
        killed(movers[i]);
}

static void *ends_with_it(void *unused)
{
    CHECK(ol_robust_lock(&pool->lock) == 0);
    return unused;
}

/* A thread's end is enough. */
static void tells_of_threads(void)
{
    pthread_t thread;
    anew();
    CHECK(pthread_create(&thread, NULL, ends_with_it, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(ol_robust_lock(&pool->lock) == EOWNERDEAD);
    CHECK(ol_robust_consistent(&pool->lock) == 0);
    ol_robust_unlock(&pool->lock);
}

int main(void)
{
    map_pool(sizeof *pool);
    excludes();
    refuses();
    tells_the_next();
    tells_a_waiter();
    gives_up_what_is_not_repaired();
    tells_of_threads();
    survives_deaths_at_any_moment();
    return 0;
}
