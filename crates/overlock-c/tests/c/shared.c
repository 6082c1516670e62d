/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The lock for several processes: exclusion through a mapping, a kick across processes, and a
 * holder that is killed. */
#define _DEFAULT_SOURCE
#include "processes.h"

/* The mapping's zero bytes are an unlocked lock. */
struct pool {
    ol_shared_t lock;
    volatile long sum;
    volatile int stage;
};

static void adds(void)
{
    for (int round = 0; round < ROUNDS; round++) {
        ol_shared_lock(&pool->lock);
        add_one(&pool->sum, round);
        ol_shared_unlock(&pool->lock);
    }
}

static void halts_until_called(void)
{
    ol_shared_lock(&pool->lock);
    CHECK(pool->stage == 1);
    CHECK(halts() > 0);
    ol_shared_unlock(&pool->lock);
}

static void calls_back(void)
{
    ol_shared_lock(&pool->lock);
    pid_t waiter = child(halts_until_called);
    /* A waiter that is about to halt marks the word. */
    while (!(__atomic_load_n(&pool->lock.word, __ATOMIC_RELAXED) & OL_SHARED_SLOW))
        sched_yield();
    pool->stage = 1;
    ol_shared_unlock(&pool->lock);
    ended_well(waiter);
}

static void takes_it_and_sleeps(void)
{
    ol_shared_lock(&pool->lock);
    pool->stage = 2;
    for (;;)
        pause();
}

/* As documented: the lock is not robust. A timed acquisition notices, and a process that
 * knows that no other uses the lock can initialise it again. */
static void survives_no_holder(void)
{
    pid_t holder = child(takes_it_and_sleeps);
    while (pool->stage != 2)
        sched_yield();
    killed(holder);
    CHECK(ol_shared_trylock(&pool->lock) == EBUSY);
    struct timespec soon = after_ms(20);
    CHECK(ol_shared_timedlock(&pool->lock, &soon) == ETIMEDOUT);
    memset(&pool->lock, 0, sizeof pool->lock);
    CHECK(ol_shared_trylock(&pool->lock) == 0);
    ol_shared_unlock(&pool->lock);
}

int main(void)
{
    map_pool(sizeof *pool);
    add_in_processes(adds, &pool->sum);
    calls_back();
    survives_no_holder();
    return 0;
}
