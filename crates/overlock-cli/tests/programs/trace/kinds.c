// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread waits for each kind of lock once, while its holder sleeps for a time. Then the process forks; the child does
// the same with a mutex. At the end both kill themselves.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
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
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_spinlock_t spin;
static sem_t semaphore;
static mtx_t c11;
static atomic_int turn, passed, other;

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

static __attribute__((noinline)) void for_mutex(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static __attribute__((noinline)) void child(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static __attribute__((noinline)) void for_c11(void) {
    mtx_lock(&c11);
    mtx_unlock(&c11);
}

static __attribute__((noinline)) void for_reader(void) {
    pthread_rwlock_rdlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
}

static __attribute__((noinline)) void for_writer(void) {
    pthread_rwlock_wrlock(&rwlock);
    pthread_rwlock_unlock(&rwlock);
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

static __attribute__((noinline)) void for_semaphore(void) { sem_wait(&semaphore); }

static __attribute__((noinline)) void for_barrier(void) { pthread_barrier_wait(&barrier); }

static void *waits(void *unused) {
    other = gettid();
    void (*const steps[])(void) = {for_mutex, for_c11, for_writer, for_reader, for_spin, for_semaphore, for_barrier};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        atomic_fetch_add(&turn, 1);
        steps[i]();
        atomic_store(&passed, (int)i + 1);
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
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_spin_init(&spin, 0);
    sem_init(&semaphore, 0, 0);
    mtx_init(&c11, mtx_plain);
    pthread_mutex_lock(&mutex);
    mtx_lock(&c11);
    pthread_create(&thread, NULL, waits, NULL);
    until(1);
    pthread_mutex_unlock(&mutex);
    pthread_rwlock_wrlock(&rwlock);
    atomic_fetch_add(&turn, 1);
    until(3);
    mtx_unlock(&c11);
    atomic_fetch_add(&turn, 1);
    until(5);
    pthread_rwlock_unlock(&rwlock);
    while (atomic_load(&passed) < 3) nap(1);
    pthread_rwlock_wrlock(&rwlock);
    atomic_fetch_add(&turn, 1);
    until(7);
    pthread_rwlock_unlock(&rwlock);
    pthread_spin_lock(&spin);
    atomic_fetch_add(&turn, 1);
    until_spins(9);
    pthread_spin_unlock(&spin);
    atomic_fetch_add(&turn, 1);
    until(11);
    sem_post(&semaphore);
    atomic_fetch_add(&turn, 1);
    until(13);
    pthread_barrier_wait(&barrier);
    atomic_fetch_add(&turn, 1);
    until(15);
    pthread_mutex_lock(&mutex);
    long before = sleeps();
    pthread_cond_signal(&cond);
    while (sleeps() == before) nap(1);
    nap(50);
    pthread_mutex_unlock(&mutex);
    until(16);
    forks();
    kill(getpid(), SIGKILL);
}
