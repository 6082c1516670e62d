/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Robust, priority-inheriting, priority-protecting and process-shared mutexes, process-shared conditions, and every
 * mixture of these with plain ones (POSIX.1-2017, pthread_mutex_lock, pthread_mutex_consistent, pthread_cond_wait).
 */
#include "mutex.h"

struct attributes {
	int type, robust, protocol, shared;
};

static pthread_mutex_t *make(pthread_mutex_t *mutex, struct attributes wanted)
{
	pthread_mutexattr_t attributes;

	EQ(pthread_mutexattr_init(&attributes), 0);
	EQ(pthread_mutexattr_settype(&attributes, wanted.type), 0);
	EQ(pthread_mutexattr_setrobust(&attributes, wanted.robust), 0);
	EQ(pthread_mutexattr_setprotocol(&attributes, wanted.protocol), 0);
	EQ(pthread_mutexattr_setpshared(&attributes, wanted.shared), 0);
	EQ(pthread_mutex_init(mutex, &attributes), 0);
	EQ(pthread_mutexattr_destroy(&attributes), 0);
	return mutex;
}

#define ROBUST { .robust = PTHREAD_MUTEX_ROBUST }
#define INHERIT { .protocol = PTHREAD_PRIO_INHERIT }
#define SHARED { .shared = PTHREAD_PROCESS_SHARED }

static const struct attributes special[] = {
	ROBUST,
	INHERIT,
	SHARED,
	{ .robust = PTHREAD_MUTEX_ROBUST, .protocol = PTHREAD_PRIO_INHERIT, .shared = PTHREAD_PROCESS_SHARED },
};

static void *lock_elsewhere(void *mutex)
{
	return (void *)(long)pthread_mutex_lock(mutex);
}

static void *trylock_elsewhere(void *mutex)
{
	int error = pthread_mutex_trylock(mutex);

	if (error == 0)
		EQ(pthread_mutex_unlock(mutex), 0);
	return (void *)(long)error;
}

static void *unlock_elsewhere(void *mutex)
{
	return (void *)(long)pthread_mutex_unlock(mutex);
}

CASE(special_mutexes_work)
{
	for (int i = 0; i < 4; i++) {
		for_each_type(type) {
			struct attributes wanted = special[i];
			struct timespec at;
			pthread_mutex_t mutex;
			int knows_owner = type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE;

			wanted.type = type;
			make(&mutex, wanted);
			EQ(pthread_mutex_lock(&mutex), 0);
			/* libc answers EDEADLK to the owner of some special mutexes that check errors. */
			if (type != PTHREAD_MUTEX_ERRORCHECK)
				EQ(pthread_mutex_trylock(&mutex), type == PTHREAD_MUTEX_RECURSIVE ? 0 : EBUSY);
			if (type == PTHREAD_MUTEX_ERRORCHECK)
				EQ(pthread_mutex_lock(&mutex), EDEADLK);
			if (type == PTHREAD_MUTEX_RECURSIVE)
				EQ(pthread_mutex_unlock(&mutex), 0);
			EQ(elsewhere(trylock_elsewhere, &mutex), EBUSY);
			if (knows_owner)
				EQ(elsewhere(unlock_elsewhere, &mutex), EPERM);
			/* libc lets a locked robust mutex be destroyed. */
			if (wanted.robust != PTHREAD_MUTEX_ROBUST)
				EQ(pthread_mutex_destroy(&mutex), EBUSY);
			EQ(pthread_mutex_unlock(&mutex), 0);
			at = in_ms(CLOCK_REALTIME, 1000);
			EQ(pthread_mutex_timedlock(&mutex, &at), 0);
			EQ(pthread_mutex_unlock(&mutex), 0);
			EQ(pthread_mutex_destroy(&mutex), 0);
		}
	}
}

static void *count(void *argument)
{
	struct counter *counter = argument;

	for (long i = 0; i < counter->rounds; i++) {
		EQ(pthread_mutex_lock(counter->mutex), 0);
		count_once(counter);
		EQ(pthread_mutex_unlock(counter->mutex), 0);
	}
	return NULL;
}

