// SPDX-License-Identifier: MIT OR Apache-2.0
// What the programs of this folder share. A holder takes a lock, waits until a waiter is about to
// wait for it, and then does one thing on purpose inside its critical section. It keeps its own
// record of what that cost, by its clocks, and prints it at the end: what a trace should say.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t asked, answered;
static atomic_int about_to_wait, is_over;
static int waiter_cpu = -1;

// The record, in nanoseconds: for how long the holder ran in its sections, could run but did not,
// and slept; how much of the second was the quota's; how late the waiter was for the free lock; and
// how long it waited in all.
static int64_t ran, delayed, asleep, throttled, late, waited;

static int64_t clock_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int64_t now(void) { return clock_ns(CLOCK_MONOTONIC); }
static int64_t cpu(void) { return clock_ns(CLOCK_THREAD_CPUTIME_ID); }

// Returns for how long this thread could run and did not, by the kernel's own account.
static int64_t delay(void) {
    long used, waiting;
    FILE *file = fopen("/proc/thread-self/schedstat", "r");
    if (!file || fscanf(file, "%ld %ld", &used, &waiting) != 2) exit(3);
    fclose(file);
    return waiting;
}

static inline void burn(int64_t ns) {
    for (int64_t end = cpu() + ns; cpu() < end;) {
    }
}

static inline void nap(int64_t ns) {
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    nanosleep(&t, NULL);
}

static inline void pin(int to) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(to, &set);
    if (to >= 0 && sched_setaffinity(0, sizeof set, &set)) {
        perror("sched_setaffinity");
        exit(3);
    }
}

// A thread that wants the processor all the time.
static inline void *neighbour(void *to) {
    pin((int)(intptr_t)to);
    while (!is_over) {
        for (volatile int i = 0; i < 10000; i++) {
        }
    }
    return NULL;
}

static int64_t released;

static __attribute__((noinline)) void waits(void) {
    atomic_store(&about_to_wait, 1);
    int64_t start = now();
    pthread_mutex_lock(&lock);
    int64_t got = now();
    waited += got - start;
    late += got - released;
    pthread_mutex_unlock(&lock);
}

static void *waiter(void *rounds) {
    pin(waiter_cpu);
    for (intptr_t i = 0; i < (intptr_t)rounds; i++) {
        sem_wait(&asked);
        waits();
        sem_post(&answered);
    }
    return NULL;
}

// Returns when the waiter is about to sleep, and has had time to do so.
static void until_waiter_sleeps(void) {
    while (!atomic_exchange(&about_to_wait, 0)) {
        struct timespec t = {0, 50000};
        nanosleep(&t, NULL);
    }
    struct timespec t = {0, 200000};
    nanosleep(&t, NULL);
}

// Runs rounds of `section` under the lock while the waiter waits, and prints the record.
static inline void experiment(intptr_t rounds, void (*section)(void)) {
    pthread_t thread;
    sem_init(&asked, 0, 0);
    sem_init(&answered, 0, 0);
    pthread_create(&thread, NULL, waiter, (void *)rounds);
    for (intptr_t i = 0; i < rounds; i++) {
        pthread_mutex_lock(&lock);
        sem_post(&asked);
        until_waiter_sleeps();
        int64_t start = now(), used = cpu(), without = delay();
        section();
        used = cpu() - used;
        without = delay() - without;
        ran += used;
        delayed += without;
        asleep += now() - start - used - without;
        released = now();
        pthread_mutex_unlock(&lock);
        sem_wait(&answered);
    }
    atomic_store(&is_over, 1);
    pthread_join(thread, NULL);
    printf("{\"kind\":\"truth\",\"rounds\":%ld,\"ran\":%ld,\"delayed\":%ld,\"asleep\":%ld,\"throttled\":%ld,"
           "\"late\":%ld,\"waited\":%ld}\n", (long)rounds, (long)ran, (long)delayed, (long)asleep, (long)throttled,
           (long)late, (long)waited);
}
