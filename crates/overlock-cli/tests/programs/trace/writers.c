// SPDX-License-Identifier: MIT OR Apache-2.0
// Writers take a read-write lock again and again, past each other. There are no readers.
#include <pthread.h>
#include <unistd.h>

enum { WRITERS = 3, ROUNDS = 100 };

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t all;

static void *writes(void *unused) {
    pthread_barrier_wait(&all);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_rwlock_wrlock(&lock);
        usleep(1000);
        pthread_rwlock_unlock(&lock);
    }
    return unused;
}

int main(void) {
    pthread_t threads[WRITERS];
    pthread_barrier_init(&all, NULL, WRITERS);
    for (int i = 0; i < WRITERS; i++) pthread_create(&threads[i], NULL, writes, NULL);
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
}
