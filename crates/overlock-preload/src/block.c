/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The frame of a thread that waits for a condition variable.
 *
 * The wait is a cancellation point: a thread cancelled here is unwound by force, through this frame and out of the
 * program's call. Rust frames must not be unwound by force, so this one is C, and the exported names jump straight into
 * it. cond.rs makes all decisions; this file only blocks.
 *
 * Cancellation is asynchronous around the system call and nowhere else, as in libc's own cancellation points. It can
 * strike between the kernel's wake-up and the end of that window; then a signal has been used up, and the clean-up
 * passes it on. C's pthread_cleanup_push is guarded by a jump buffer and so holds at every instruction (see
 * build.rs).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The arguments of one wait: `Wait` in cond.rs. */
struct wait {
	pthread_cond_t *cond;
	pthread_mutex_t *mutex;
	const uint32_t *sequence; /* the futex word */
	uint32_t seen;            /* its value before the mutex was released */
	int operation;            /* of the futex */
	void *libcs;              /* libc's function, if the condition variable is libc's */
	struct timespec at;       /* the deadline on the kernel's clock, if there is one */
};

enum { UNTIMED = -1, CLOCK_OF_COND = -2 }; /* in place of a clock; the same in cond.rs */
enum { HANDED_TO_LIBC = -1 };              /* in place of an error number */

/* In gate.rs. */
void overlock_gate_sleep(const void *mutex, const uint32_t *gate, uint32_t value, uint64_t ns, int cancellable);
void overlock_gate_cancelled(const void *mutex);

/* In cond.rs. */
int overlock_cond_enter(struct wait *wait, clockid_t clock, const struct timespec *at);
int overlock_cond_leave(struct wait *wait, int timed_out);
void overlock_cond_cancelled(struct wait *wait);

/*
 * Sleeps until the sequence has moved on. Returns whether the timeout came first. Preserves errno.
 * The kernel refuses a time before its clock's zero; such a time has passed just as zero has.
 */
static int block(const struct wait *wait, const struct timespec *at)
{
	static const struct timespec zero;
	int saved = errno, type, timed_out;
	long result;

	if (at != NULL && at->tv_sec < 0)
		at = &zero;
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	do
		result = syscall(SYS_futex, wait->sequence, wait->operation, wait->seen, at, NULL,
				 FUTEX_BITSET_MATCH_ANY);
	while (result == -1 && errno == EINTR);
	timed_out = result == -1 && errno == ETIMEDOUT;
	pthread_setcanceltype(type, NULL);
	errno = saved;
	return timed_out;
}

static void cancelled(void *wait)
{
	overlock_cond_cancelled(wait);
}

static int wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *at,
		      struct wait *wait)
{
	int timed_out;
	int error;

	wait->cond = cond;
	wait->mutex = mutex;
	error = overlock_cond_enter(wait, clock, at);
	if (error != 0)
		return error;
	pthread_cleanup_push(cancelled, wait);
	timed_out = block(wait, clock == UNTIMED ? NULL : &wait->at);
	pthread_cleanup_pop(0);
	return overlock_cond_leave(wait, timed_out);
}

int overlock_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	struct wait wait;
	int error = wait_until(cond, mutex, UNTIMED, NULL, &wait);

	if (error == HANDED_TO_LIBC)
		return ((int (*)(pthread_cond_t *, pthread_mutex_t *))wait.libcs)(cond, mutex);
	return error;
}

int overlock_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *at)
{
	struct wait wait;
	int error = wait_until(cond, mutex, CLOCK_OF_COND, at, &wait);

	if (error == HANDED_TO_LIBC)
		return ((int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))wait.libcs)(cond, mutex,
													   at);
	return error;
}

int overlock_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *at)
{
	struct wait wait;
	int error;

	if (clock < 0) /* not a clock, and not to be mistaken for UNTIMED or CLOCK_OF_COND */
		return EINVAL;
	error = wait_until(cond, mutex, clock, at, &wait);
	if (error == HANDED_TO_LIBC)
		return ((int (*)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *))wait.libcs)(
			cond, mutex, clock, at);
	return error;
}

static void gate_cancelled(void *mutex)
{
	overlock_gate_cancelled(mutex);
}

/* Sleeps for at most `ns` nanoseconds, while the gate has the value. Preserves errno. */
static void gate_sleep(const uint32_t *gate, uint32_t value, uint64_t ns)
{
	struct timespec time = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
	int saved = errno;

	syscall(SYS_futex, gate, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, &time, NULL, 0);
	errno = saved;
}

void overlock_gate_sleep(const void *mutex, const uint32_t *gate, uint32_t value, uint64_t ns, int cancellable)
{
	if (!cancellable) {
		gate_sleep(gate, value, ns);
		return;
	}
	pthread_cleanup_push(gate_cancelled, (void *)mutex);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	gate_sleep(gate, value, ns);
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	pthread_cleanup_pop(0);
}
