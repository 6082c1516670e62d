/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A C library whose condition variables are unlike any that Overlock knows, as far as their initialisation shows. */
#include <pthread.h>
#include <string.h>

int pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
	memset(cond, attributes != NULL ? 0x5a : 0, sizeof *cond);
	return 0;
}
