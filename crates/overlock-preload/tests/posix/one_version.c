/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library that replaces a call in one of libc's versions and forgets the others; one_version.map gives it the
 * version.
 */
#include <pthread.h>

int pthread_cond_signal(pthread_cond_t *cond)
{
	(void)cond;
	return 0;
}
