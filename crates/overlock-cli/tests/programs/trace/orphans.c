// SPDX-License-Identifier: MIT OR Apache-2.0
// The first thread ends before another one begins to wait for a lock.
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

// The C library's memory of a mutex says that a thread waits for it.
enum { WAITER = 2 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t is_held;

static bool first_has_ended(void) {
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
    FILE *file = fopen(path, "r");
    if (file == NULL) return true;
    if (fscanf(file, "%*d %*s %c", &state) != 1) state = '?';
    fclose(file);
    return state == 'Z' || state == 'X';
}

static void *holds(void *unused) {
    pthread_mutex_lock(&mutex);
    sem_post(&is_held);
    while (__atomic_load_n(&mutex.__data.__lock, __ATOMIC_RELAXED) != WAITER) usleep(1000);
    usleep(100000);
    pthread_mutex_unlock(&mutex);
    return unused;
}

static void *waits_alone(void *unused) {
    sem_wait(&is_held);
    while (!first_has_ended()) usleep(1000);
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return unused;
}

int main(void) {
    pthread_t threads[2];
    sem_init(&is_held, 0, 0);
    pthread_create(&threads[0], NULL, holds, NULL);
    pthread_create(&threads[1], NULL, waits_alone, NULL);
    pthread_exit(NULL);
}