CASE(special_mutexes_exclude)
{
	for (int i = 0; i < 4; i++) {
		pthread_mutex_t mutex;
		struct counter counter = { .mutex = make(&mutex, special[i]), .rounds = 2000 };
		pthread_t threads[4];

		for (int j = 0; j < 4; j++)
			threads[j] = start(count, &counter);
		for (int j = 0; j < 4; j++)
			join(threads[j]);
		EQ(counter.count, 8000);
	}
}

CASE(robust_mutex_reports_a_dead_owner)
{
	for (int with_try = 0; with_try < 2; with_try++) {
		pthread_mutex_t mutex;

		make(&mutex, (struct attributes)ROBUST);
		EQ(elsewhere(lock_elsewhere, &mutex), 0);
		EQ(with_try ? pthread_mutex_trylock(&mutex) : pthread_mutex_lock(&mutex), EOWNERDEAD);
		EQ(elsewhere(trylock_elsewhere, &mutex), EBUSY);
		EQ(pthread_mutex_consistent(&mutex), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
		EQ(pthread_mutex_lock(&mutex), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
	}
}

CASE(robust_mutex_not_made_consistent_is_lost)
{
	pthread_mutex_t mutex;

	make(&mutex, (struct attributes)ROBUST);
	EQ(elsewhere(lock_elsewhere, &mutex), 0);
	EQ(pthread_mutex_lock(&mutex), EOWNERDEAD);
	EQ(pthread_mutex_unlock(&mutex), 0);
	EQ(pthread_mutex_lock(&mutex), ENOTRECOVERABLE);
	EQ(pthread_mutex_trylock(&mutex), ENOTRECOVERABLE);
	EQ(pthread_mutex_destroy(&mutex), 0);
}

CASE(plain_mutex_is_neither_robust_nor_has_a_ceiling)
{
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);
		int ceiling, old;

		EQ(pthread_mutex_lock(&mutex), 0);
		EQ(pthread_mutex_consistent(&mutex), EINVAL);
		EQ(pthread_mutex_getprioceiling(&mutex, &ceiling), EINVAL);
		EQ(pthread_mutex_setprioceiling(&mutex, 1, &old), EINVAL);
		EQ(pthread_mutex_unlock(&mutex), 0);
	}
}

CASE(priority_ceiling)
{
	struct attributes wanted = { .protocol = PTHREAD_PRIO_PROTECT };
	pthread_mutex_t mutex;
	int ceiling, old, error;

	make(&mutex, wanted);
	EQ(pthread_mutex_getprioceiling(&mutex, &ceiling), 0);
	error = pthread_mutex_lock(&mutex);
	/* Not every user may raise a priority. */
	if (error == EPERM || error == EINVAL)
		return;
	EQ(error, 0);
	EQ(elsewhere(trylock_elsewhere, &mutex), EBUSY);
	EQ(pthread_mutex_unlock(&mutex), 0);
	EQ(pthread_mutex_setprioceiling(&mutex, ceiling, &old), 0);
	EQ(old, ceiling);
	EQ(pthread_mutex_destroy(&mutex), 0);
}

/* Shared by processes. */
struct room {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	long count;
	int waiting, go, left;
};

