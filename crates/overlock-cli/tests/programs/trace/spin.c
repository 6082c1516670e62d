// SPDX-License-Identifier: MIT OR Apache-2.0
// A spin lock of the program's own, whose holder shares its processor with a neighbour.
#include "truth.h"

static atomic_int word;
static atomic_long spun, all;

static __attribute__((noinline)) void spin_lock(void) {
    while (atomic_exchange_explicit(&word, 1, memory_order_acquire)) {
        while (atomic_load_explicit(&word, memory_order_relaxed)) __builtin_ia32_pause();
    }
}

static void *holder(void *unused) {
    pin(0);
    for (int64_t end = now() + 1000000000; now() < end;) {
        spin_lock();
        burn(5000000);
        atomic_store(&word, 0);
        usleep(100);
    }
    atomic_store(&is_over, 1);
    return unused;
}

int main(void) {
    pthread_t busy, thread;
    pthread_create(&busy, NULL, neighbour, (void *)0);
    pthread_create(&thread, NULL, holder, NULL);
    pin(1);
    while (!is_over) {
        int64_t used = cpu();
        spin_lock();
        atomic_fetch_add(&spun, cpu() - used);
        atomic_store(&word, 0);
        usleep(1000);
    }
    pthread_join(thread, NULL);
    pthread_join(busy, NULL);
    atomic_store(&all, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
    printf("{\"kind\":\"truth\",\"spun\":%ld,\"cpu\":%ld}\n", (long)spun, (long)all);
}
