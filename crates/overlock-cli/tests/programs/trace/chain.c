// SPDX-License-Identifier: MIT OR Apache-2.0
// The holder waits for a second lock, whose holder sleeps for a time.
#include "truth.h"

static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER;
static sem_t take, taken;

static void *holds_inner(void *unused) {
    for (;;) {
        sem_wait(&take);
        pthread_mutex_lock(&inner);
        sem_post(&taken);
        usleep(20000);
        pthread_mutex_unlock(&inner);
    }
    return unused;
}

static __attribute__((noinline)) void takes_inner(void) {
    pthread_mutex_lock(&inner);
    pthread_mutex_unlock(&inner);
}

static void section(void) {
    sem_post(&take);
    sem_wait(&taken);
    takes_inner();
}

int main(void) {
    pthread_t thread;
    sem_init(&take, 0, 0);
    sem_init(&taken, 0, 0);
    pthread_create(&thread, NULL, holds_inner, NULL);
    experiment(20, section);
}