static pthread_cond_t *make_shared(pthread_cond_t *cond, clockid_t clock)
{
	pthread_condattr_t attributes;

	EQ(pthread_condattr_init(&attributes), 0);
	EQ(pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
	EQ(pthread_condattr_setclock(&attributes, clock), 0);
	EQ(pthread_cond_init(cond, &attributes), 0);
	EQ(pthread_condattr_destroy(&attributes), 0);
	return cond;
}

CASE(processes_share_a_mutex)
{
	for (int i = 2; i < 4; i++) {
		struct room *room = shared_memory(sizeof *room);
		pid_t children[4];

		make(&room->mutex, special[i]);
		for (int j = 0; j < 4; j++) {
			children[j] = fork();
			if (children[j] == 0) {
				for (int k = 0; k < 5000; k++) {
					EQ(pthread_mutex_lock(&room->mutex), 0);
					long seen = room->count;
					/* Sometimes the holder loses its CPU. */
					if (k % 64 == 0)
						sched_yield();
					room->count = seen + 1;
					EQ(pthread_mutex_unlock(&room->mutex), 0);
				}
				_exit(0);
			}
		}
		for (int j = 0; j < 4; j++)
			expect_success(children[j]);
		EQ(room->count, 20000);
	}
}

CASE(process_that_dies_leaves_a_robust_mutex)
{
	struct room *room = shared_memory(sizeof *room);
	pid_t child;

	make(&room->mutex, special[3]);
	child = fork();
	if (child == 0) {
		EQ(pthread_mutex_lock(&room->mutex), 0);
		_exit(0);
	}
	expect_success(child);
	EQ(pthread_mutex_lock(&room->mutex), EOWNERDEAD);
	EQ(pthread_mutex_consistent(&room->mutex), 0);
	EQ(pthread_mutex_unlock(&room->mutex), 0);
}

static void wait_in(struct room *room)
{
	EQ(pthread_mutex_lock(&room->mutex), 0);
	room->waiting++;
	while (!room->go)
		EQ(pthread_cond_wait(&room->cond, &room->mutex), 0);
	room->left++;
	EQ(pthread_mutex_unlock(&room->mutex), 0);
}

static void *wait_in_thread(void *room)
{
	wait_in(room);
	return NULL;
}

static void lock_when_waiting(struct room *room, int waiting)
{
	EQ(pthread_mutex_lock(&room->mutex), 0);
	while (room->waiting < waiting) {
		EQ(pthread_mutex_unlock(&room->mutex), 0);
		pause_ms(1);
		EQ(pthread_mutex_lock(&room->mutex), 0);
	}
}

CASE(processes_share_a_condition)
{
	struct room *room = shared_memory(sizeof *room);
	pid_t children[3];
	struct timespec at;

	make(&room->mutex, (struct attributes)SHARED);
	make_shared(&room->cond, CLOCK_MONOTONIC);
	for (int i = 0; i < 3; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			wait_in(room);
			_exit(0);
		}
	}
	lock_when_waiting(room, 3);
	at = in_ms(CLOCK_MONOTONIC, 20);
	EQ(pthread_cond_timedwait(&room->cond, &room->mutex, &at), ETIMEDOUT);
	CHECK(has_passed(CLOCK_MONOTONIC, at));
	at = in_ms(CLOCK_REALTIME, 20);
	EQ(pthread_cond_clockwait(&room->cond, &room->mutex, CLOCK_REALTIME, &at), ETIMEDOUT);
	room->go = 1;
	EQ(pthread_cond_signal(&room->cond), 0);
	EQ(pthread_cond_broadcast(&room->cond), 0);
	EQ(pthread_mutex_unlock(&room->mutex), 0);
	for (int i = 0; i < 3; i++)
		expect_success(children[i]);
	EQ(room->left, 3);
	EQ(pthread_cond_destroy(&room->cond), 0);
}

/* Runs threads that wait, and wakes them by signals and a broadcast. */
static void use_condition(struct room *room)
{
	for (int round = 0; round < 20; round++) {
		pthread_t threads[4];
		struct timespec at;

		room->go = room->waiting = room->left = 0;
		for (int i = 0; i < 4; i++)
			threads[i] = start(wait_in_thread, room);
		lock_when_waiting(room, 4);
		at = in_ms(CLOCK_REALTIME, 2);
		EQ(pthread_cond_clockwait(&room->cond, &room->mutex, CLOCK_REALTIME, &at), ETIMEDOUT);
		room->go = 1;
		if (round % 2 == 0) {
			EQ(pthread_cond_broadcast(&room->cond), 0);
		} else {
			for (int i = 0; i < 4; i++)
				EQ(pthread_cond_signal(&room->cond), 0);
		}
		EQ(pthread_mutex_unlock(&room->mutex), 0);
		for (int i = 0; i < 4; i++)
			join(threads[i]);
		EQ(room->left, 4);
	}
}

