/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Mutexes in memory that processes share without having said so. libc's threads then can't wake those of another
 * process, but a mutex still excludes, and knows its owner.
 */
#include "mutex.h"

struct unshared {
	pthread_mutex_t recursive, errorcheck, normal;
	atomic_int is_locked;
	long count;
};

static void init_unshared(struct unshared *memory)
{
	pthread_mutexattr_t attributes;

	EQ(pthread_mutexattr_init(&attributes), 0);
	EQ(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE), 0);
	EQ(pthread_mutex_init(&memory->recursive, &attributes), 0);
	EQ(pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK), 0);
	EQ(pthread_mutex_init(&memory->errorcheck, &attributes), 0);
	EQ(pthread_mutex_init(&memory->normal, NULL), 0);
}

static void expect_owned_by_others(struct unshared *memory)
{
	EQ(pthread_mutex_trylock(&memory->recursive), EBUSY);
	EQ(pthread_mutex_trylock(&memory->errorcheck), EBUSY);
	EQ(pthread_mutex_trylock(&memory->normal), EBUSY);
	EQ(pthread_mutex_unlock(&memory->recursive), EPERM);
	EQ(pthread_mutex_unlock(&memory->errorcheck), EPERM);
}

CASE(another_process_does_not_own_what_it_shares)
{
	struct unshared *memory = shared_memory(sizeof(*memory));
	pid_t child;

	init_unshared(memory);
	child = fork();
	if (child == 0) {
		while (!memory->is_locked)
			pause_ms(1);
		expect_owned_by_others(memory);
		child = fork();
		if (child == 0) {
			expect_owned_by_others(memory);
			_exit(0);
		}
		expect_success(child);
		_exit(0);
	}
	EQ(pthread_mutex_lock(&memory->recursive), 0);
	EQ(pthread_mutex_lock(&memory->errorcheck), 0);
	EQ(pthread_mutex_lock(&memory->normal), 0);
	memory->is_locked = 1;
	expect_success(child);
	EQ(pthread_mutex_unlock(&memory->recursive), 0);
	EQ(pthread_mutex_unlock(&memory->errorcheck), 0);
	EQ(pthread_mutex_unlock(&memory->normal), 0);
}

static void count_unshared(struct unshared *memory)
{
	for (int i = 0; i < 2000; i++) {
		long count;

		while (pthread_mutex_trylock(&memory->normal) != 0)
			sched_yield();
		count = memory->count;
		if (i % 50 == 0)
			sched_yield();
		memory->count = count + 1;
		EQ(pthread_mutex_unlock(&memory->normal), 0);
	}
}

/* The parent's threads wait, so that the word names waiters while children of two generations come. */
CASE(processes_that_share_a_mutex_exclude_each_other)
{
	struct unshared *memory = shared_memory(sizeof(*memory));
	pid_t children[3];

	init_unshared(memory);
	for (int i = 0; i < 3; i++) {
		children[i] = fork();
		if (children[i] == 0) {
			pid_t child = fork();

			count_unshared(memory);
			if (child == 0)
				_exit(0);
			expect_success(child);
			_exit(0);
		}
	}
	count_unshared(memory);
	for (int i = 0; i < 3; i++)
		expect_success(children[i]);
	EQ(memory->count, 7 * 2000);
}

/* Starts this program anew, so that nothing is known of this process; it finds the memory behind a file descriptor. */
static pid_t stranger(const char *name, int memory)
{
	char *arguments[] = { program_invocation_name, (char *)name, NULL };
	char number[16];
	pid_t child;

	snprintf(number, sizeof number, "%d", memory);
	EQ(setenv("POSIX_UNSHARED", number, 1), 0);
	EQ(posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ), 0);
	EQ(unsetenv("POSIX_UNSHARED"), 0);
	return child;
}

static struct unshared *map_unshared(int memory)
{
	struct unshared *mapped = mmap(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);

	CHECK(mapped != MAP_FAILED);
	return mapped;
}

/* What a stranger finds; or NULL in a process that is none. */
static struct unshared *strangers(void)
{
	const char *number = getenv("POSIX_UNSHARED");

	return number == NULL ? NULL : map_unshared(atoi(number));
}

static int new_memory(void)
{
	int memory = memfd_create("unshared", 0);

	CHECK(memory >= 0);
	EQ(ftruncate(memory, sizeof(struct unshared)), 0);
	return memory;
}

static void lock_all(struct unshared *memory)
{
	EQ(pthread_mutex_lock(&memory->recursive), 0);
	EQ(pthread_mutex_lock(&memory->errorcheck), 0);
	EQ(pthread_mutex_lock(&memory->normal), 0);
}

