/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_cond_wait, _timedwait, _clockwait, _signal, _broadcast, _destroy (POSIX.1-2017; clockwait: Issue 8). */
#include "mutex.h"

/* A condition with its predicate: a number of permits. */
struct gate {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int waiting; /* threads that have called wait, counted under the mutex: each is blocked once the mutex is free */
	int permits;
	int passed;
};

#define GATE { .mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER }

static void *pass(void *argument)
{
	struct gate *gate = argument;

	EQ(pthread_mutex_lock(&gate->mutex), 0);
	gate->waiting++;
	while (gate->permits == 0)
		EQ(pthread_cond_wait(&gate->cond, &gate->mutex), 0);
	gate->permits--;
	gate->passed++;
	EQ(pthread_mutex_unlock(&gate->mutex), 0);
	return NULL;
}

/* Returns with the mutex held when that many threads wait. */
static void lock_when_waiting(struct gate *gate, int waiting)
{
	EQ(pthread_mutex_lock(&gate->mutex), 0);
	while (gate->waiting < waiting) {
		EQ(pthread_mutex_unlock(&gate->mutex), 0);
		pause_ms(1);
		EQ(pthread_mutex_lock(&gate->mutex), 0);
	}
}

CASE(signal_wakes)
{
	struct gate gate = GATE;
	pthread_t thread = start(pass, &gate);

	lock_when_waiting(&gate, 1);
	gate.permits = 1;
	EQ(pthread_cond_signal(&gate.cond), 0);
	EQ(pthread_mutex_unlock(&gate.mutex), 0);
	join(thread);
	EQ(pthread_cond_destroy(&gate.cond), 0);
}

CASE(broadcast_wakes_all)
{
	struct gate gate = GATE;
	pthread_t threads[16];

	for (int i = 0; i < 16; i++)
		threads[i] = start(pass, &gate);
	lock_when_waiting(&gate, 16);
	gate.permits = 16;
	EQ(pthread_cond_broadcast(&gate.cond), 0);
	EQ(pthread_mutex_unlock(&gate.mutex), 0);
	for (int i = 0; i < 16; i++)
		join(threads[i]);
}

static pthread_cond_t new_cond(clockid_t clock)
{
	pthread_condattr_t attributes;
	pthread_cond_t cond;
	clockid_t got;
	int shared;

	EQ(pthread_condattr_init(&attributes), 0);
	EQ(pthread_condattr_getclock(&attributes, &got), 0);
	EQ(got, CLOCK_REALTIME);
	EQ(pthread_condattr_getpshared(&attributes, &shared), 0);
	EQ(shared, PTHREAD_PROCESS_PRIVATE);
	EQ(pthread_condattr_setclock(&attributes, CLOCK_PROCESS_CPUTIME_ID), EINVAL);
	EQ(pthread_condattr_setclock(&attributes, clock), 0);
	memset(&cond, 0xa5, sizeof cond);
	EQ(pthread_cond_init(&cond, &attributes), 0);
	EQ(pthread_condattr_destroy(&attributes), 0);
	return cond;
}

static const clockid_t clocks[] = { CLOCK_REALTIME, CLOCK_MONOTONIC };

CASE(timed_waits_time_out_and_not_early)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	EQ(pthread_mutex_lock(&mutex), 0);
	for (int of_cond = 0; of_cond < 2; of_cond++) {
		pthread_cond_t cond = new_cond(clocks[of_cond]);
		struct timespec at = in_ms(clocks[of_cond], 60);

		EQ(pthread_cond_timedwait(&cond, &mutex, &at), ETIMEDOUT);
		CHECK(has_passed(clocks[of_cond], at));
		for (int i = 0; i < 2; i++) {
			at = in_ms(clocks[i], 60);
			EQ(pthread_cond_clockwait(&cond, &mutex, clocks[i], &at), ETIMEDOUT);
			CHECK(has_passed(clocks[i], at));
			at = in_ms(clocks[i], -1000);
			EQ(pthread_cond_clockwait(&cond, &mutex, clocks[i], &at), ETIMEDOUT);
		}
		EQ(pthread_cond_destroy(&cond), 0);
	}
	EQ(pthread_mutex_trylock(&mutex), EBUSY);
}

