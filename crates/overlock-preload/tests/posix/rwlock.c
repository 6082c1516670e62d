/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Read-write locks. The first cases make a thread wait a number of times that library.rs knows, or none.
 */
#include "posix.h"

#include <limits.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int arrived, inside;

static void arrive(void)
{
	arrived = (int)syscall(SYS_gettid);
}

/* Waits until another thread, which has come here, sleeps, and goes on sleeping. */
static void until_blocked(void)
{
	char name[64], text[256];
	int looks = 0;

	while (looks < 20) {
		FILE *file;

		pause_ms(1);
		snprintf(name, sizeof name, "/proc/self/task/%d/stat", arrived);
		file = arrived ? fopen(name, "r") : NULL;
		if (file == NULL)
			continue;
		looks = fgets(text, sizeof text, file) && strstr(text, ") S") ? looks + 1 : 0;
		fclose(file);
	}
}

enum way { PLAIN, TIMED, CLOCKED };

static int lock_by(enum way way, int write)
{
	struct timespec at = in_ms(way == CLOCKED ? CLOCK_MONOTONIC : CLOCK_REALTIME, 100000);

	switch (way) {
	case TIMED:
		return write ? pthread_rwlock_timedwrlock(&lock, &at) : pthread_rwlock_timedrdlock(&lock, &at);
	case CLOCKED:
		return write ? pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &at) :
			       pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &at);
	default:
		return write ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock);
	}
}

static void *take(void *way_and_write)
{
	long which = (long)way_and_write;

	arrive();
	EQ(lock_by((enum way)(which / 2), which % 2), 0);
	EQ(inside, 0);
	EQ(pthread_rwlock_unlock(&lock), 0);
	return NULL;
}

/* Six waits: a reader and a writer, in three ways, behind a writer. */
CASE(readers_and_writers_wait)
{
	for (long which = 0; which < 6; which++) {
		pthread_t thread;

		EQ(pthread_rwlock_wrlock(&lock), 0);
		inside = 1;
		arrived = 0;
		thread = start(take, (void *)which);
		until_blocked();
		inside = 0;
		EQ(pthread_rwlock_unlock(&lock), 0);
		join(thread);
	}
}

CASE(a_free_lock_is_no_wait)
{
	EQ(pthread_rwlock_rdlock(&lock), 0);
	EQ(pthread_rwlock_rdlock(&lock), 0);
	EQ(pthread_rwlock_tryrdlock(&lock), 0);
	EQ(pthread_rwlock_trywrlock(&lock), EBUSY);
	for (int i = 0; i < 3; i++)
		EQ(pthread_rwlock_unlock(&lock), 0);
	EQ(pthread_rwlock_wrlock(&lock), 0);
	EQ(pthread_rwlock_unlock(&lock), 0);
}

/* One wait, in vain. */
CASE(a_deadline_is_kept)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 30);

	EQ(pthread_rwlock_wrlock(&lock), 0);
	EQ(pthread_rwlock_wrlock(&lock), EDEADLK);
	EQ(pthread_rwlock_unlock(&lock), 0);
	EQ(pthread_rwlock_rdlock(&lock), 0);
	EQ(pthread_rwlock_timedwrlock(&lock, &at), ETIMEDOUT);
	CHECK(has_passed(CLOCK_REALTIME, at));
	EQ(pthread_rwlock_unlock(&lock), 0);
}

/* libc looks at clock and time before it takes even a free lock. */
CASE(bad_arguments_are_refused_although_the_lock_is_free)
{
	static const clockid_t bad_clocks[] = { CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_BOOTTIME, -1, 99 };
	static const long bad_ns[] = { -1, 1000000000, LONG_MAX, LONG_MIN };
	struct timespec at = in_ms(CLOCK_REALTIME, 100000);

	for (size_t i = 0; i < sizeof(bad_clocks) / sizeof(bad_clocks[0]); i++) {
		EQ(pthread_rwlock_clockrdlock(&lock, bad_clocks[i], &at), EINVAL);
		EQ(pthread_rwlock_clockwrlock(&lock, bad_clocks[i], &at), EINVAL);
	}
	for (size_t i = 0; i < sizeof(bad_ns) / sizeof(bad_ns[0]); i++) {
		at.tv_nsec = bad_ns[i];
		EQ(pthread_rwlock_timedrdlock(&lock, &at), EINVAL);
		EQ(pthread_rwlock_timedwrlock(&lock, &at), EINVAL);
		EQ(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &at), EINVAL);
		EQ(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &at), EINVAL);
	}
	/* None of them took it. */
	EQ(pthread_rwlock_trywrlock(&lock), 0);
	EQ(pthread_rwlock_unlock(&lock), 0);
}

