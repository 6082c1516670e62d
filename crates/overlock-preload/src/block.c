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
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>

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

/*
 * Neither syscall nor pthread_setcanceltype is called by its name here, because a library can stand in for it and lock
 * a mutex.
 */

/* Sleeps on a futex. The result is the kernel's: an error is its negative number. */
static long sleep_on(const uint32_t *word, int operation, uint32_t value, const struct timespec *time)
{
#if defined(__x86_64__)
	register const struct timespec *r10 __asm__("r10") = time;
	register const uint32_t *r8 __asm__("r8") = NULL;
	register long r9 __asm__("r9") = FUTEX_BITSET_MATCH_ANY;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"((long)SYS_futex), "D"(word), "S"((long)operation), "d"((long)value), "r"(r10), "r"(r8),
			   "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
#elif defined(__aarch64__)
	register long x8 __asm__("x8") = SYS_futex;
	register long x0 __asm__("x0") = (long)word;
	register long x1 __asm__("x1") = operation;
	register long x2 __asm__("x2") = value;
	register long x3 __asm__("x3") = (long)time;
	register long x4 __asm__("x4") = 0;
	register long x5 __asm__("x5") = FUTEX_BITSET_MATCH_ANY;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
	return x0;
#endif
}

/* In real.rs: libc's pthread_setcanceltype. */
void *overlock_real_setcanceltype(void);

static int set_cancel_type(int type, int *old)
{
	return ((int (*)(int, int *))overlock_real_setcanceltype())(type, old);
}

/* In gate.rs. */
void overlock_gate_sleep(const uint32_t *gate, uint32_t value, uint64_t ns, int cancellable);
void overlock_gate_cancelled(void);

/* In cond.rs. */
int overlock_cond_enter(struct wait *wait, clockid_t clock, const struct timespec *at);
int overlock_cond_leave(struct wait *wait, int timed_out);
void overlock_cond_cancelled(struct wait *wait);

/*
 * Sleeps until the sequence has moved on. Returns whether the timeout came first.
 * The kernel refuses a time before its clock's zero; such a time has passed just as zero has.
 */
static int block(const struct wait *wait, const struct timespec *at)
{
	static const struct timespec zero;
	int type;
	long result;

	if (at != NULL && at->tv_sec < 0)
		at = &zero;
	set_cancel_type(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	do
		result = sleep_on(wait->sequence, wait->operation, wait->seen, at);
	while (result == -EINTR);
	set_cancel_type(type, NULL);
	return result == -ETIMEDOUT;
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

/* In c11.rs. */
int overlock_c11_result(int error);

int overlock_cnd_wait(cnd_t *cond, mtx_t *mutex)
{
	return overlock_c11_result(overlock_cond_wait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex));
}

int overlock_cnd_timedwait(cnd_t *cond, mtx_t *mutex, const struct timespec *at)
{
	return overlock_c11_result(overlock_cond_timedwait((pthread_cond_t *)cond, (pthread_mutex_t *)mutex, at));
}

static void gate_cancelled(void *unused)
{
	(void)unused;
	overlock_gate_cancelled();
}

/* Sleeps for at most `ns` nanoseconds, while the gate has the value. */
static void gate_sleep(const uint32_t *gate, uint32_t value, uint64_t ns)
{
	struct timespec time = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };

	sleep_on(gate, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, value, &time);
}

void overlock_gate_sleep(const uint32_t *gate, uint32_t value, uint64_t ns, int cancellable)
{
	if (!cancellable) {
		gate_sleep(gate, value, ns);
		return;
	}
	pthread_cleanup_push(gate_cancelled, NULL);
	set_cancel_type(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	gate_sleep(gate, value, ns);
	set_cancel_type(PTHREAD_CANCEL_DEFERRED, NULL);
	pthread_cleanup_pop(0);
}
