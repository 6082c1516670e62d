/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Timed acquisitions by a program whose struct timespec is not the library's (short/time.h). */
#include "overlock.h"

#include <stdio.h>
#include <stdlib.h>

_Static_assert(sizeof(struct timespec) == 8, "short/time.h comes first");

#define CHECK(X) ((X) ? (void)0 : (fprintf(stderr, "not so: %s\n", #X), exit(1)))

/* Times that have passed. */
static const struct timespec passed = { 1, 999999999 }, first = { -5, 0 };
static const struct timespec invalid = { 1, 1000000000 };

#define TIMES_OUT(X)                                           \
    do {                                                       \
        ol_##X##_t lock = { 0 };                               \
        CHECK(ol_##X##_timedlock(&lock, &passed) == 0);        \
        CHECK(ol_##X##_timedlock(&lock, &invalid) == EINVAL);  \
        CHECK(ol_##X##_timedlock(&lock, &first) == ETIMEDOUT); \
        CHECK(ol_##X##_timedlock(&lock, &passed) == ETIMEDOUT); \
        ol_##X##_unlock(&lock);                                \
    } while (0)

int main(void)
{
    TIMES_OUT(test_and_set);
    TIMES_OUT(queued);
    TIMES_OUT(hybrid);
    TIMES_OUT(mutex);
    TIMES_OUT(shared);
    return 0;
}
