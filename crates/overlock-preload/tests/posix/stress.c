/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Many threads, a counter that only the mutex protects, and objects that end as soon as POSIX allows. */
#include "mutex.h"

#include <limits.h>

enum { THREADS = 12, ROUNDS = 5000 };

/* Locks in one of the possible ways. */
static void lock_somehow(pthread_mutex_t *mutex, long i)
{
	struct timespec later;

	switch (i % 4) {
	case 0:
		if (pthread_mutex_trylock(mutex) == 0)
			return;
		break;
	case 1:
		later = in_ms(CLOCK_REALTIME, 100000);
		EQ(pthread_mutex_timedlock(mutex, &later), 0);
		return;
	case 2:
		later = in_ms(CLOCK_MONOTONIC, 100000);
		EQ(pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &later), 0);
		return;
	}
	EQ(pthread_mutex_lock(mutex), 0);
}

static void *count_plainly(void *argument)
{
	struct counter *counter = argument;

	for (long i = 0; i < counter->rounds; i++) {
		EQ(pthread_mutex_lock(counter->mutex), 0);
		count_once(counter);
		EQ(pthread_mutex_unlock(counter->mutex), 0);
	}
	return NULL;
}

static void *count_somehow(void *argument)
{
	struct counter *counter = argument;

	for (long i = 0; i < counter->rounds; i++) {
		lock_somehow(counter->mutex, i);
		count_once(counter);
		EQ(pthread_mutex_unlock(counter->mutex), 0);
	}
	return NULL;
}

static void run_counters(void *(*run)(void *), long rounds)
{
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);
		struct counter counter = { .mutex = &mutex, .rounds = rounds };
		pthread_t threads[THREADS];

		for (int i = 0; i < THREADS; i++)
			threads[i] = start(run, &counter);
		for (int i = 0; i < THREADS; i++)
			join(threads[i]);
		EQ(counter.count, THREADS * rounds);
		EQ(pthread_mutex_destroy(&mutex), 0);
	}
}

CASE(counting)
{
	run_counters(count_plainly, ROUNDS);
}

CASE(counting_in_every_way)
{
	run_counters(count_somehow, ROUNDS / 10);
}

/*
 * The rationale of pthread_mutex_destroy: the thread that drops the last reference frees the object right after its
 * unlock, while others may still be returning from theirs. The memory is made unreadable at once.
 */
struct object {
	pthread_mutex_t mutex;
	int references;
};

static void *drop(void *argument)
{
	struct object *object = argument;
	int is_last;

	EQ(pthread_mutex_lock(&object->mutex), 0);
	is_last = --object->references == 0;
	EQ(pthread_mutex_unlock(&object->mutex), 0);
	if (is_last) {
		EQ(pthread_mutex_destroy(&object->mutex), 0);
		EQ(munmap(object, sizeof *object), 0);
	}
	return NULL;
}

