/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program with a bug in functions that do nothing else: each unlocks a lock that no thread holds. */
#include "overlock.h"

#define UNLOCKS(X)                                              \
    __attribute__((noinline)) void X##_unlocks(ol_##X##_t *lock); \
    void X##_unlocks(ol_##X##_t *lock)                          \
    {                                                           \
        ol_##X##_unlock(lock);                                  \
    }                                                           \
    static ol_##X##_t X##_object;

UNLOCKS(hybrid)
UNLOCKS(queued)
UNLOCKS(ticket)
UNLOCKS(test_and_set)
UNLOCKS(shared)

int main(void)
{
    for (int i = 0; i < 4; i++) {
        hybrid_unlocks(&hybrid_object);
        queued_unlocks(&queued_object);
        ticket_unlocks(&ticket_object);
        test_and_set_unlocks(&test_and_set_object);
        shared_unlocks(&shared_object);
    }
    return 0;
}
