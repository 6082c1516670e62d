// SPDX-License-Identifier: MIT OR Apache-2.0
// Two threads take two mutexes in opposite order, and wait for each other for ever.
#include "truth.h"

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;

static __attribute__((noinline)) void first(void) {
    pthread_mutex_lock(&b);
    pthread_mutex_unlock(&b);
}

static __attribute__((noinline)) void second(void) {
    pthread_mutex_lock(&a);
    pthread_mutex_unlock(&a);
}

static void *other(void *unused) {
    pthread_mutex_lock(&b);
    pthread_barrier_wait(&both);
    second();
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_barrier_init(&both, NULL, 2);
    pthread_mutex_lock(&a);
    pthread_create(&thread, NULL, other, NULL);
    pthread_barrier_wait(&both);
    // By now the other thread is about to sleep.
    nap(200000000);
    puts("hangs");
    fflush(stdout);
    first();
}
