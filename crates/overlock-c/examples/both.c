/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The C half of a program whose Rust half (both.rs) takes the same lock. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#include "overlock.h"

struct account {
    ol_hybrid_t lock;
    unsigned long balance;
};

extern void rust_deposits(struct account *account, unsigned long times);

enum { TIMES = 200000 };

static struct account account = { OL_HYBRID_INIT, 0 };

static void *in_rust(void *unused)
{
    (void)unused;
    rust_deposits(&account, TIMES);
    return NULL;
}

static void *in_c(void *unused)
{
    (void)unused;
    for (int i = 0; i < TIMES; i++) {
        ol_hybrid_lock(&account.lock);
        unsigned long balance = account.balance;
        /* If the lock did not exclude, another deposit would now be lost. */
        if (i % 1000 == 0)
            sched_yield();
        account.balance = balance + 1;
        ol_hybrid_unlock(&account.lock);
    }
    return NULL;
}

int main(void)
{
    void *(*const halves[])(void *) = { in_c, in_rust, in_c, in_rust };
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) {
        if (pthread_create(&threads[i], NULL, halves[i], NULL) != 0) {
            fputs("no thread could be started: try again with fewer processes\n", stderr);
            return 2;
        }
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    printf("%lu deposits of %d\n", account.balance, 4 * TIMES);
    return account.balance == 4ul * TIMES ? 0 : 1;
}
