// SPDX-License-Identifier: MIT OR Apache-2.0
// Two threads take two mutexes in opposite order, and wait for each other for ever, or "timed", until a deadline; or a
// process is "forked" while a thread has a mutex that it needs, too.
#include "truth.h"

#include <signal.h>
#include <sys/wait.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static int is_timed, is_forked;

static struct timespec soon(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_sec += 4;
    return at;
}

static __attribute__((noinline)) void first(void) {
    struct timespec at = soon();
    if ((is_timed ? pthread_mutex_timedlock(&b, &at) : pthread_mutex_lock(&b)) == 0) pthread_mutex_unlock(&b);
}

static __attribute__((noinline)) void second(void) {
    struct timespec at = soon();
    if ((is_timed ? pthread_mutex_timedlock(&a, &at) : pthread_mutex_lock(&a)) == 0) pthread_mutex_unlock(&a);
}

// The child's only thread needs a mutex that was copied while another one had it.
static void forks(void) {
    pid_t child = fork();
    if (child == 0) {
        first();
        _exit(0);
    }
    nap(1000000000);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    _exit(0);
}

static void *other(void *unused) {
    pthread_mutex_lock(&b);
    pthread_barrier_wait(&both);
    if (!is_forked) second();
    pause();
    return unused;
}

int main(int count, char **names) {
    pthread_t thread;
    is_timed = count > 1 && strcmp(names[1], "timed") == 0;
    is_forked = count > 1 && strcmp(names[1], "forked") == 0;
    pthread_barrier_init(&both, NULL, 2);
    pthread_mutex_lock(&a);
    pthread_create(&thread, NULL, other, NULL);
    pthread_barrier_wait(&both);
    // By now the other thread is about to sleep.
    nap(200000000);
    if (is_forked) forks();
    puts("hangs");
    fflush(stdout);
    first();
}
