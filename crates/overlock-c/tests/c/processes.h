/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the test programs whose processes share a lock. Each defines `pool`, and how it takes and releases
 * the lock. */
#ifndef PROCESSES_H
#define PROCESSES_H

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { PROCESSES = 3, ROUNDS = 20000, YIELD_EVERY = 64 };

/* The shared memory. */
static struct pool *pool;

static void map_pool(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    pool = memory;
}

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

static void killed(pid_t pid)
{
    int status;
    CHECK(kill(pid, SIGKILL) == 0);
    CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
}

/* Runs `adds`, which adds ROUNDS to `sum` one by one, in several processes at once. */
static void add_in_processes(void (*adds)(void), const volatile long *sum)
{
    pid_t children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++)
        children[i] = child(adds);
    adds();
    for (int i = 0; i < PROCESSES; i++)
        ended_well(children[i]);
    CHECK(*sum == (long)(PROCESSES + 1) * ROUNDS);
}

/* Adds one, where a lost update shows. */
static void add_one(volatile long *sum, int round)
{
    long old = *sum;
    if (round % YIELD_EVERY == 0)
        sched_yield();
    *sum = old + 1;
}

#endif
