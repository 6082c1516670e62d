// SPDX-License-Identifier: MIT OR Apache-2.0
// Locks are released by calls that no preloaded library sees, as if their holder had been about to release them when
// the waiter came, or in the midst of that. The holder sleeps meanwhile.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER, begun = PTHREAD_RWLOCK_INITIALIZER;
static sem_t is_held;

// The C library's memory of a lock says whether a thread waits for it.
enum { MUTEX_WAITER = 2, READER_SHIFT = 3 };

static void until_a_reader_waits(pthread_rwlock_t *of) {
    while (__atomic_load_n(&of->__data.__readers, __ATOMIC_RELAXED) >> READER_SHIFT == 0) usleep(1000);
}

static void *holds(void *unused) {
    void *libc = dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY);
    int (*unlock)(pthread_mutex_t *) = dlsym(libc, "pthread_mutex_unlock");
    int (*unlock_rw)(pthread_rwlock_t *) = dlsym(libc, "pthread_rwlock_unlock");
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&lock);
    pthread_rwlock_wrlock(&begun);
    // A release begins so.
    begun.__data.__cur_writer = 0;
    sem_post(&is_held);
    while (__atomic_load_n(&mutex.__data.__lock, __ATOMIC_RELAXED) != MUTEX_WAITER) usleep(1000);
    usleep(100000);
    unlock(&mutex);
    until_a_reader_waits(&lock);
    usleep(100000);
    unlock_rw(&lock);
    until_a_reader_waits(&begun);
    usleep(100000);
    // The C library looks there for who releases it.
    begun.__data.__cur_writer = gettid();
    unlock_rw(&begun);
    return unused;
}

static void waits_mutex(void) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

static void waits_read(void) {
    pthread_rwlock_rdlock(&lock);
    pthread_rwlock_unlock(&lock);
}

static void waits_begun(void) {
    pthread_rwlock_rdlock(&begun);
    pthread_rwlock_unlock(&begun);
}

int main(void) {
    pthread_t holder;
    sem_init(&is_held, 0, 0);
    pthread_create(&holder, NULL, holds, NULL);
    sem_wait(&is_held);
    waits_mutex();
    waits_read();
    waits_begun();
    pthread_join(holder, NULL);
}
