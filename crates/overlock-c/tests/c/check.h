/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Shared by the test programs: a check that ends the program, the clock, the counters. */
#ifndef CHECK_H
#define CHECK_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "overlock.h"

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);        \
            _Exit(1);                                                                      \
        }                                                                                  \
    } while (0)

/* CLOCK_MONOTONIC in `ms` milliseconds. */
static inline struct timespec after_ms(long ms)
{
    struct timespec at;
    CHECK(clock_gettime(CLOCK_MONOTONIC, &at) == 0);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec += 1;
        at.tv_nsec -= 1000000000;
    }
    return at;
}

static inline int has_passed(const struct timespec *at)
{
    struct timespec now = after_ms(0);
    return now.tv_sec > at->tv_sec || (now.tv_sec == at->tv_sec && now.tv_nsec >= at->tv_nsec);
}

static inline uint64_t counted(const char *event)
{
    uint64_t count = 0;
    CHECK(ol_counter(event, &count) == 0);
    return count;
}

/* Returns how often any thread has halted. */
static inline uint64_t halts(void)
{
    return counted("pv_wait_head") + counted("pv_wait_node") + counted("pv_wait_again");
}

#endif
