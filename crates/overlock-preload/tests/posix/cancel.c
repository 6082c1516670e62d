/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cancellation of a wait (POSIX.1-2017, pthread_cond_wait: a cancellation point that holds the mutex again before
 * clean-up handlers run).
 */
#include "mutex.h"

/* A waiter to be cancelled. Its mutex checks errors, so that its clean-up handler can tell whether it owns it. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int waiting, permits, passed;
	pthread_t last; /* to have passed */
	atomic_int cleaned, unlock_error, returned;
} state = { .mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP, .cond = PTHREAD_COND_INITIALIZER, .unlock_error = -1 };

enum way { WAIT, TIMEDWAIT, CLOCKWAIT };

static void clean_up(void *unused)
{
	(void)unused;
	state.unlock_error = pthread_mutex_unlock(&state.mutex);
	state.cleaned++;
}

static int wait_by(enum way way)
{
	struct timespec at;

	switch (way) {
	case TIMEDWAIT:
		at = in_ms(CLOCK_REALTIME, 100000);
		return pthread_cond_timedwait(&state.cond, &state.mutex, &at);
	case CLOCKWAIT:
		at = in_ms(CLOCK_MONOTONIC, 100000);
		return pthread_cond_clockwait(&state.cond, &state.mutex, CLOCK_MONOTONIC, &at);
	default:
		return pthread_cond_wait(&state.cond, &state.mutex);
	}
}

static void *wait_for_ever(void *way)
{
	EQ(pthread_mutex_lock(&state.mutex), 0);
	pthread_cleanup_push(clean_up, NULL);
	state.waiting++;
	while (state.permits == 0)
		EQ(wait_by((enum way)(long)way), 0);
	state.permits--;
	state.passed++;
	state.last = pthread_self();
	state.returned++;
	pthread_cleanup_pop(1);
	return NULL;
}

static void wait_until_waiting(int waiting)
{
	EQ(pthread_mutex_lock(&state.mutex), 0);
	while (state.waiting < waiting) {
		EQ(pthread_mutex_unlock(&state.mutex), 0);
		pause_ms(1);
		EQ(pthread_mutex_lock(&state.mutex), 0);
	}
	EQ(pthread_mutex_unlock(&state.mutex), 0);
}

CASE(blocked_waiter_is_cancelled_with_the_mutex)
{
	for (long way = WAIT; way <= CLOCKWAIT; way++) {
		pthread_t thread = start(wait_for_ever, (void *)way);

		state.cleaned = 0;
		wait_until_waiting((int)way + 1);
		pause_ms(10);
		EQ(pthread_cancel(thread), 0);
		CHECK(join(thread) == PTHREAD_CANCELED);
		EQ(state.cleaned, 1);
		EQ(state.unlock_error, 0);
	}
	EQ(pthread_mutex_trylock(&state.mutex), 0);
	EQ(pthread_cond_destroy(&state.cond), 0);
}

CASE(cancelled_waiter_waits_for_the_mutex)
{
	pthread_t thread = start(wait_for_ever, NULL);

	wait_until_waiting(1);
	EQ(pthread_mutex_lock(&state.mutex), 0);
	EQ(pthread_cancel(thread), 0);
	pause_ms(50);
	EQ(state.cleaned, 0);
	EQ(pthread_mutex_unlock(&state.mutex), 0);
	CHECK(join(thread) == PTHREAD_CANCELED);
	EQ(state.unlock_error, 0);
}

static void *cancel_self_and_wait(void *unused)
{
	EQ(pthread_cancel(pthread_self()), 0);
	return wait_for_ever(unused);
}

CASE(pending_cancellation_is_acted_upon)
{
	CHECK(join(start(cancel_self_and_wait, NULL)) == PTHREAD_CANCELED);
	EQ(state.cleaned, 1);
	EQ(state.unlock_error, 0);
	EQ(pthread_cond_destroy(&state.cond), 0);
}

static void *wait_with_cancellation_disabled(void *unused)
{
	int type;

	EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	wait_for_ever(unused);
	EQ(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL), 0);
	/* The wait does not change the type. */
	EQ(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &type), 0);
	EQ(type, PTHREAD_CANCEL_DEFERRED);
	state.returned++;
	pthread_testcancel();
	return NULL;
}