/* The same, and ends the condition. */
static void use_room(struct room *room)
{
	use_condition(room);
	EQ(pthread_cond_destroy(&room->cond), 0);
}

CASE(plain_condition_with_special_mutexes)
{
	for (int i = 0; i < 4; i++) {
		struct room room = { .cond = PTHREAD_COND_INITIALIZER };

		make(&room.mutex, special[i]);
		use_room(&room);
	}
}

CASE(shared_condition_with_plain_mutexes)
{
	for_each_type(type) {
		struct room room = { .count = 0 };

		room.mutex = new_mutex(type);
		make_shared(&room.cond, CLOCK_REALTIME);
		use_room(&room);
	}
}

CASE(shared_condition_with_special_mutexes)
{
	for (int i = 0; i < 4; i++) {
		struct room room = { .count = 0 };

		make(&room.mutex, special[i]);
		make_shared(&room.cond, CLOCK_REALTIME);
		use_room(&room);
	}
}

CASE(shared_condition_with_one_mutex_after_the_other)
{
	for (int i = 0; i < 4; i++) {
		struct room room = { .count = 0 };

		make(&room.mutex, special[i]);
		make_shared(&room.cond, CLOCK_REALTIME);
		use_condition(&room);
		EQ(pthread_mutex_destroy(&room.mutex), 0);
		room.mutex = new_mutex(PTHREAD_MUTEX_NORMAL);
		use_room(&room);
	}
}

static void *take_to_the_grave(void *argument)
{
	struct room *room = argument;

	EQ(pthread_mutex_lock(&room->mutex), 0);
	room->go = 1;
	EQ(pthread_cond_signal(&room->cond), 0);
	return NULL;
}

CASE(wait_reports_a_dead_owner)
{
	for (int shared = 0; shared < 2; shared++) {
		struct room room = { .cond = PTHREAD_COND_INITIALIZER };
		pthread_t thread;

		make(&room.mutex, (struct attributes)ROBUST);
		if (shared)
			make_shared(&room.cond, CLOCK_REALTIME);
		EQ(pthread_mutex_lock(&room.mutex), 0);
		thread = start(take_to_the_grave, &room);
		EQ(pthread_cond_wait(&room.cond, &room.mutex), EOWNERDEAD);
		EQ(room.go, 1);
		EQ(pthread_mutex_consistent(&room.mutex), 0);
		EQ(pthread_mutex_unlock(&room.mutex), 0);
		join(thread);
		EQ(pthread_cond_destroy(&room.cond), 0);
	}
}

static void unlock_room(void *room)
{
	EQ(pthread_mutex_unlock(&((struct room *)room)->mutex), 0);
}

static void *wait_for_ever_in(void *argument)
{
	struct room *room = argument;

	EQ(pthread_mutex_lock(&room->mutex), 0);
	pthread_cleanup_push(unlock_room, room);
	room->waiting++;
	for (;;)
		EQ(pthread_cond_wait(&room->cond, &room->mutex), 0);
	pthread_cleanup_pop(0);
	return NULL;
}

CASE(waits_with_special_objects_are_cancelled)
{
	for (int i = 0; i < 5; i++) {
		for (int shared = 0; shared < 2; shared++) {
			struct room room = { .cond = PTHREAD_COND_INITIALIZER };
			pthread_t thread;

			make(&room.mutex, i < 4 ? special[i] : (struct attributes){ .type = PTHREAD_MUTEX_ERRORCHECK });
			if (shared)
				make_shared(&room.cond, CLOCK_REALTIME);
			thread = start(wait_for_ever_in, &room);
			lock_when_waiting(&room, 1);
			EQ(pthread_mutex_unlock(&room.mutex), 0);
			EQ(pthread_cancel(thread), 0);
			CHECK(join(thread) == PTHREAD_CANCELED);
			EQ(pthread_mutex_trylock(&room.mutex), 0);
			EQ(pthread_cond_destroy(&room.cond), 0);
		}
	}
}
