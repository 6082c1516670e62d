// SPDX-License-Identifier: MIT OR Apache-2.0
// Two readers take turns: one leaves the lock when the other has it, and comes back before that one leaves. A writer
// waits all the while, and neither reader ever does.
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <unistd.h>

enum { ROUNDS = 150, WRITER_WAITS = 2 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t both;
static sem_t turns[2];
// How often a reader has come back past the writer. It belongs to the one whose turn it is.
static int rounds;

static void *reads(void *of) {
    intptr_t me = (intptr_t)of;
    pthread_rwlock_rdlock(&lock);
    pthread_barrier_wait(&both);
    for (sem_wait(&turns[me]); rounds < ROUNDS; sem_wait(&turns[me])) {
        pthread_rwlock_unlock(&lock);
        pthread_rwlock_rdlock(&lock);
        usleep(1000);
        // The C library's memory of the lock says whether a writer waits for it.
        rounds += (__atomic_load_n(&lock.__data.__readers, __ATOMIC_RELAXED) & WRITER_WAITS) != 0;
        sem_post(&turns[1 - me]);
    }
    sem_post(&turns[1 - me]);
    pthread_rwlock_unlock(&lock);
    return NULL;
}

static void *writes(void *unused) {
    pthread_barrier_wait(&both);
    pthread_rwlock_wrlock(&lock);
    pthread_rwlock_unlock(&lock);
    return unused;
}

int main(void) {
    pthread_t threads[3];
    pthread_barrier_init(&both, NULL, 3);
    sem_init(&turns[0], 0, 1);
    sem_init(&turns[1], 0, 0);
    for (intptr_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, reads, (void *)i);
    pthread_create(&threads[2], NULL, writes, NULL);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
}