CASE(destroy_right_after_unlock)
{
	for (int round = 0; round < 400; round++) {
		struct object *object = mmap(NULL, sizeof *object, PROT_READ | PROT_WRITE,
					     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		pthread_t threads[6];

		CHECK(object != MAP_FAILED);
		EQ(pthread_mutex_init(&object->mutex, NULL), 0);
		object->references = 6;
		for (int i = 0; i < 6; i++)
			threads[i] = start(drop, object);
		for (int i = 0; i < 6; i++)
			join(threads[i]);
	}
}

/* The same memory becomes a new mutex at once; a late access to the old one would damage it. */
struct reused {
	pthread_mutex_t mutex;
	atomic_int turn;
};

enum { THEIRS = 1, OURS, NOBODYS };

static void *unlock_late(void *argument)
{
	struct reused *reused = argument;
	int turn;

	while ((turn = atomic_load(&reused->turn)) != NOBODYS) {
		if (turn != THEIRS) {
			sched_yield();
			continue;
		}
		EQ(pthread_mutex_lock(&reused->mutex), 0);
		atomic_store(&reused->turn, OURS);
		EQ(pthread_mutex_unlock(&reused->mutex), 0);
	}
	return NULL;
}

/* On a busy machine each turn can take a time slice of every other process, so the rounds are fewer there. */
CASE(memory_is_reused_right_after_unlock)
{
	static struct reused reused = { .turn = OURS };
	struct timespec end = in_ms(CLOCK_MONOTONIC, 10000);
	pthread_t thread = start(unlock_late, &reused);

	for (int i = 0; i < 20000 && !has_passed(CLOCK_MONOTONIC, end); i++) {
		EQ(pthread_mutex_init(&reused.mutex, NULL), 0);
		atomic_store(&reused.turn, THEIRS);
		while (atomic_load(&reused.turn) != OURS)
			sched_yield();
		EQ(pthread_mutex_lock(&reused.mutex), 0);
		EQ(pthread_mutex_unlock(&reused.mutex), 0);
		EQ(pthread_mutex_destroy(&reused.mutex), 0);
		memset(&reused.mutex, 0xff, sizeof reused.mutex);
	}
	atomic_store(&reused.turn, NOBODYS);
	join(thread);
}

/* Thread-local data is destroyed when most of the thread is gone; its destructors can still lock. */
static pthread_mutex_t late = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t late_recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_key_t key;
static long late_count;

static void lock_late(void *value)
{
	long rounds_left = (long)value - 1;

	EQ(pthread_mutex_lock(&late), 0);
	EQ(pthread_mutex_lock(&late_recursive), 0);
	EQ(pthread_mutex_lock(&late_recursive), 0);
	late_count++;
	sched_yield();
	EQ(pthread_mutex_unlock(&late_recursive), 0);
	EQ(pthread_mutex_unlock(&late_recursive), 0);
	EQ(pthread_mutex_unlock(&late), 0);
	if (rounds_left > 0)
		EQ(pthread_setspecific(key, (void *)rounds_left), 0);
}

static void *set_key(void *argument)
{
	EQ(pthread_setspecific(key, argument), 0);
	return NULL;
}

CASE(destructors_of_thread_local_data_lock)
{
	long rounds = PTHREAD_DESTRUCTOR_ITERATIONS;

	EQ(pthread_key_create(&key, lock_late), 0);
	for (int round = 0; round < 50; round++) {
		pthread_t threads[THREADS];

		for (int i = 0; i < THREADS; i++)
			threads[i] = start(set_key, (void *)rounds);
		for (int i = 0; i < THREADS; i++)
			join(threads[i]);
	}
	EQ(late_count, 50 * THREADS * rounds);
}

/* More threads than fit any small table, all waiting at once. */
static pthread_mutex_t crowded = PTHREAD_MUTEX_INITIALIZER;
static long crowd;

static void *join_crowd(void *argument)
{
	EQ(pthread_mutex_lock(&crowded), 0);
	crowd++;
	EQ(pthread_mutex_unlock(&crowded), 0);
	return argument;
}

CASE(crowd_of_waiters)
{
	enum { CROWD = 600 };
	static pthread_t threads[CROWD];
	pthread_attr_t attributes;

	EQ(pthread_attr_init(&attributes), 0);
	EQ(pthread_attr_setstacksize(&attributes, 64 * 1024), 0);
	EQ(pthread_mutex_lock(&crowded), 0);
	for (int i = 0; i < CROWD; i++)
		EQ(pthread_create(&threads[i], &attributes, join_crowd, NULL), 0);
	pause_ms(50);
	EQ(crowd, 0);
	EQ(pthread_mutex_unlock(&crowded), 0);
	for (int i = 0; i < CROWD; i++)
		join(threads[i]);
	EQ(crowd, CROWD);
}

/* Two threads that share one CPU: a holder that has lost it must get it back. */
CASE(two_threads_on_one_cpu)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct counter counter = { .mutex = &mutex, .rounds = 100000 };
	pthread_t threads[2];
	cpu_set_t all, one;

	EQ(sched_getaffinity(0, sizeof all, &all), 0);
	CPU_ZERO(&one);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (CPU_ISSET(cpu, &all)) {
			CPU_SET(cpu, &one);
			break;
		}
	}
	EQ(sched_setaffinity(0, sizeof one, &one), 0);
	for (int i = 0; i < 2; i++)
		threads[i] = start(count_plainly, &counter);
	for (int i = 0; i < 2; i++)
		join(threads[i]);
	EQ(counter.count, 200000);
}