/* Readers, writers and plain data: a reader beside a writer sees a half-made change. */
static struct {
	pthread_rwlock_t lock;
	volatile long one, other;
} pair;

static void *read_and_write(void *share)
{
	for (long i = 0; i < 20000; i++) {
		if (i % 100 < (long)share) {
			EQ(pthread_rwlock_rdlock(&pair.lock), 0);
			CHECK(pair.one == pair.other);
		} else {
			EQ(pthread_rwlock_wrlock(&pair.lock), 0);
			pair.one++;
			if (i % 64 == 0)
				sched_yield();
			pair.other++;
		}
		EQ(pthread_rwlock_unlock(&pair.lock), 0);
	}
	return NULL;
}

CASE(readers_never_see_half_a_change)
{
	static const int kinds[] = { PTHREAD_RWLOCK_PREFER_READER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NP,
				     PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		pthread_rwlockattr_t attributes;
		pthread_t threads[6];

		EQ(pthread_rwlockattr_init(&attributes), 0);
		EQ(pthread_rwlockattr_setkind_np(&attributes, kinds[i]), 0);
		EQ(pthread_rwlock_init(&pair.lock, &attributes), 0);
		pair.one = pair.other = 0;
		for (long j = 0; j < 6; j++)
			threads[j] = start(read_and_write, (void *)(j % 3 * 49));
		for (int j = 0; j < 6; j++)
			join(threads[j]);
		CHECK(pair.one == pair.other && pair.one == 2 * 20000 + 2 * 10200 + 2 * 400);
		EQ(pthread_rwlock_destroy(&pair.lock), 0);
	}
}

static void *write_once(void *unused)
{
	(void)unused;
	arrive();
	EQ(pthread_rwlock_wrlock(&lock), 0);
	inside++;
	EQ(pthread_rwlock_unlock(&lock), 0);
	return NULL;
}

/* The default kind: a thread that reads may read again, also beside other locks, though a writer waits. */
CASE(a_reader_reads_again_past_a_waiting_writer)
{
	static pthread_rwlock_t others[9];
	pthread_t writer;

	for (int more = 0; more < 2; more++) {
		for (int i = 0; more && i < 9; i++) {
			EQ(pthread_rwlock_init(&others[i], NULL), 0);
			EQ(pthread_rwlock_rdlock(&others[i]), 0);
		}
		EQ(pthread_rwlock_rdlock(&lock), 0);
		arrived = inside = 0;
		writer = start(write_once, NULL);
		until_blocked();
		for (int i = 0; i < 100; i++) {
			struct timespec at = in_ms(CLOCK_REALTIME, 100000);

			EQ(i % 2 ? pthread_rwlock_rdlock(&lock) : pthread_rwlock_timedrdlock(&lock, &at), 0);
			CHECK(!inside);
			EQ(pthread_rwlock_unlock(&lock), 0);
		}
		EQ(pthread_rwlock_tryrdlock(&lock), 0);
		EQ(pthread_rwlock_unlock(&lock), 0);
		EQ(pthread_rwlock_unlock(&lock), 0);
		join(writer);
		CHECK(inside);
		for (int i = 0; more && i < 9; i++)
			EQ(pthread_rwlock_unlock(&others[i]), 0);
	}
}

static void *reads_too(void *unused)
{
	EQ(pthread_rwlock_rdlock(&lock), 0);
	EQ(pthread_rwlock_unlock(&lock), 0);
	return unused;
}

/* The default kind: a thread that reads may wait for another to read, though a writer waits (glibc's tst-rwlock16). */
CASE(a_reader_waits_for_another_past_a_waiting_writer)
{
	pthread_t writer;

	EQ(pthread_rwlock_rdlock(&lock), 0);
	arrived = inside = 0;
	writer = start(write_once, NULL);
	until_blocked();
	join(start(reads_too, NULL));
	CHECK(!inside);
	EQ(pthread_rwlock_unlock(&lock), 0);
	join(writer);
	CHECK(inside);
}

static atomic_int stop;

static void *read_on(void *unused)
{
	while (!stop) {
		EQ(pthread_rwlock_rdlock(&lock), 0);
		pause_ms(1);
		EQ(pthread_rwlock_unlock(&lock), 0);
	}
	return unused;
}

static void prefer_writers(void)
{
	pthread_rwlockattr_t attributes;

	EQ(pthread_rwlockattr_init(&attributes), 0);
	EQ(pthread_rwlockattr_setkind_np(&attributes, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP), 0);
	EQ(pthread_rwlock_init(&lock, &attributes), 0);
}

/* Readers that always overlap. The default kind lets them keep a writer out for ever. */
CASE(a_writer_gets_in_among_readers)
{
	pthread_t readers[8];

	prefer_writers();
	for (int i = 0; i < 8; i++)
		readers[i] = start(read_on, NULL);
	for (int i = 0; i < 20; i++)
		join(start(write_once, NULL));
	EQ(inside, 20);
	stop = 1;
	for (int i = 0; i < 8; i++)
		join(readers[i]);
}

