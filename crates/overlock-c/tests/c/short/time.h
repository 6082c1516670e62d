/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A time of two 32-bit numbers, as 32-bit systems have it: stands in for the system's <time.h>. */
#include <stdint.h>

typedef int32_t time_t;
struct timespec { time_t tv_sec; int32_t tv_nsec; };
