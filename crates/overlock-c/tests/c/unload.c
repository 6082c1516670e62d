/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread that has waited for a lock outlives the library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "check.h"

typedef void lock_slow(void *lock, uint32_t ticket);

static lock_slow *ticket_lock_slow;
static pthread_barrier_t barrier;

static void *locks_and_stays(void *unused)
{
    static uint32_t lock;
    /* The slow path of a free lock: it takes a number for this thread all the same. */
    ticket_lock_slow(&lock, 0xffffffffu);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    void *library = dlopen(argv[1], RTLD_NOW);
    CHECK(library != NULL);
    *(void **)&ticket_lock_slow = dlsym(library, "ol_ticket_lock_slow");
    CHECK(ticket_lock_slow != NULL);
    pthread_t thread;
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, locks_and_stays, NULL) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(dlclose(library) == 0);
    CHECK(dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) == NULL);
    pthread_barrier_wait(&barrier);
    CHECK(pthread_join(thread, NULL) == 0);
    return 0;
}