/* Calls that do not wait, or whose time is past, read past a writer that waits; not of the other kind. */
CASE(a_waiting_writer_refuses_no_reader_of_the_default_kind)
{
	for (int prefers_writers = 0; prefers_writers < 2; prefers_writers++) {
		struct timespec past = { 1, 0 };
		int late = prefers_writers ? ETIMEDOUT : 0;
		pthread_t writer;

		if (prefers_writers)
			prefer_writers();
		EQ(pthread_rwlock_rdlock(&lock), 0);
		arrived = inside = 0;
		writer = start(write_once, NULL);
		until_blocked();
		EQ(pthread_rwlock_tryrdlock(&lock), prefers_writers ? EBUSY : 0);
		EQ(pthread_rwlock_timedrdlock(&lock, &past), late);
		EQ(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &past), late);
		for (int i = 0; i < 2000 && !prefers_writers; i++) {
			EQ(pthread_rwlock_rdlock(&lock), 0);
			EQ(pthread_rwlock_unlock(&lock), 0);
		}
		CHECK(!inside);
		for (int i = prefers_writers ? 1 : 4; i > 0; i--)
			EQ(pthread_rwlock_unlock(&lock), 0);
		join(writer);
	}
}

/* As many read holds as no counter of 16 or 20 bits counts. */
CASE(a_lock_is_read_a_million_times)
{
	for (int i = 0; i < 1100000; i++)
		EQ(pthread_rwlock_rdlock(&lock), 0);
	EQ(pthread_rwlock_trywrlock(&lock), EBUSY);
	for (int i = 0; i < 1100000; i++)
		EQ(pthread_rwlock_unlock(&lock), 0);
	EQ(pthread_rwlock_trywrlock(&lock), 0);
	EQ(pthread_rwlock_unlock(&lock), 0);
}

static sem_t is_stopped, may_go_on;

static void stops(int number)
{
	(void)number;
	sem_post(&is_stopped);
	while (sem_wait(&may_go_on))
		continue;
}

static void *write_in_turn(void *unused)
{
	arrive();
	EQ(pthread_rwlock_wrlock(&lock), 0);
	inside = 1;
	EQ(pthread_rwlock_unlock(&lock), 0);
	return unused;
}

/*
 * A thread that has just let a waiting writer in takes the lock again behind it. On a busy machine the writer can come
 * too late for its turn now and then, but not each time.
 */
CASE(a_reader_that_comes_again_does_not_pass_a_writer)
{
	int first = 0;

	prefer_writers();
	for (int i = 0; i < 20; i++) {
		pthread_t writer;

		arrived = inside = 0;
		EQ(pthread_rwlock_rdlock(&lock), 0);
		writer = start(write_in_turn, NULL);
		until_blocked();
		EQ(pthread_rwlock_unlock(&lock), 0);
		EQ(pthread_rwlock_rdlock(&lock), 0);
		first += inside;
		EQ(pthread_rwlock_unlock(&lock), 0);
		join(writer);
	}
	CHECK(first > 0);
}

/* A waiter that a collector has stopped keeps the others out for a bounded time in all. */
CASE(a_stopped_waiter_stops_no_other)
{
	EQ(sem_init(&is_stopped, 0, 0), 0);
	EQ(sem_init(&may_go_on, 0, 0), 0);
	CHECK(signal(SIGUSR1, stops) != SIG_ERR);
	for (int which = 0; which < 4; which++) {
		int waits_to_write = which / 2, writes = which % 2;
		pthread_t waiter;

		/* libc hands the lock to the reader that is stopped. */
		if (!waits_to_write && writes && !is_overlock())
			continue;
		EQ(pthread_rwlock_wrlock(&lock), 0);
		arrived = inside = 0;
		waiter = start(waits_to_write ? write_once : reads_too, NULL);
		pause_ms(50);
		EQ(pthread_kill(waiter, SIGUSR1), 0);
		while (sem_wait(&is_stopped))
			continue;
		EQ(pthread_rwlock_unlock(&lock), 0);
		for (int i = 0; i < 20000; i++) {
			EQ(lock_by(TIMED, writes), 0);
			EQ(pthread_rwlock_unlock(&lock), 0);
		}
		EQ(sem_post(&may_go_on), 0);
		join(waiter);
	}
}

static void *comes_and_goes(void *writes)
{
	EQ(writes ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock), 0);
	EQ(pthread_rwlock_unlock(&lock), 0);
	return NULL;
}