/* A loop that ends only on ETIMEDOUT must end. */
CASE(a_time_before_the_clock_began_has_passed)
{
	static const struct timespec ancient[] = { { -1, 0 }, { -5, 999999999 } };
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	EQ(pthread_mutex_lock(&mutex), 0);
	for (int i = 0; i < 2; i++) {
		pthread_cond_t cond = new_cond(clocks[i]);

		EQ(pthread_cond_timedwait(&cond, &mutex, &ancient[i]), ETIMEDOUT);
		EQ(pthread_cond_clockwait(&cond, &mutex, CLOCK_REALTIME, &ancient[i]), ETIMEDOUT);
		EQ(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &ancient[i]), ETIMEDOUT);
		EQ(pthread_cond_destroy(&cond), 0);
	}
	EQ(pthread_mutex_trylock(&mutex), EBUSY);
}

CASE(bad_time_or_clock_is_einval)
{
	static const long bad[] = { -1, 1000000000 };
	pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec at;

	EQ(pthread_mutex_lock(&mutex), 0);
	for (int i = 0; i < 2; i++) {
		at = in_ms(CLOCK_REALTIME, 100000);
		at.tv_nsec = bad[i];
		EQ(pthread_cond_timedwait(&cond, &mutex, &at), EINVAL);
		EQ(pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &at), EINVAL);
	}
	at = in_ms(CLOCK_REALTIME, 100000);
	EQ(pthread_cond_clockwait(&cond, &mutex, CLOCK_PROCESS_CPUTIME_ID, &at), EINVAL);
	EQ(pthread_cond_clockwait(&cond, &mutex, 4711, &at), EINVAL);
	EQ(pthread_cond_clockwait(&cond, &mutex, -1, &at), EINVAL);
	at = in_ms(CLOCK_REALTIME, -1000);
	EQ(pthread_cond_clockwait(&cond, &mutex, -2, &at), EINVAL);
	/* The wait never released the mutex, so it is still held. */
	EQ(pthread_mutex_unlock(&mutex), 0);
	EQ(pthread_cond_destroy(&cond), 0);
}

CASE(wait_without_the_mutex_is_eperm)
{
	static const int types[] = { PTHREAD_MUTEX_ERRORCHECK, PTHREAD_MUTEX_RECURSIVE };

	for (int i = 0; i < 2; i++) {
		pthread_mutex_t mutex = new_mutex(types[i]);
		pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
		struct timespec at = in_ms(CLOCK_REALTIME, 100000);

		EQ(pthread_cond_wait(&cond, &mutex), EPERM);
		EQ(pthread_cond_timedwait(&cond, &mutex, &at), EPERM);
		EQ(pthread_cond_destroy(&cond), 0);
		EQ(pthread_mutex_trylock(&mutex), 0);
	}
}

static void on_signal(int number)
{
	(void)number;
}

CASE(signals_do_not_end_the_wait_with_an_error)
{
	struct gate gate = GATE;
	struct sigaction action = { .sa_handler = on_signal };
	pthread_t thread;

	EQ(sigaction(SIGUSR1, &action, NULL), 0);
	thread = start(pass, &gate);
	lock_when_waiting(&gate, 1);
	EQ(pthread_mutex_unlock(&gate.mutex), 0);
	for (int i = 0; i < 50; i++) {
		pause_ms(1);
		EQ(pthread_kill(thread, SIGUSR1), 0);
	}
	EQ(pthread_mutex_lock(&gate.mutex), 0);
	gate.permits = 1;
	EQ(pthread_cond_signal(&gate.cond), 0);
	EQ(pthread_mutex_unlock(&gate.mutex), 0);
	join(thread);
}

