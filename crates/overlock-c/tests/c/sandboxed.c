/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * All locks behind a filter that kills for every system call but those that MANUAL.md names.
 *
 *     sandboxed CALL ACTION
 *
 * CALL is one of these calls, for which the filter does ACTION instead: "refuse" or "kill".
 */
#define _GNU_SOURCE
#include "check.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 5000 };

static const struct {
    const char *name;
    unsigned int number;
} named[] = {
    { "futex", SYS_futex },
    { "nanosleep", SYS_nanosleep },
    { "clock_gettime", SYS_clock_gettime },
    { "membarrier", SYS_membarrier },
};

/* What the program itself needs until its end. */
static const unsigned int own[] = { SYS_exit, SYS_exit_group, SYS_write, SYS_madvise, SYS_munmap, SYS_rt_sigprocmask,
                                    SYS_clock_nanosleep };

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void put_up_sandbox(const char *special, const char *action)
{
    struct sock_filter filter[2 * (COUNT(named) + COUNT(own)) + 2];
    unsigned short n = 0;
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT(named) + COUNT(own); i++) {
        bool is_named = i < COUNT(named);
        unsigned int number = is_named ? named[i].number : own[i - COUNT(named)];
        unsigned int result = SECCOMP_RET_ALLOW;
        if (is_named && strcmp(named[i].name, special) == 0)
            result = strcmp(action, "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | EPERM;
        filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
        filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, result);
    }
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog program = { n, filter };
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
}

static pthread_barrier_t sandboxed;
static const struct timespec moment = { 0, 1000 };

#define LOCK(X)                                           \
    static ol_##X##_t X##_lock;                           \
    static unsigned long X##_sum;                         \
    static void X##_adds(void)                            \
    {                                                     \
        for (int round = 0; round < ROUNDS; round++) {    \
            ol_##X##_lock(&X##_lock);                     \
            X##_sum++;                                    \
            if (round % 512 == 0)                         \
                nanosleep(&moment, NULL);                 \
            ol_##X##_unlock(&X##_lock);                   \
        }                                                 \
    }

LOCK(hybrid)
LOCK(queued)
LOCK(ticket)
LOCK(test_and_set)
LOCK(shared)

static void *adds(void *unused)
{
    /* Once when it has started, and once when the filter is there. */
    pthread_barrier_wait(&sandboxed);
    pthread_barrier_wait(&sandboxed);
    hybrid_adds();
    queued_adds();
    ticket_adds();
    test_and_set_adds();
    shared_adds();
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    CHECK(argc == 3);
    CHECK(pthread_barrier_init(&sandboxed, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, adds, NULL) == 0);
    pthread_barrier_wait(&sandboxed);
    put_up_sandbox(argv[1], argv[2]);
    pthread_barrier_wait(&sandboxed);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    const unsigned long all = (unsigned long)THREADS * ROUNDS;
    CHECK(hybrid_sum == all && queued_sum == all && ticket_sum == all);
    CHECK(test_and_set_sum == all && shared_sum == all);
    return 0;
}