static void unlock_all(struct unshared *memory)
{
	EQ(pthread_mutex_unlock(&memory->recursive), 0);
	EQ(pthread_mutex_unlock(&memory->errorcheck), 0);
	EQ(pthread_mutex_unlock(&memory->normal), 0);
}

/* Is run by the cases below only. */
CASE(stranger_that_owns_nothing)
{
	struct unshared *memory = strangers();

	if (memory != NULL)
		expect_owned_by_others(memory);
}

CASE(a_stranger_does_not_own_what_it_shares)
{
	int file = new_memory();
	struct unshared *memory = map_unshared(file);

	init_unshared(memory);
	lock_all(memory);
	expect_success(stranger("stranger_that_owns_nothing", file));
	unlock_all(memory);
}

/* Is run by the case below only. */
CASE(stranger_that_owns_all)
{
	struct unshared *memory = strangers();

	if (memory == NULL)
		return;
	lock_all(memory);
	memory->is_locked = 1;
	while (memory->is_locked)
		pause_ms(1);
	unlock_all(memory);
}

/* Starts this program anew as the first process of a container, or ends with this status. */
enum { NO_CONTAINER = 77 };

static pid_t first_of_container(const char *name, int memory)
{
	pid_t child = fork();

	if (child == 0) {
		if (unshare(CLONE_NEWPID) != 0)
			_exit(NO_CONTAINER);
		expect_success(stranger(name, memory));
		_exit(0);
	}
	return child;
}

/* Containers number their processes alike, and libc's mutexes know an owner by its number. */
CASE(a_stranger_with_the_same_number_does_not_own_what_it_shares)
{
	int file = new_memory(), status = 0;
	struct unshared *memory = map_unshared(file);
	pid_t owner;

	if (!is_overlock())
		return;
	init_unshared(memory);
	owner = first_of_container("stranger_that_owns_all", file);
	while (!memory->is_locked && waitpid(owner, &status, WNOHANG) == 0)
		pause_ms(1);
	if (!memory->is_locked) {
		CHECK(WIFEXITED(status) && WEXITSTATUS(status) == NO_CONTAINER);
		skipped("strangers with the same number: this user may make no container");
		return;
	}
	expect_success(first_of_container("stranger_that_owns_nothing", file));
	memory->is_locked = 0;
	expect_success(owner);
}

/* Is run by the case below only: queues where the owner's threads do. */
CASE(stranger_that_waits)
{
	struct unshared *memory = strangers();
	struct section section = { 0 };
	pthread_t threads[3];

	if (memory == NULL)
		return;
	section.mutex = &memory->normal;
	for (int i = 0; i < 3; i++)
		threads[i] = start(enter_section, &section);
	memory->is_locked = 1;
	for (int i = 0; i < 3; i++)
		join(threads[i]);
}

/* Threads of two processes wait for one mutex. They can't wake each other, but those of the first do not suffer. */
CASE(strangers_do_not_join_a_queue)
{
	int file = new_memory();
	struct unshared *memory = map_unshared(file);
	struct section section = { .mutex = &memory->normal };
	pthread_t threads[3];
	pid_t child;

	init_unshared(memory);
	EQ(pthread_mutex_lock(&memory->normal), 0);
	for (int i = 0; i < 3; i++)
		threads[i] = start(enter_section, &section);
	pause_ms(20);
	child = stranger("stranger_that_waits", file);
	while (!memory->is_locked)
		pause_ms(1);
	pause_ms(50);
	EQ(pthread_mutex_unlock(&memory->normal), 0);
	for (int i = 0; i < 3; i++)
		join(threads[i]);
	EQ(pthread_mutex_lock(&memory->normal), 0);
	EQ(pthread_mutex_unlock(&memory->normal), 0);
	/* Under libc the stranger's threads sleep for ever. */
	if (!is_overlock())
		EQ(kill(child, SIGKILL), 0);
	else
		expect_success(child);
}

/* Is run by the case below only. */
CASE(stranger_that_counts)
{
	struct unshared *memory = strangers();

	if (memory != NULL)
		count_unshared(memory);
}

CASE(strangers_exclude_each_other)
{
	int file = new_memory();
	struct unshared *memory = map_unshared(file);
	pid_t children[3];

	init_unshared(memory);
	for (int i = 0; i < 3; i++)
		children[i] = stranger("stranger_that_counts", file);
	count_unshared(memory);
	for (int i = 0; i < 3; i++)
		expect_success(children[i]);
	EQ(memory->count, 4 * 2000);
}