CASE(errno_is_left_alone)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec at = in_ms(CLOCK_REALTIME, 10);

	EQ(pthread_mutex_lock(&mutex), 0);
	errno = ECHILD;
	EQ(pthread_cond_timedwait(&cond, &mutex, &at), ETIMEDOUT);
	EQ(errno, ECHILD);
	EQ(pthread_cond_signal(&cond), 0);
	EQ(pthread_cond_destroy(&cond), 0);
	EQ(errno, ECHILD);
}

/* A condition whose memory is freed as soon as it is destroyed. */
struct fleeting {
	pthread_mutex_t mutex;
	pthread_cond_t *cond;
	int waiting, go;
};

static void *wait_for_go(void *argument)
{
	struct fleeting *fleeting = argument;

	EQ(pthread_mutex_lock(&fleeting->mutex), 0);
	fleeting->waiting++;
	while (!fleeting->go)
		EQ(pthread_cond_wait(fleeting->cond, &fleeting->mutex), 0);
	EQ(pthread_mutex_unlock(&fleeting->mutex), 0);
	return NULL;
}

CASE(destroy_right_after_broadcast)
{
	/* The example in the rationale of pthread_cond_destroy: no thread is blocked any more, but not all have left. */
	for (int round = 0; round < 300; round++) {
		struct fleeting fleeting = { .mutex = PTHREAD_MUTEX_INITIALIZER };
		int destroy_with_mutex = round % 2;
		pthread_t threads[4];

		fleeting.cond = mmap(NULL, sizeof *fleeting.cond, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
				     -1, 0);
		CHECK(fleeting.cond != MAP_FAILED);
		EQ(pthread_cond_init(fleeting.cond, NULL), 0);
		for (int i = 0; i < 4; i++)
			threads[i] = start(wait_for_go, &fleeting);
		EQ(pthread_mutex_lock(&fleeting.mutex), 0);
		while (fleeting.waiting < 4) {
			EQ(pthread_mutex_unlock(&fleeting.mutex), 0);
			sched_yield();
			EQ(pthread_mutex_lock(&fleeting.mutex), 0);
		}
		fleeting.go = 1;
		EQ(pthread_cond_broadcast(fleeting.cond), 0);
		if (!destroy_with_mutex)
			EQ(pthread_mutex_unlock(&fleeting.mutex), 0);
		EQ(pthread_cond_destroy(fleeting.cond), 0);
		EQ(munmap(fleeting.cond, sizeof *fleeting.cond), 0);
		if (destroy_with_mutex)
			EQ(pthread_mutex_unlock(&fleeting.mutex), 0);
		for (int i = 0; i < 4; i++)
			join(threads[i]);
	}
}

/* A bounded buffer of one: a signal hands every item over, and one lost signal stops everything. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t not_empty, not_full;
	int full;
	long item, sum;
} buffer = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0, 0 };

enum { PAIRS = 4, ITEMS = 5000 };

/*
 * Waits in one of the possible ways: sometimes too short, so that a waiter that gives up races with a signal, which
 * must not be lost.
 */
static void wait_somehow(pthread_cond_t *cond, long i)
{
	struct timespec at;
	int error;

	if (i % 16 == 0) {
		at = in_ms(CLOCK_MONOTONIC, 0);
		at.tv_nsec = at.tv_nsec < 999900000 ? at.tv_nsec + 20000 : at.tv_nsec;
		error = pthread_cond_clockwait(cond, &buffer.mutex, CLOCK_MONOTONIC, &at);
		CHECK(error == 0 || error == ETIMEDOUT);
	} else if (i % 4 == 0) {
		at = in_ms(CLOCK_REALTIME, 100000);
		EQ(pthread_cond_timedwait(cond, &buffer.mutex, &at), 0);
	} else {
		EQ(pthread_cond_wait(cond, &buffer.mutex), 0);
	}
}

