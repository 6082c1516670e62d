// SPDX-License-Identifier: MIT OR Apache-2.0
// Two threads wait for a lock of the program's own, by an instruction of its own: its holder sleeps for a time.
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>

static atomic_int word; // 1 is locked, 2 is locked with waiters

static void futex(long op, long value) {
    long result = SYS_futex;
    register void *until __asm__("r10") = NULL;
    __asm__ volatile("syscall" : "+a"(result) : "D"(&word), "S"(op), "d"(value), "r"(until) : "rcx", "r11", "memory");
}

static __attribute__((noinline)) void lock(void) {
    int unlocked = 0;
    if (atomic_compare_exchange_strong(&word, &unlocked, 1)) return;
    while (atomic_exchange(&word, 2)) futex(FUTEX_WAIT_PRIVATE, 2);
}

static void unlock(void) {
    if (atomic_exchange(&word, 0) == 2) futex(FUTEX_WAKE_PRIVATE, 1);
}

static void *works(void *unused) {
    for (int i = 0; i < 40; i++) {
        struct timespec t = {0, 5000000};
        lock();
        nanosleep(&t, NULL);
        unlock();
    }
    return unused;
}

int main(void) {
    pthread_t thread;
    pthread_create(&thread, NULL, works, NULL);
    works(NULL);
    pthread_join(thread, NULL);
}
