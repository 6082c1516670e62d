// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread waits once for each kind of lock that waits.c has not, while its holder sleeps for a time. Then the process
// forks; the child does the same with a mutex. At the end both kill themselves.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static mtx_t c11;
static atomic_int turn, other;

static void nap(long ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

// Waits until the other thread sleeps, and holds on to the lock for a time.
static void until_asleep(void) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", atomic_load(&other));
    for (int i = 0; state != 'S'; i++) {
        FILE *file = fopen(path, "r");
        if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1 || i == 60000) exit(3);
        fclose(file);
        nap(1);
    }
    nap(50);
}

// Returns how often the other thread has gone to sleep.
static long sleeps(void) {
    char path[64], line[128];
    long count = -1;
    snprintf(path, sizeof path, "/proc/self/task/%d/status", atomic_load(&other));
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) sscanf(line, "voluntary_ctxt_switches: %ld", &count);
    if (count < 0) exit(3);
    fclose(file);
    return count;
}

// Waits until the other thread has said so often that it is about to wait, and sleeps.
static void until(int turns) {
    while (atomic_load(&turn) < turns) nap(1);
    until_asleep();
}

// The same of a spin lock, for which no thread sleeps.
static void until_spins(int turns) {
    while (atomic_load(&turn) < turns) nap(1);
    nap(200);
}

static __attribute__((noinline)) void child(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static __attribute__((noinline)) void for_c11(void) {
    mtx_lock(&c11);
    mtx_unlock(&c11);
}

static __attribute__((noinline)) void for_spin(void) {
    pthread_spin_lock(&spin);
    pthread_spin_unlock(&spin);
}

// It is signalled while the mutex is held, so it waits for that, too.
static __attribute__((noinline)) void for_condition(void) {
    pthread_mutex_lock(&mutex);
    atomic_fetch_add(&turn, 1);
    pthread_cond_wait(&cond, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void *waits(void *unused) {
    other = gettid();
    void (*const steps[])(void) = {for_c11, for_spin};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        atomic_fetch_add(&turn, 1);
        steps[i]();
        while (atomic_load(&turn) == (int)(2 * i + 1)) nap(1);
    }
    for_condition();
    atomic_fetch_add(&turn, 1);
    for (;;) nap(1000);
    return unused;
}

static void *child_waits(void *unused) {
    other = gettid();
    atomic_fetch_add(&turn, 1);
    child();
    atomic_fetch_add(&turn, 1);
    return unused;
}

static void forks(void) {
    pthread_t thread;
    if (fork() == 0) {
        turn = 0;
        pthread_mutex_lock(&mutex);
        pthread_create(&thread, NULL, child_waits, NULL);
        until(1);
        pthread_mutex_unlock(&mutex);
        pthread_join(thread, NULL);
        kill(getpid(), SIGKILL);
    }
    wait(NULL);
}

int main(void) {
    pthread_t thread;
    pthread_spin_init(&spin, 0);
    mtx_init(&c11, mtx_plain);
    mtx_lock(&c11);
    pthread_create(&thread, NULL, waits, NULL);
    until(1);
    pthread_spin_lock(&spin);
    mtx_unlock(&c11);
    atomic_fetch_add(&turn, 1);
    until_spins(3);
    pthread_spin_unlock(&spin);
    atomic_fetch_add(&turn, 1);
    until(5);
    pthread_mutex_lock(&mutex);
    long before = sleeps();
    pthread_cond_signal(&cond);
    while (sleeps() == before) nap(1);
    nap(50);
    pthread_mutex_unlock(&mutex);
    until(6);
    forks();
    kill(getpid(), SIGKILL);
}
