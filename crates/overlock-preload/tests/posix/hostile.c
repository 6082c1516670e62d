/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs that are hard on what lies in a lock: its memory goes at once, its waiters stop, are cancelled or forked. */
#include "mutex.h"

#include <semaphore.h>

enum { PAGE = 4096 };

static void *new_page(void)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(page != MAP_FAILED);
	return page;
}

static void *lock_and_unlock(void *mutex)
{
	EQ(pthread_mutex_lock(mutex), 0);
	EQ(pthread_mutex_unlock(mutex), 0);
	return NULL;
}

/* The last user of a mutex unmaps it. Nobody touches it after an unlock. */
struct counted {
	pthread_mutex_t mutex;
	int users;
};

static void *leave_and_unmap(void *argument)
{
	struct counted *object = argument;
	int left;

	EQ(pthread_mutex_lock(&object->mutex), 0);
	left = --object->users;
	EQ(pthread_mutex_unlock(&object->mutex), 0);
	if (left == 0)
		EQ(munmap(object, PAGE), 0);
	return NULL;
}

CASE(the_last_user_of_a_mutex_unmaps_it)
{
	for (int round = 0; round < 200; round++) {
		struct counted *object = new_page();
		pthread_t threads[4];

		pthread_mutex_init(&object->mutex, NULL);
		object->users = 4;
		for (int i = 0; i < 4; i++)
			threads[i] = start(leave_and_unmap, object);
		for (int i = 0; i < 4; i++)
			join(threads[i]);
	}
}

static void *wait_and_unmap(void *barrier)
{
	if (pthread_barrier_wait(barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
		EQ(pthread_barrier_destroy(barrier), 0);
		EQ(munmap(barrier, PAGE), 0);
	}
	return NULL;
}

CASE(one_thread_of_a_round_unmaps_the_barrier)
{
	for (int round = 0; round < 200; round++) {
		pthread_barrier_t *barrier = new_page();
		pthread_t threads[4];

		EQ(pthread_barrier_init(barrier, NULL, 4), 0);
		for (int i = 0; i < 4; i++)
			threads[i] = start(wait_and_unmap, barrier);
		for (int i = 0; i < 4; i++)
			join(threads[i]);
	}
}

/* A condition variable that is destroyed as soon as its waiters are told. */
struct told {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int waiting, go;
};

static void *wait_to_be_told(void *argument)
{
	struct told *told = argument;

	EQ(pthread_mutex_lock(&told->mutex), 0);
	told->waiting++;
	while (!told->go)
		EQ(pthread_cond_wait(&told->cond, &told->mutex), 0);
	EQ(pthread_mutex_unlock(&told->mutex), 0);
	return NULL;
}

CASE(a_condition_is_destroyed_as_soon_as_its_waiters_are_told)
{
	for (int round = 0; round < 100; round++) {
		struct told told = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };
		pthread_t threads[4];

		for (int i = 0; i < 4; i++)
			threads[i] = start(wait_to_be_told, &told);
		for (;;) {
			EQ(pthread_mutex_lock(&told.mutex), 0);
			if (told.waiting == 4)
				break;
			EQ(pthread_mutex_unlock(&told.mutex), 0);
			sched_yield();
		}
		told.go = 1;
		EQ(pthread_cond_broadcast(&told.cond), 0);
		EQ(pthread_mutex_unlock(&told.mutex), 0);
		EQ(pthread_cond_destroy(&told.cond), 0);
		memset(&told.cond, 0xa5, sizeof told.cond);
		for (int i = 0; i < 4; i++)
			join(threads[i]);
	}
}

/* Each process of a chain forks while its own threads wait; each has copies of the waiters of all before it. */
static void fork_deeper(pthread_mutex_t *mutex, int depth)
{
	pthread_t threads[3];
	pid_t child;

	for (int i = 0; i < 3; i++)
		threads[i] = start(lock_and_unlock, mutex);
	pause_ms(10);
	child = fork();
	if (child == 0) {
		if (depth > 0)
			fork_deeper(mutex, depth - 1);
		else
			EQ(pthread_mutex_unlock(mutex), 0);
		lock_and_unlock(mutex);
		_exit(0);
	}
	expect_success(child);
	EQ(pthread_mutex_unlock(mutex), 0);
	for (int i = 0; i < 3; i++)
		join(threads[i]);
}

