/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* pthread_spin_init, _lock, _trylock, _unlock, _destroy (POSIX.1-2017). */
#include "posix.h"

static const int sharings[] = { PTHREAD_PROCESS_PRIVATE, PTHREAD_PROCESS_SHARED };

static void *trylock_elsewhere(void *spin)
{
	int error = pthread_spin_trylock(spin);

	if (error == 0)
		EQ(pthread_spin_unlock(spin), 0);
	return (void *)(long)error;
}

CASE(lock_trylock_unlock)
{
	for (int i = 0; i < 2; i++) {
		pthread_spinlock_t spin = 12345;

		EQ(pthread_spin_init(&spin, sharings[i]), 0);
		for (int j = 0; j < 3; j++) {
			EQ(pthread_spin_lock(&spin), 0);
			EQ(pthread_spin_trylock(&spin), EBUSY);
			EQ(elsewhere(trylock_elsewhere, (void *)&spin), EBUSY);
			EQ(pthread_spin_unlock(&spin), 0);
			EQ(pthread_spin_trylock(&spin), 0);
			EQ(elsewhere(trylock_elsewhere, (void *)&spin), EBUSY);
			EQ(pthread_spin_unlock(&spin), 0);
			EQ(elsewhere(trylock_elsewhere, (void *)&spin), 0);
		}
		EQ(pthread_spin_destroy(&spin), 0);
	}
}

/*
 * Few, unless `cargo xtask verify` runs this: where a waiter only spins, as libc's does, each time that a holder
 * loses its CPU takes a slice of the scheduler's.
 */
static int rounds = 2000;

__attribute__((constructor)) static void set_rounds(void)
{
	if (getenv("OVERLOCK_VERIFY") != NULL)
		rounds = 20000;
}

struct counter {
	pthread_spinlock_t spin;
	volatile long count;
};

static void *count(void *argument)
{
	struct counter *counter = argument;
	long seen;

	for (int i = 0; i < rounds; i++) {
		if (i % 3 != 0 || pthread_spin_trylock(&counter->spin) != 0)
			EQ(pthread_spin_lock(&counter->spin), 0);
		seen = counter->count;
		/* Sometimes the holder loses its CPU. */
		if (i % 64 == 0)
			sched_yield();
		counter->count = seen + 1;
		EQ(pthread_spin_unlock(&counter->spin), 0);
	}
	return NULL;
}

CASE(threads_exclude_each_other)
{
	struct counter counter = { .count = 0 };
	pthread_t threads[8];

	EQ(pthread_spin_init(&counter.spin, PTHREAD_PROCESS_PRIVATE), 0);
	for (int i = 0; i < 8; i++)
		threads[i] = start(count, &counter);
	for (int i = 0; i < 8; i++)
		join(threads[i]);
	EQ(counter.count, 8 * rounds);
}

CASE(processes_exclude_each_other)
{
	struct counter *counter = shared_memory(sizeof *counter);
	pid_t children[4];

	EQ(pthread_spin_init(&counter->spin, PTHREAD_PROCESS_SHARED), 0);
	for (int i = 0; i < 4; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			count(counter);
			_exit(0);
		}
	}
	for (int i = 0; i < 4; i++)
		expect_success(children[i]);
	EQ(counter->count, 4 * rounds);
}

CASE(lock_waits_for_a_holder_that_sleeps)
{
	struct counter counter = { .count = 0 };
	pthread_t thread;

	EQ(pthread_spin_init(&counter.spin, PTHREAD_PROCESS_PRIVATE), 0);
	EQ(pthread_spin_lock(&counter.spin), 0);
	thread = start(count, &counter);
	pause_ms(100);
	EQ(counter.count, 0);
	EQ(pthread_spin_unlock(&counter.spin), 0);
	join(thread);
	EQ(counter.count, rounds);
}

CASE(errno_is_left_alone)
{
	struct counter counter = { .count = 0 };
	pthread_t thread;

	EQ(pthread_spin_init(&counter.spin, PTHREAD_PROCESS_PRIVATE), 0);
	thread = start(count, &counter);
	for (int i = 0; i < rounds; i++) {
		errno = EDOM;
		EQ(pthread_spin_lock(&counter.spin), 0);
		EQ(pthread_spin_unlock(&counter.spin), 0);
		EQ(errno, EDOM);
	}
	join(thread);
}

/* A process that is not under Overlock shares the lock: the program executes itself without LD_PRELOAD. */
CASE(partner_of_shared_lock)
{
	const char *file = getenv("POSIX_SPIN_FILE");
	struct counter *counter;
	FILE *memory;

	if (file == NULL)
		return; /* run only by the case below */
	memory = fopen(file, "r+");
	CHECK(memory != NULL);
	counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(memory), 0);
	CHECK(counter != MAP_FAILED);
	count(counter);
}

CASE(lock_is_shared_with_a_process_on_libc)
{
	char file[] = "/tmp/posix-spin-XXXXXX";
	char *arguments[] = { program_invocation_name, "partner_of_shared_lock", NULL };
	struct counter *counter;
	char setting[64];
	char *environment[] = { setting, getenv("OVERLOCK_VERIFY") != NULL ? "OVERLOCK_VERIFY=long" : NULL, NULL };
	pid_t child;
	int memory = mkstemp(file);

	CHECK(memory >= 0);
	EQ(ftruncate(memory, sizeof *counter), 0);
	counter = mmap(NULL, sizeof *counter, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
	CHECK(counter != MAP_FAILED);
	EQ(pthread_spin_init(&counter->spin, PTHREAD_PROCESS_SHARED), 0);
	snprintf(setting, sizeof setting, "POSIX_SPIN_FILE=%s", file);
	EQ(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environment), 0);
	count(counter);
	expect_success(child);
	EQ(unlink(file), 0);
	EQ(counter->count, 2 * rounds);
}

/* A waiter of higher real-time priority must let the holder run, on the one CPU they share. */
static struct counter urgent;

static void *lock_urgently(void *argument)
{
	EQ(pthread_spin_lock(&urgent.spin), 0);
	urgent.count++;
	EQ(pthread_spin_unlock(&urgent.spin), 0);
	return argument;
}

CASE(urgent_waiter_lets_the_holder_run)
{
	struct sched_param high = { .sched_priority = 2 };
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t one;
	int error;

	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	EQ(sched_setaffinity(0, sizeof one, &one), 0);
	EQ(pthread_attr_init(&attributes), 0);
	EQ(pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED), 0);
	EQ(pthread_attr_setschedpolicy(&attributes, SCHED_FIFO), 0);
	EQ(pthread_attr_setschedparam(&attributes, &high), 0);
	EQ(pthread_spin_init(&urgent.spin, PTHREAD_PROCESS_PRIVATE), 0);
	EQ(pthread_spin_lock(&urgent.spin), 0);
	/* libc's lock spins for ever here, until the kernel throttles it; and not every user may use real-time priorities. */
	if (!is_overlock())
		return;
	error = pthread_create(&thread, &attributes, lock_urgently, NULL);
	if (error == EPERM)
		return;
	EQ(error, 0);
	pause_ms(20);
	EQ(urgent.count, 0);
	EQ(pthread_spin_unlock(&urgent.spin), 0);
	join(thread);
	EQ(urgent.count, 1);
}
