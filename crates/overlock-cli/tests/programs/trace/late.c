// SPDX-License-Identifier: MIT OR Apache-2.0
// The lock goes to a waiter whose processor is taken by a more important neighbour.
#include "truth.h"

static void *important(void *unused) {
    struct sched_param first = {.sched_priority = 1};
    pin(1);
    if (sched_setscheduler(0, SCHED_FIFO, &first)) {
        perror("sched_setscheduler");
        exit(3);
    }
    // Busy for 20 ms of each 25.
    while (!is_over) {
        for (int64_t end = now() + 20000000; now() < end;) {
        }
        usleep(5000);
    }
    return unused;
}

static void section(void) { burn(2000000); }

int main(void) {
    pthread_t busy;
    waiter_cpu = 1;
    pthread_create(&busy, NULL, important, NULL);
    pin(0);
    experiment(20, section);
}
