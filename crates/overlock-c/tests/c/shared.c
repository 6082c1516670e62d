/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The lock for several processes: exclusion through a mapping, a kick across processes, and a
 * holder that is killed. */
#define _DEFAULT_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { PROCESSES = 3, ROUNDS = 20000, YIELD_EVERY = 64 };

/* The shared memory. The mapping's zero bytes are an unlocked lock. */
struct pool {
    ol_shared_t lock;
    volatile unsigned long sum;
    volatile int stage;
};

static struct pool *pool;

static pid_t child(void (*body)(void))
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        body();
        _Exit(0);
    }
    return pid;
}

static void ended_well(pid_t pid)
{
    int status;
    CHECK(waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void adds(void)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        ol_shared_lock(&pool->lock);
        unsigned long old = pool->sum;
        if (round % YIELD_EVERY == 0)
            sched_yield();
        pool->sum = old + 1;
        ol_shared_unlock(&pool->lock);
    }
}

static void excludes(void)
{
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        children[i] = child(adds);
    adds();
    for (int i = 0; i < PROCESSES; i++)
        ended_well(children[i]);
    CHECK(pool->sum == (unsigned long)(PROCESSES + 1) * ROUNDS);
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
    CHECK(kill(holder, SIGKILL) == 0);
    int status;
    CHECK(waitpid(holder, &status, 0) == holder && WIFSIGNALED(status));
    CHECK(ol_shared_trylock(&pool->lock) == EBUSY);
    struct timespec soon = after_ms(20);
    CHECK(ol_shared_timedlock(&pool->lock, &soon) == ETIMEDOUT);
    memset(&pool->lock, 0, sizeof pool->lock);
    CHECK(ol_shared_trylock(&pool->lock) == 0);
    ol_shared_unlock(&pool->lock);
}

int main(void)
{
    pool = mmap(NULL, sizeof *pool, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(pool != MAP_FAILED);
    excludes();
    calls_back();
    survives_no_holder();
    return 0;
}