CASE(waiters_of_many_generations)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

	EQ(pthread_mutex_lock(&mutex), 0);
	fork_deeper(&mutex, 6);
	lock_and_unlock(&mutex);
}

static void *lock_at_any_risk(void *mutex)
{
	EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	pthread_mutex_lock(mutex);
	for (;;)
		pause_ms(1000);
	return NULL;
}

CASE(waiters_are_cancelled_at_any_instruction)
{
	for (int round = 0; round < 50; round++) {
		pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
		pthread_t threads[4];
		void *result;

		EQ(pthread_mutex_lock(&mutex), 0);
		for (int i = 0; i < 4; i++)
			threads[i] = start(lock_at_any_risk, &mutex);
		pause_ms(round % 8);
		for (int i = 0; i < 4; i++) {
			EQ(pthread_cancel(threads[i]), 0);
			EQ(pthread_join(threads[i], &result), 0);
			CHECK(result == PTHREAD_CANCELED);
		}
		EQ(pthread_mutex_unlock(&mutex), 0);
		lock_and_unlock(&mutex);
	}
}

static pthread_mutex_t polled = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop;

static void *be_late(void *argument)
{
	struct timespec past = { 1, 0 };

	while (!stop) {
		int error = pthread_mutex_timedlock(&polled, &past);

		CHECK(error == 0 || error == ETIMEDOUT);
		if (error == 0)
			EQ(pthread_mutex_unlock(&polled), 0);
	}
	return argument;
}

CASE(deadlines_that_are_past_beside_waiters)
{
	pthread_mutex_t new = PTHREAD_MUTEX_INITIALIZER;
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		threads[i] = start(be_late, NULL);
	for (int i = 0; i < 2000; i++)
		lock_and_unlock(&polled);
	pause_ms(50);
	stop = 1;
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	expect_new(&polled, new);
}

static sem_t go_on;
static atomic_int stopped;

static void stop_here(int signal)
{
	(void)signal;
	stopped++;
	while (sem_wait(&go_on) != 0)
		;
}

CASE(a_crowd_is_stopped_while_it_waits)
{
	enum { CROWD = 40 };
	struct sigaction action = { .sa_handler = stop_here };
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, new = mutex;
	pthread_t threads[CROWD];
	struct timespec at = in_ms(CLOCK_REALTIME, 20000);

	if (is_ticket()) {
		puts("not so: a stopped thread under tickets stops all");
		return;
	}
	EQ(sem_init(&go_on, 0, 0), 0);
	EQ(sigaction(SIGUSR1, &action, NULL), 0);
	EQ(pthread_mutex_lock(&mutex), 0);
	for (int i = 0; i < CROWD; i++)
		threads[i] = start(lock_and_unlock, &mutex);
	pause_ms(30);
	for (int i = 0; i < CROWD; i++)
		EQ(pthread_kill(threads[i], SIGUSR1), 0);
	while (stopped < CROWD)
		pause_ms(1);
	EQ(pthread_mutex_unlock(&mutex), 0);
	for (int i = 0; i < 200; i++) {
		EQ(pthread_mutex_timedlock(&mutex, &at), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
	}
	for (int i = 0; i < CROWD; i++)
		EQ(sem_post(&go_on), 0);
	for (int i = 0; i < CROWD; i++)
		join(threads[i]);
	CHECK(memcmp(&mutex, &new, sizeof new) == 0);
}

static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

static void *write_in_time(void *argument)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 60000);

	EQ(pthread_rwlock_timedwrlock(&rwlock, &at), 0);
	EQ(pthread_rwlock_unlock(&rwlock), 0);
	return argument;
}

CASE(readers_poll_while_writers_wait)
{
	pthread_t threads[4];
	int read = 0;

	EQ(pthread_rwlock_rdlock(&rwlock), 0);
	for (int i = 0; i < 4; i++)
		threads[i] = start(write_in_time, NULL);
	pause_ms(20);
	for (int i = 0; i < 1000; i++) {
		EQ(pthread_rwlock_tryrdlock(&rwlock), 0);
		read++;
	}
	for (int i = 0; i <= read; i++)
		EQ(pthread_rwlock_unlock(&rwlock), 0);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
}
