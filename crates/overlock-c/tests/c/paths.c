/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every inline path as a function of its own: `tests/suite/code.rs` reads its machine code. */
#include "overlock.h"

#define PATHS(X)                                                                           \
    void path_##X##_lock(ol_##X##_t *lock);                                                \
    void path_##X##_lock(ol_##X##_t *lock) { ol_##X##_lock(lock); }                        \
    int path_##X##_trylock(ol_##X##_t *lock);                                              \
    int path_##X##_trylock(ol_##X##_t *lock) { return ol_##X##_trylock(lock); }            \
    void path_##X##_unlock(ol_##X##_t *lock);                                              \
    void path_##X##_unlock(ol_##X##_t *lock) { ol_##X##_unlock(lock); }
#define TIMED_PATHS(X)                                                                     \
    PATHS(X)                                                                               \
    int path_##X##_timedlock(ol_##X##_t *lock, const struct timespec *at);                 \
    int path_##X##_timedlock(ol_##X##_t *lock, const struct timespec *at)                  \
    {                                                                                      \
        return ol_##X##_timedlock(lock, at);                                               \
    }

TIMED_PATHS(mutex)
TIMED_PATHS(hybrid)
TIMED_PATHS(queued)
PATHS(ticket)
TIMED_PATHS(test_and_set)
TIMED_PATHS(shared)
