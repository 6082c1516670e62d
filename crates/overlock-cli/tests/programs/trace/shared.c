// SPDX-License-Identifier: MIT OR Apache-2.0
// A process waits for a mutex that it shares with its child. The child's holder waits inside for a mutex of its own,
// whose holder sleeps for a time.
#include "truth.h"
#include <sys/mman.h>
#include <sys/wait.h>

enum { ROUNDS = 10 };

static struct shared {
    pthread_mutex_t lock;
    sem_t asked, answered;
} *shared;

static pthread_mutex_t inner = PTHREAD_MUTEX_INITIALIZER;
static sem_t sleeps, is_asleep;

static void *sleeper(void *unused) {
    for (;;) {
        sem_wait(&sleeps);
        pthread_mutex_lock(&inner);
        sem_post(&is_asleep);
        nap(30000000);
        pthread_mutex_unlock(&inner);
    }
    return unused;
}

static __attribute__((noinline)) void takes_inner(void) {
    pthread_mutex_lock(&inner);
    pthread_mutex_unlock(&inner);
}

static void child(void) {
    pthread_t thread;
    sem_init(&sleeps, 0, 0);
    sem_init(&is_asleep, 0, 0);
    pthread_create(&thread, NULL, sleeper, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&shared->lock);
        sem_post(&sleeps);
        sem_wait(&is_asleep);
        sem_post(&shared->asked);
        takes_inner();
        pthread_mutex_unlock(&shared->lock);
        sem_wait(&shared->answered);
    }
    _exit(0);
}

static __attribute__((noinline)) void waits_for_child(void) {
    pthread_mutex_lock(&shared->lock);
    pthread_mutex_unlock(&shared->lock);
}

int main(void) {
    pthread_mutexattr_t attributes;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 3;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&shared->lock, &attributes);
    sem_init(&shared->asked, 1, 0);
    sem_init(&shared->answered, 1, 0);
    pid_t process = fork();
    if (process == 0) child();
    for (int i = 0; i < ROUNDS; i++) {
        sem_wait(&shared->asked);
        waits_for_child();
        sem_post(&shared->answered);
    }
    int status;
    return waitpid(process, &status, 0) == process && status == 0 ? 0 : 3;
}
