/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads that make one pthread call each when told: differential.rs says which, and compares what they return.
 * argv[1] names the locks, one letter each. A line of the input is "thread verb lock mode until"; a line of the output
 * is "thread result", after one that tells the kernel's numbers of the threads.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 5, LOCKS = 4 };

struct order {
    int verb, lock, mode, until;
};

static union {
    pthread_mutex_t mutex;
    pthread_rwlock_t rwlock;
} locks[LOCKS];
static const char *kinds;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static int pipes[THREADS][2];
static int numbers[THREADS];

static int is_rwlock(int lock) { return kinds[lock] == 'R' || kinds[lock] == 'W'; }

/* Past, soon, later, an hour away. */
static struct timespec deadline(clockid_t clock, int until) {
    long after_ms = until == 'p' ? -2 : until == 's' ? 2 : until == 'l' ? 20 : 3600000;
    struct timespec at;
    clock_gettime(clock, &at);
    long long ns = at.tv_sec * 1000000000LL + at.tv_nsec + after_ms * 1000000LL;
    at.tv_sec = ns / 1000000000;
    at.tv_nsec = ns % 1000000000;
    return at;
}

static int acquire(int thread, struct order o) {
    pthread_mutex_t *m = &locks[o.lock].mutex;
    pthread_rwlock_t *r = &locks[o.lock].rwlock;
    int writes = o.mode == 'w';
    if (o.until == 'e')
        return !is_rwlock(o.lock) ? pthread_mutex_lock(m)
               : writes           ? pthread_rwlock_wrlock(r)
                                  : pthread_rwlock_rdlock(r);
    if (o.until == 't')
        return !is_rwlock(o.lock) ? pthread_mutex_trylock(m)
               : writes           ? pthread_rwlock_trywrlock(r)
                                  : pthread_rwlock_tryrdlock(r);
    /* Threads of even numbers have deadlines of the other calls. */
    if (thread % 2) {
        struct timespec at = deadline(CLOCK_REALTIME, o.until);
        return !is_rwlock(o.lock) ? pthread_mutex_timedlock(m, &at)
               : writes           ? pthread_rwlock_timedwrlock(r, &at)
                                  : pthread_rwlock_timedrdlock(r, &at);
    }
    struct timespec at = deadline(CLOCK_MONOTONIC, o.until);
    return !is_rwlock(o.lock) ? pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &at)
           : writes           ? pthread_rwlock_clockwrlock(r, CLOCK_MONOTONIC, &at)
                              : pthread_rwlock_clockrdlock(r, CLOCK_MONOTONIC, &at);
}

static int wait_for_condition(int thread, struct order o) {
    pthread_mutex_t *m = &locks[o.lock].mutex;
    if (o.until == 'e') return pthread_cond_wait(&cond, m);
    if (thread % 2) {
        struct timespec at = deadline(CLOCK_REALTIME, o.until);
        return pthread_cond_timedwait(&cond, m, &at);
    }
    struct timespec at = deadline(CLOCK_MONOTONIC, o.until);
    return pthread_cond_clockwait(&cond, m, CLOCK_MONOTONIC, &at);
}

/* So many read locks at once; returns how many there were. */
static int many_reads(pthread_rwlock_t *r, int count) {
    int had = 0;
    while (had < count && !pthread_rwlock_tryrdlock(r)) had++;
    for (int i = 0; i < had; i++) pthread_rwlock_unlock(r);
    return had;
}

static int make(int thread, struct order o) {
    switch (o.verb) {
    case 'a': return acquire(thread, o);
    case 'r':
        return is_rwlock(o.lock) ? pthread_rwlock_unlock(&locks[o.lock].rwlock)
                                 : pthread_mutex_unlock(&locks[o.lock].mutex);
    case 'm': return many_reads(&locks[o.lock].rwlock, o.mode);
    case 'c': return wait_for_condition(thread, o);
    case 's': return pthread_cond_signal(&cond);
    case 'b': return pthread_cond_broadcast(&cond);
    case 'B': return pthread_barrier_wait(&barrier);
    }
    abort();
}

static void *work(void *index) {
    int thread = (int)(long)index;
    __atomic_store_n(&numbers[thread], (int)syscall(SYS_gettid), __ATOMIC_RELEASE);
    char line[32];
    struct order o;
    while (read(pipes[thread][0], &o, sizeof o) == sizeof o) {
        int length = snprintf(line, sizeof line, "%d %d\n", thread, make(thread, o));
        if (write(1, line, length) != length) abort();
    }
    return NULL;
}

static void initialise(int lock) {
    pthread_mutexattr_t m;
    pthread_rwlockattr_t r;
    pthread_mutexattr_init(&m);
    pthread_rwlockattr_init(&r);
    switch (kinds[lock]) {
    case 'e': pthread_mutexattr_settype(&m, PTHREAD_MUTEX_ERRORCHECK); break;
    case 'r': pthread_mutexattr_settype(&m, PTHREAD_MUTEX_RECURSIVE); break;
    case 'a': pthread_mutexattr_settype(&m, PTHREAD_MUTEX_ADAPTIVE_NP); break;
    case 'W': pthread_rwlockattr_setkind_np(&r, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP); break;
    }
    if (is_rwlock(lock))
        pthread_rwlock_init(&locks[lock].rwlock, &r);
    else
        pthread_mutex_init(&locks[lock].mutex, &m);
}

int main(int argc, char **argv) {
    if (argc != 2 || strlen(argv[1]) > LOCKS) return 2;
    kinds = argv[1];
    for (int lock = 0; kinds[lock]; lock++) initialise(lock);
    pthread_barrier_init(&barrier, NULL, 2);
    for (long i = 0; i < THREADS; i++) {
        pthread_t thread;
        if (pipe(pipes[i]) || pthread_create(&thread, NULL, work, (void *)i)) return 2;
    }
    for (int i = 0; i < THREADS; i++)
        while (!__atomic_load_n(&numbers[i], __ATOMIC_ACQUIRE)) usleep(100);
    for (int i = 0; i < THREADS; i++) printf("%d%c", numbers[i], i + 1 < THREADS ? ' ' : '\n');
    fflush(stdout);
    int thread;
    char verb, until;
    struct order o;
    while (scanf("%d %c %d %d %c", &thread, &verb, &o.lock, &o.mode, &until) == 5) {
        o.verb = verb;
        o.until = until;
        if (write(pipes[thread][1], &o, sizeof o) != sizeof o) return 2;
    }
    _exit(0);
}
