/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The frames of a thread that waits for a semaphore, which is libc's.
 *
 * The wait is a cancellation point: a thread cancelled here is unwound by force, through these frames. Rust frames
 * must not be unwound by force, so these are C, and the exported names jump straight into them. passed_on.rs does the
 * counting.
 */
#define _GNU_SOURCE
#include <semaphore.h>
#include <stddef.h>
#include <time.h>

enum { WAIT, TIMEDWAIT, CLOCKWAIT }; /* the order of `SEM_WAITS` in real.rs */

/* In passed_on.rs. */
void *overlock_sem_enter(sem_t *semaphore, size_t which);

int overlock_sem_wait(sem_t *semaphore)
{
	return ((int (*)(sem_t *))overlock_sem_enter(semaphore, WAIT))(semaphore);
}

int overlock_sem_timedwait(sem_t *semaphore, const struct timespec *at)
{
	return ((int (*)(sem_t *, const struct timespec *))overlock_sem_enter(semaphore, TIMEDWAIT))(semaphore, at);
}

int overlock_sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *at)
{
	return ((int (*)(sem_t *, clockid_t, const struct timespec *))overlock_sem_enter(semaphore, CLOCKWAIT))(
		semaphore, clock, at);
}
