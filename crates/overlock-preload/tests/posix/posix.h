/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A harness for conformance cases, small enough to read before trusting it.
 *
 *   ./mutex            runs every case in a process of its own and prints "ok NAME" or "FAILED NAME: why"
 *   ./mutex NAME       runs one case in this process
 *
 * The exit status is 0 if all cases passed, 1 if one failed. A case fails by a CHECK or EQ that does not hold, by
 * dying, or by still running after POSIX_WATCHDOG_S seconds (default 120): a lost wake-up never ends. Then the case
 * is killed with all its children. Nothing else is timed: a pause only gives a *wrong* implementation time to show
 * itself, or checks that a deadline was not met too early.
 */
#ifndef POSIX_H
#define POSIX_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifndef __cplusplus
#include <stdatomic.h>
#endif

struct test_case {
	const char *name;
	void (*run)(void);
	struct test_case *next;
};

static struct test_case *cases;
static struct test_case **last_case = &cases;

/* Defines a case: CASE(name) { ... } */
#define CASE(id)                                                        \
	static void id(void);                                           \
	__attribute__((constructor)) static void add_##id(void)         \
	{                                                               \
		static struct test_case this_case = { #id, id, NULL };  \
		*last_case = &this_case;                                \
		last_case = &this_case.next;                            \
	}                                                               \
	static void id(void)

#define CHECK(condition)                                                       \
	do {                                                                   \
		if (!(condition))                                              \
			fail(__FILE__, __LINE__, #condition " does not hold"); \
	} while (0)

/* Checks that the call returns the expected error number (or any int). */
#define EQ(call, expected) equal(__FILE__, __LINE__, #call, (call), (expected))

__attribute__((noreturn, unused)) static void fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s\n", file, line, what);
	kill(0, SIGKILL);
	_exit(1);
}

__attribute__((unused)) static void equal(const char *file, int line, const char *call, long got, long expected)
{
	char what[512];

	if (got == expected)
		return;
	snprintf(what, sizeof what, "%s is %ld (%s), expected %ld (%s)", call, got, strerror((int)got), expected,
		 strerror((int)expected));
	fail(file, line, what);
}

/* Says that a case, or a part of it, is not run, and why. A case may then end by _exit. */
__attribute__((unused, format(printf, 1, 2))) static void skipped(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	printf("skipped: ");
	vprintf(format, arguments);
	putchar('\n');
	fflush(stdout);
	va_end(arguments);
}

/* Gives the other threads, and a wrong implementation, time. */
__attribute__((unused)) static void pause_ms(long ms)
{
	struct timespec time = { ms / 1000, ms % 1000 * 1000000 };

	while (nanosleep(&time, &time) == -1 && errno == EINTR)
		;
}

/* Returns the time on a clock, some milliseconds from now. */
__attribute__((unused)) static struct timespec in_ms(clockid_t clock, long ms)
{
	struct timespec time;

	clock_gettime(clock, &time);
	time.tv_sec += ms / 1000;
	time.tv_nsec += ms % 1000 * 1000000;
	if (time.tv_nsec < 0) {
		time.tv_nsec += 1000000000;
		time.tv_sec--;
	} else if (time.tv_nsec >= 1000000000) {
		time.tv_nsec -= 1000000000;
		time.tv_sec++;
	}
	return time;
}

__attribute__((unused)) static int has_passed(clockid_t clock, struct timespec time)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec > time.tv_sec || (now.tv_sec == time.tv_sec && now.tv_nsec >= time.tv_nsec);
}

__attribute__((unused)) static pthread_t start(void *(*run)(void *), void *argument)
{
	pthread_t thread;

	EQ(pthread_create(&thread, NULL, run, argument), 0);
	return thread;
}

__attribute__((unused)) static void *join(pthread_t thread)
{
	void *result;

	EQ(pthread_join(thread, &result), 0);
	return result;
}

/* Runs a function to its end in its own thread, and returns its result. */
__attribute__((unused)) static long elsewhere(void *(*run)(void *), void *argument)
{
	return (long)join(start(run, argument));
}

/* Memory that forked children share. */
__attribute__((unused)) static void *shared_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	return memory;
}

/* Waits for a child that must end by _exit(0). */
__attribute__((unused)) static void expect_success(pid_t child)
{
	int status;

	CHECK(child > 0);
	EQ(waitpid(child, &status, 0), child);
	CHECK(WIFEXITED(status));
	EQ(WEXITSTATUS(status), 0);
}

/* Returns whether this runs on Overlock's locks: for the few cases where libc falls short. */
__attribute__((unused)) static int is_overlock(void)
{
	const char *preloaded = getenv("LD_PRELOAD");
	const char *lock = getenv("OVERLOCK_LOCK");

	return preloaded != NULL && strstr(preloaded, "overlock_preload") != NULL &&
	       (lock == NULL || strcmp(lock, "none") != 0);
}

/* Returns whether this runs on Overlock's ticket lock. */
__attribute__((unused)) static int is_ticket(void)
{
	const char *lock = getenv("OVERLOCK_LOCK");

	return is_overlock() && lock != NULL && strcmp(lock, "ticket") == 0;
}

static void on_watchdog(int number)
{
	static const char text[] = "still running\n";

	(void)number;
	if (write(2, text, sizeof text - 1) > 0)
		kill(0, SIGKILL);
	_exit(1);
}

static int run_all(void)
{
	int failed = 0;

	for (struct test_case *c = cases; c != NULL; c = c->next) {
		char *arguments[] = { program_invocation_name, (char *)c->name, NULL };
		int status;
		pid_t child;

		fflush(stdout);
		if (posix_spawn(&child, "/proc/self/exe", NULL, NULL, arguments, environ) != 0 ||
		    waitpid(child, &status, 0) != child)
			status = -1;
		if (status == 0) {
			printf("ok %s\n", c->name);
		} else if (WIFSIGNALED(status)) {
			printf("FAILED %s: %s\n", c->name, strsignal(WTERMSIG(status)));
			failed = 1;
		} else {
			printf("FAILED %s: status %d\n", c->name, WEXITSTATUS(status));
			failed = 1;
		}
	}
	return failed;
}

int main(int argc, char **argv)
{
	const char *watchdog = getenv("POSIX_WATCHDOG_S");

	if (argc < 2)
		return run_all();
	for (struct test_case *c = cases; c != NULL; c = c->next) {
		if (strcmp(c->name, argv[1]) == 0) {
			/* Its own process group, so that it can be killed as a whole. */
			setpgid(0, 0);
			signal(SIGALRM, on_watchdog);
			alarm(watchdog != NULL ? (unsigned)atoi(watchdog) : 120);
			c->run();
			return 0;
		}
	}
	fprintf(stderr, "no case is named %s\n", argv[1]);
	return 2;
}

#endif