static void *produce(void *with_mutex)
{
	for (long i = 1; i <= ITEMS; i++) {
		EQ(pthread_mutex_lock(&buffer.mutex), 0);
		while (buffer.full)
			wait_somehow(&buffer.not_full, i);
		buffer.full = 1;
		buffer.item = i;
		if (with_mutex != NULL)
			EQ(pthread_cond_signal(&buffer.not_empty), 0);
		EQ(pthread_mutex_unlock(&buffer.mutex), 0);
		if (with_mutex == NULL)
			EQ(pthread_cond_signal(&buffer.not_empty), 0);
	}
	return NULL;
}

static void *consume(void *with_mutex)
{
	for (long i = 1; i <= ITEMS; i++) {
		EQ(pthread_mutex_lock(&buffer.mutex), 0);
		while (!buffer.full)
			wait_somehow(&buffer.not_empty, i);
		buffer.full = 0;
		buffer.sum += buffer.item;
		if (with_mutex != NULL)
			EQ(pthread_cond_signal(&buffer.not_full), 0);
		EQ(pthread_mutex_unlock(&buffer.mutex), 0);
		if (with_mutex == NULL)
			EQ(pthread_cond_signal(&buffer.not_full), 0);
	}
	return NULL;
}

static void hand_over(void *with_mutex)
{
	pthread_t threads[2 * PAIRS];

	for (int i = 0; i < PAIRS; i++) {
		threads[2 * i] = start(produce, with_mutex);
		threads[2 * i + 1] = start(consume, with_mutex);
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		join(threads[i]);
	EQ(buffer.sum, PAIRS * (ITEMS * (ITEMS + 1L) / 2));
	EQ(pthread_cond_destroy(&buffer.not_full), 0);
	EQ(pthread_cond_destroy(&buffer.not_empty), 0);
}

CASE(no_signal_is_lost_when_sent_with_the_mutex)
{
	hand_over(&buffer);
}

CASE(no_signal_is_lost_when_sent_without)
{
	hand_over(NULL);
}

enum { TURNS = 20000 };

/*
 * Hands the turn to the other of two, in most turns with two signals more than it needs: if these find no thread
 * asleep, or one that goes back to sleep, the next signal must still work. No other thread and no deadline would make
 * up for a lost one.
 */
static void *take_turns(void *own)
{
	pthread_cond_t *mine = own != NULL ? &buffer.not_empty : &buffer.not_full;
	pthread_cond_t *theirs = own != NULL ? &buffer.not_full : &buffer.not_empty;

	for (long i = 0; i < TURNS; i++) {
		EQ(pthread_mutex_lock(&buffer.mutex), 0);
		while (buffer.full != (own != NULL))
			EQ(pthread_cond_wait(mine, &buffer.mutex), 0);
		buffer.full = own == NULL;
		EQ(pthread_mutex_unlock(&buffer.mutex), 0);
		for (int signals = i % 8 < 2 ? 1 : 3; signals > 0; signals--)
			EQ(pthread_cond_signal(theirs), 0);
	}
	return NULL;
}

CASE(no_signal_is_lost_to_one_that_found_nobody_asleep)
{
	pthread_t one = start(take_turns, NULL), other = start(take_turns, &buffer);

	join(one);
	join(other);
}

/* Threads that take turns: each waits for its number, and only a broadcast reaches the right one. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	long turn;
} relay = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0 };

static void *run_relay(void *argument)
{
	for (long turn = (long)argument; turn < 6000; turn += 6) {
		EQ(pthread_mutex_lock(&relay.mutex), 0);
		while (relay.turn != turn)
			EQ(pthread_cond_wait(&relay.cond, &relay.mutex), 0);
		relay.turn++;
		EQ(pthread_cond_broadcast(&relay.cond), 0);
		EQ(pthread_mutex_unlock(&relay.mutex), 0);
	}
	return NULL;
}

CASE(no_broadcast_is_lost)
{
	pthread_t threads[6];

	for (long i = 0; i < 6; i++)
		threads[i] = start(run_relay, (void *)i);
	for (int i = 0; i < 6; i++)
		join(threads[i]);
	EQ(relay.turn, 6000);
}

/* A wait that is refused leaves both objects as they were: here a condition variable that libc and we could use. */
/* Memory of two processes, one of which forgets to say so of the mutex, or of the condition variable. */
static struct gate *forgetful(int mutex, int cond)
{
	struct gate *gate = shared_memory(sizeof(*gate));
	pthread_mutexattr_t of_mutex;
	pthread_condattr_t of_cond;

	EQ(pthread_mutexattr_init(&of_mutex), 0);
	EQ(pthread_mutexattr_setpshared(&of_mutex, mutex), 0);
	EQ(pthread_mutex_init(&gate->mutex, &of_mutex), 0);
	EQ(pthread_condattr_init(&of_cond), 0);
	EQ(pthread_condattr_setpshared(&of_cond, cond), 0);
	EQ(pthread_cond_init(&gate->cond, &of_cond), 0);
	return gate;
}

/* The parent takes each permit that its child gives it, however it learns of it. A release reaches no
 * waiter of the other process, under libc either: so the child never waits for the mutex, and takes it
 * only while the parent waits for the condition. */
static void take_permits_of_a_child(struct gate *gate, long poll_ms)
{
	pid_t child;

	EQ(pthread_mutex_lock(&gate->mutex), 0);
	child = fork();
	for (int i = 0; child == 0 && i < 20; i++) {
		while (__atomic_load_n(&gate->permits, __ATOMIC_RELAXED) != 0 || pthread_mutex_trylock(&gate->mutex) != 0)
			pause_ms(1);
		gate->permits++;
		EQ(pthread_mutex_unlock(&gate->mutex), 0);
		EQ(pthread_cond_signal(&gate->cond), 0);
	}
	if (child == 0)
		_exit(0);
	for (int i = 0; i < 20; i++) {
		while (gate->permits == 0) {
			struct timespec at = in_ms(CLOCK_REALTIME, poll_ms);
			int error = pthread_cond_timedwait(&gate->cond, &gate->mutex, &at);

			CHECK(error == 0 || (error == ETIMEDOUT && poll_ms < 1000));
		}
		gate->permits--;
	}
	EQ(pthread_mutex_unlock(&gate->mutex), 0);
	expect_success(child);
	EQ(pthread_cond_destroy(&gate->cond), 0);
}

CASE(a_child_signals_where_the_mutex_is_not_said_to_be_shared)
{
	take_permits_of_a_child(forgetful(PTHREAD_PROCESS_PRIVATE, PTHREAD_PROCESS_SHARED), 60000);
}

CASE(a_child_signals_where_the_condition_is_not_said_to_be_shared)
{
	take_permits_of_a_child(forgetful(PTHREAD_PROCESS_SHARED, PTHREAD_PROCESS_PRIVATE), 10);
}

CASE(a_child_signals_where_nothing_is_said_to_be_shared)
{
	take_permits_of_a_child(forgetful(PTHREAD_PROCESS_PRIVATE, PTHREAD_PROCESS_PRIVATE), 10);
}

CASE(a_refused_wait_changes_nothing)
{
	pthread_condattr_t attributes;
	pthread_cond_t shared, before;
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct timespec bad = { 0, -1 };

	EQ(pthread_condattr_init(&attributes), 0);
	EQ(pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
	EQ(pthread_cond_init(&shared, &attributes), 0);
	before = shared;
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_cond_timedwait(&shared, &mutex, &bad), EINVAL);
	EQ(pthread_cond_clockwait(&shared, &mutex, CLOCK_MONOTONIC, &bad), EINVAL);
	EQ(pthread_cond_clockwait(&shared, &mutex, CLOCK_BOOTTIME, &(struct timespec){ 0, 0 }), EINVAL);
	EQ(memcmp(&before, &shared, sizeof(shared)), 0);
	EQ(pthread_mutex_trylock(&mutex), EBUSY);
	EQ(pthread_mutex_unlock(&mutex), 0);
}
