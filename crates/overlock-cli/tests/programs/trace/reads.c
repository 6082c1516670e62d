// SPDX-License-Identifier: MIT OR Apache-2.0
// The holder reads from a pipe into which another thread writes late.
#include "truth.h"

static int ends[2];
static sem_t wanted;

static void *writer(void *unused) {
    for (;;) {
        sem_wait(&wanted);
        usleep(20000);
        if (write(ends[1], "x", 1) != 1) exit(3);
    }
    return unused;
}

static void section(void) {
    char byte;
    sem_post(&wanted);
    if (read(ends[0], &byte, 1) != 1) exit(3);
}

int main(void) {
    pthread_t thread;
    if (pipe(ends)) return 3;
    sem_init(&wanted, 0, 0);
    pthread_create(&thread, NULL, writer, NULL);
    experiment(20, section);
}
