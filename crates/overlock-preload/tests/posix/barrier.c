/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Barriers. library.rs knows how many waits some cases make.
 */
#include "posix.h"

enum { CROWD = 8, ROUNDS = 3000 };

static pthread_barrier_t barrier;

/* Memory that only the rounds order, in turns of the rounds. */
static long written[CROWD];

static long is_serial(int result)
{
	CHECK(result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD);
	return result == PTHREAD_BARRIER_SERIAL_THREAD;
}

static void *meet(void *unused)
{
	(void)unused;
	return (void *)is_serial(pthread_barrier_wait(&barrier));
}

/* Two waits: one of three threads is the serial one, and ends the round or is told that it did. */
CASE(the_last_thread_ends_the_round)
{
	pthread_t threads[3];
	long serial = 0;

	EQ(pthread_barrier_init(&barrier, NULL, 3), 0);
	for (int i = 0; i < 3; i++)
		threads[i] = start(meet, NULL);
	for (int i = 0; i < 3; i++)
		serial += (long)join(threads[i]);
	EQ(serial, 1);
	EQ(pthread_barrier_destroy(&barrier), 0);
}

CASE(a_thread_alone_does_not_wait)
{
	EQ(pthread_barrier_init(&barrier, NULL, 1), 0);
	errno = ECHILD;
	for (int i = 0; i < 10; i++)
		EQ(pthread_barrier_wait(&barrier), PTHREAD_BARRIER_SERIAL_THREAD);
	EQ(pthread_barrier_destroy(&barrier), 0);
	EQ(errno, ECHILD);
	/* As new. */
	EQ(pthread_barrier_init(&barrier, NULL, 1), 0);
	EQ(pthread_barrier_wait(&barrier), PTHREAD_BARRIER_SERIAL_THREAD);
}

static void *meet_in_step(void *argument)
{
	long me = (long)argument, serial = 0;

	for (long round = 1; round <= ROUNDS; round++) {
		written[me] = round;
		serial += is_serial(pthread_barrier_wait(&barrier));
		for (int i = 0; i < CROWD; i++)
			CHECK(written[i] == round);
		serial += is_serial(pthread_barrier_wait(&barrier));
	}
	return (void *)serial;
}

CASE(a_round_orders_what_its_threads_write)
{
	pthread_t threads[CROWD];
	long serial = 0;

	EQ(pthread_barrier_init(&barrier, NULL, CROWD), 0);
	for (long i = 0; i < CROWD; i++)
		threads[i] = start(meet_in_step, (void *)i);
	for (int i = 0; i < CROWD; i++)
		serial += (long)join(threads[i]);
	EQ(serial, 2 * ROUNDS);
	EQ(pthread_barrier_destroy(&barrier), 0);
}

static atomic_int left = 2 * CROWD * ROUNDS;
static atomic_int arriving, gone;

/* Arrives as long as there are arrivals left. */
static void *meet_anybody(void *unused)
{
	long serial = 0;

	(void)unused;
	while (atomic_fetch_sub(&left, 1) > 0) {
		int back;

		arriving++;
		serial += is_serial(pthread_barrier_wait(&barrier));
		/* Rounds that have ended have three arrivals each. */
		back = ++gone;
		CHECK(back <= arriving / 3 * 3);
	}
	return (void *)serial;
}

/* Eight threads, of which any three make a round: the rounds of some are over while others have not left theirs. */
CASE(more_threads_than_a_round_has)
{
	pthread_t threads[CROWD];
	long serial = 0;

	EQ(pthread_barrier_init(&barrier, NULL, 3), 0);
	for (int i = 0; i < CROWD; i++)
		threads[i] = start(meet_anybody, NULL);
	for (int i = 0; i < CROWD; i++)
		serial += (long)join(threads[i]);
	EQ(serial, 2 * CROWD * ROUNDS / 3);
	EQ(pthread_barrier_destroy(&barrier), 0);
}

/* The first thread that comes back destroys the barrier and frees its memory. */
struct fleeting {
	pthread_barrier_t *barrier;
	atomic_int back;
};

static void *meet_and_destroy(void *argument)
{
	struct fleeting *fleeting = argument;
	pthread_barrier_t *fleeting_barrier = fleeting->barrier;
	long serial = is_serial(pthread_barrier_wait(fleeting_barrier));

	if (atomic_fetch_add(&fleeting->back, 1) == 0) {
		EQ(pthread_barrier_destroy(fleeting_barrier), 0);
		EQ(munmap(fleeting_barrier, sizeof *fleeting_barrier), 0);
	}
	return (void *)serial;
}

CASE(destroy_right_after_a_round)
{
	for (int round = 0; round < 300; round++) {
		struct fleeting fleeting = { .back = 0 };
		pthread_t threads[4];
		long serial = 0;

		fleeting.barrier = mmap(NULL, sizeof *fleeting.barrier, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(fleeting.barrier != MAP_FAILED);
		EQ(pthread_barrier_init(fleeting.barrier, NULL, 4), 0);
		for (int i = 0; i < 4; i++)
			threads[i] = start(meet_and_destroy, &fleeting);
		for (int i = 0; i < 4; i++)
			serial += (long)join(threads[i]);
		EQ(serial, 1);
	}
}

/* Ten rounds of two processes: ten waits, of one or the other. */
CASE(processes_share_a_barrier)
{
	struct shared {
		pthread_barrier_t barrier;
		atomic_int serial;
	} *shared = shared_memory(sizeof *shared);
	pthread_barrierattr_t attributes;
	pid_t child;

	EQ(pthread_barrierattr_init(&attributes), 0);
	EQ(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
	EQ(pthread_barrier_init(&shared->barrier, &attributes, 2), 0);
	child = fork();
	for (int i = 0; i < 10; i++)
		shared->serial += (int)is_serial(pthread_barrier_wait(&shared->barrier));
	if (child == 0)
		_exit(0);
	expect_success(child);
	EQ(shared->serial, 10);
	EQ(pthread_barrier_destroy(&shared->barrier), 0);
}

/* A child has its own barrier, whose threads met before the fork, and may meet and destroy it. */
CASE(a_child_uses_and_destroys_a_barrier)
{
	pthread_t thread;
	pid_t child;

	EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
	thread = start(meet, NULL);
	EQ((int)is_serial(pthread_barrier_wait(&barrier)) + (int)(long)join(thread), 1);
	child = fork();
	thread = start(meet, NULL);
	EQ((int)is_serial(pthread_barrier_wait(&barrier)) + (int)(long)join(thread), 1);
	EQ(pthread_barrier_destroy(&barrier), 0);
	if (child == 0)
		_exit(0);
	expect_success(child);
}