/* A crowd is woken in steps that grow with it, not with its square. */
CASE(a_crowd_switches_a_few_times_for_each_thread)
{
	enum { CROWD = 1000, SWITCHES = 20 };
	static pthread_t threads[CROWD];

	for (int writes = 0; writes < 2; writes++) {
		struct rusage before, after;

		EQ(writes ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock), 0);
		EQ(getrusage(RUSAGE_SELF, &before), 0);
		for (long i = 0; i < CROWD; i++)
			threads[i] = start(comes_and_goes, (void *)(i % 2));
		pause_ms(100);
		EQ(pthread_rwlock_unlock(&lock), 0);
		for (int i = 0; i < CROWD; i++)
			join(threads[i]);
		EQ(getrusage(RUSAGE_SELF, &after), 0);
		CHECK(after.ru_nvcsw - before.ru_nvcsw < SWITCHES * CROWD);
	}
}

CASE(a_writer_is_told_of_its_own_lock)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 100000);

	EQ(pthread_rwlock_wrlock(&lock), 0);
	EQ(pthread_rwlock_rdlock(&lock), EDEADLK);
	EQ(pthread_rwlock_timedrdlock(&lock, &at), EDEADLK);
	EQ(pthread_rwlock_timedwrlock(&lock, &at), EDEADLK);
	EQ(pthread_rwlock_tryrdlock(&lock), EBUSY);
	EQ(pthread_rwlock_trywrlock(&lock), EBUSY);
	EQ(pthread_rwlock_unlock(&lock), 0);
	EQ(pthread_rwlock_tryrdlock(&lock), 0);
	EQ(pthread_rwlock_unlock(&lock), 0);
}

static void use_with_threads(void)
{
	pthread_t threads[4];

	pair.one = pair.other = 0;
	for (long i = 0; i < 4; i++)
		threads[i] = start(read_and_write, (void *)50);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	CHECK(pair.one == 4 * 10000 && pair.other == pair.one);
}

static void *wait_for_pair(void *writes)
{
	arrived++;
	EQ(writes ? pthread_rwlock_wrlock(&pair.lock) : pthread_rwlock_rdlock(&pair.lock), 0);
	EQ(pthread_rwlock_unlock(&pair.lock), 0);
	return NULL;
}

/* The threads that wait are not in the child. libc's lock keeps their marks there. */
CASE(a_child_has_no_waiters)
{
	if (!is_overlock()) {
		puts("not so: libc's lock does not survive a fork with waiters");
		return;
	}
	for (int holds_for_writing = 0; holds_for_writing < 2; holds_for_writing++) {
		pthread_t threads[4];
		pid_t child;

		EQ(pthread_rwlock_init(&pair.lock, NULL), 0);
		arrived = 0;
		EQ(holds_for_writing ? pthread_rwlock_wrlock(&pair.lock) : pthread_rwlock_rdlock(&pair.lock), 0);
		for (long i = 0; i < 4; i++)
			threads[i] = start(wait_for_pair, (void *)(i < 2 ? 1L : !holds_for_writing));
		while (arrived < 4)
			pause_ms(1);
		pause_ms(50);
		child = fork();
		EQ(pthread_rwlock_unlock(&pair.lock), 0);
		if (child == 0) {
			use_with_threads();
			_exit(0);
		}
		expect_success(child);
		for (int i = 0; i < 4; i++)
			join(threads[i]);
		use_with_threads();
	}
}

/* What processes share is libc's, in every call. */
CASE(processes_share_a_lock)
{
	struct {
		pthread_rwlock_t lock;
		atomic_int is_late;
	} *memory = mmap(NULL, sizeof *memory, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_rwlock_t *shared = &memory->lock;
	pthread_rwlockattr_t attributes;
	struct timespec at;
	pid_t child;

	CHECK(memory != MAP_FAILED);
	EQ(pthread_rwlockattr_init(&attributes), 0);
	EQ(pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
	EQ(pthread_rwlock_init(shared, &attributes), 0);
	EQ(pthread_rwlock_rdlock(shared), 0);
	child = fork();
	if (child == 0) {
		at = in_ms(CLOCK_REALTIME, 30);
		EQ(pthread_rwlock_tryrdlock(shared), 0);
		EQ(pthread_rwlock_unlock(shared), 0);
		EQ(pthread_rwlock_timedwrlock(shared, &at), ETIMEDOUT);
		memory->is_late = 1;
		EQ(pthread_rwlock_wrlock(shared), 0);
		EQ(pthread_rwlock_unlock(shared), 0);
		_exit(0);
	}
	/* A child that has failed never comes so far. */
	for (int i = 0; i < 10000 && !memory->is_late; i++)
		pause_ms(1);
	EQ(pthread_rwlock_unlock(shared), 0);
	expect_success(child);
	EQ(pthread_rwlock_trywrlock(shared), 0);
	EQ(pthread_rwlock_unlock(shared), 0);
}
