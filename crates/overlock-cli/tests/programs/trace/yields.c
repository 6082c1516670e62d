// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread waits in a loop that yields, until it has had some processor time.
#include "truth.h"

static atomic_int word = 1;

static __attribute__((noinline)) void yields(void) {
    while (atomic_load_explicit(&word, memory_order_relaxed)) sched_yield();
}

static void *waits_on(void *unused) {
    yields();
    return unused;
}

int main(void) {
    pthread_t thread;
    clockid_t clock;
    pthread_create(&thread, NULL, waits_on, NULL);
    pthread_getcpuclockid(thread, &clock);
    // Seldom: beside other work this takes minutes, and looking is processor time, too.
    while (clock_ns(clock) < 250000000) nap(20000000);
    atomic_store(&word, 0);
    pthread_join(thread, NULL);
}