CASE(disabled_cancellation_does_not_end_the_wait)
{
	pthread_t thread = start(wait_with_cancellation_disabled, NULL);

	wait_until_waiting(1);
	EQ(pthread_cancel(thread), 0);
	pause_ms(50);
	EQ(state.returned, 0);
	EQ(pthread_mutex_lock(&state.mutex), 0);
	state.permits = 1;
	EQ(pthread_cond_signal(&state.cond), 0);
	EQ(pthread_mutex_unlock(&state.mutex), 0);
	CHECK(join(thread) == PTHREAD_CANCELED);
	EQ(state.returned, 2);
}

CASE(early_errors_do_not_cancel)
{
	/* A wait that fails at once may act on the cancellation or not, but if it returns, the mutex is held. */
	struct timespec bad = { 0, -1 };
	pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;

	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_cond_timedwait(&state.cond, &mutex, &bad), EINVAL);
	EQ(pthread_mutex_unlock(&mutex), 0);
}

static void spin(int rounds)
{
	for (volatile int i = 0; i < rounds; i++)
		;
}

/* A thread to be cancelled soon. */
struct doomed {
	pthread_t thread;
	int delay;
};

static void *cancel_soon(void *argument)
{
	struct doomed *doomed = argument;

	spin(doomed->delay);
	EQ(pthread_cancel(doomed->thread), 0);
	return NULL;
}

CASE(cancelled_waiter_uses_up_no_signal)
{
	/*
	 * One thread is cancelled while a signal is on its way: before it, after it, or at a random moment around it.
	 * Another one waits: if the first takes the signal with it, the second waits for ever.
	 */
	for (int round = 0; round < 1000; round++) {
		pthread_t doomed, survivor;

		state.waiting = state.passed = 0;
		doomed = start(wait_for_ever, (void *)(long)(round % 3));
		wait_until_waiting(1);
		survivor = start(wait_for_ever, NULL);
		wait_until_waiting(2);
		EQ(pthread_mutex_lock(&state.mutex), 0);
		state.permits = 1;
		if (round % 2 == 0) {
			EQ(pthread_cond_signal(&state.cond), 0);
			EQ(pthread_cancel(doomed), 0);
		} else if (round % 4 == 1) {
			EQ(pthread_cancel(doomed), 0);
			EQ(pthread_cond_signal(&state.cond), 0);
		}
		EQ(pthread_mutex_unlock(&state.mutex), 0);
		if (round % 4 == 3) {
			struct doomed soon = { doomed, rand() % 30000 };
			pthread_t canceller = start(cancel_soon, &soon);

			spin(rand() % 30000);
			EQ(pthread_cond_signal(&state.cond), 0);
			join(canceller);
		}
		/*
		 * glibc may call a thread cancelled that has returned by itself, if its cancellation began in the
		 * wait and comes later.
		 */
		join(doomed);
		EQ(pthread_mutex_lock(&state.mutex), 0);
		if (state.passed == 0 || !pthread_equal(state.last, doomed)) {
			EQ(pthread_mutex_unlock(&state.mutex), 0);
			join(survivor);
			EQ(state.passed, 1);
		} else {
			/* The signal woke it before it noticed the cancellation: it had the permit. */
			state.permits = 1;
			EQ(pthread_cond_signal(&state.cond), 0);
			EQ(pthread_mutex_unlock(&state.mutex), 0);
			join(survivor);
			EQ(state.passed, 2);
		}
		EQ(state.permits, 0);
	}
}

CASE(many_are_cancelled_at_random)
{
	for (int round = 0; round < 100; round++) {
		pthread_t threads[8];
		int cancelled = 0;

		state.waiting = state.passed = 0;
		for (long i = 0; i < 8; i++)
			threads[i] = start(wait_for_ever, (void *)(i % 3));
		wait_until_waiting(4 + round % 5);
		for (int i = 0; i < 8; i += 2)
			EQ(pthread_cancel(threads[i]), 0);
		EQ(pthread_mutex_lock(&state.mutex), 0);
		state.permits = 8;
		EQ(pthread_cond_broadcast(&state.cond), 0);
		EQ(pthread_mutex_unlock(&state.mutex), 0);
		for (int i = 0; i < 8; i++)
			cancelled += join(threads[i]) == PTHREAD_CANCELED;
		EQ(cancelled + state.passed, 8);
		state.permits = 0;
	}
	EQ(pthread_mutex_trylock(&state.mutex), 0);
	EQ(pthread_cond_destroy(&state.cond), 0);
}
