// SPDX-License-Identifier: MIT OR Apache-2.0
// What tracing costs. For a second, threads do as the argument says:
//   own      two threads take a mutex of their own each, and work for some 100 ns with and without it
//   contend  four threads take one mutex, and do nothing else
//   sleep    two threads wake each other in turns, so that most waits sleep
//   pipe     a thread writes to a pipe, and reads that, so that no call waits
// Prints how often they did.
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int is_over;
static atomic_long all;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static sem_t turns[2];

static void work(void) {
    for (volatile int i = 0; i < 100; i++) {
    }
}

static void *own(void *unused) {
    pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
    long count = 0;
    for (; !atomic_load_explicit(&is_over, memory_order_relaxed); count++) {
        pthread_mutex_lock(&mine);
        work();
        pthread_mutex_unlock(&mine);
        work();
    }
    atomic_fetch_add(&all, count);
    return unused;
}

static void *contend(void *unused) {
    long count = 0;
    for (; !atomic_load_explicit(&is_over, memory_order_relaxed); count++) {
        pthread_mutex_lock(&one);
        pthread_mutex_unlock(&one);
    }
    atomic_fetch_add(&all, count);
    return unused;
}

static void *sleeps(void *of) {
    long count = 0;
    for (; !atomic_load_explicit(&is_over, memory_order_relaxed); count++) {
        sem_wait(&turns[(intptr_t)of]);
        sem_post(&turns[1 - (intptr_t)of]);
    }
    sem_post(&turns[1 - (intptr_t)of]);
    atomic_fetch_add(&all, count);
    return NULL;
}

static void *calls(void *unused) {
    int pipes[2];
    char byte = 0;
    long count = 0;
    if (pipe(pipes) != 0) return unused;
    for (; !atomic_load_explicit(&is_over, memory_order_relaxed); count++)
        if (write(pipes[1], &byte, 1) != 1 || read(pipes[0], &byte, 1) != 1) break;
    atomic_fetch_add(&all, count);
    return unused;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "own";
    int count = strcmp(what, "contend") == 0 ? 4 : strcmp(what, "pipe") == 0 ? 1 : 2;
    void *(*run)(void *) = strcmp(what, "sleep") == 0     ? sleeps
                           : strcmp(what, "contend") == 0 ? contend
                           : strcmp(what, "pipe") == 0    ? calls
                                                          : own;
    pthread_t threads[4];
    sem_init(&turns[0], 0, 1);
    sem_init(&turns[1], 0, 0);
    for (intptr_t i = 0; i < count; i++) pthread_create(&threads[i], NULL, run, (void *)i);
    sleep(argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 1);
    atomic_store(&is_over, 1);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    printf("%ld\n", all);
}
