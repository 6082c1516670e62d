// SPDX-License-Identifier: MIT OR Apache-2.0
// A thread does nothing but wait in a loop, until it has had some processor time.
#include "truth.h"

static atomic_int word = 1;

static __attribute__((noinline)) void spin_lock(void) {
    while (atomic_load_explicit(&word, memory_order_relaxed)) __builtin_ia32_pause();
}

static void *spins(void *unused) {
    spin_lock();
    return unused;
}

int main(void) {
    pthread_t thread;
    clockid_t clock;
    pthread_create(&thread, NULL, spins, NULL);
    pthread_getcpuclockid(thread, &clock);
    while (clock_ns(clock) < 250000000) nap(1000000);
    atomic_store(&word, 0);
    pthread_join(thread, NULL);
}
