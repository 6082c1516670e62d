/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Short sleeps in several calls, and waits for a thread's end and for a child's, in a program that has functions of its
 * own by the names of the C library's, and that ends in a sandbox of the kernel, which allows it to read and write, and
 * not to look at the processor's counter.
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 100

static int called;

/* Other libraries than the program's own must not call these. */
ssize_t pread(int file, void *at, size_t length, off_t from)
{
	called++;
	return file < 0 || at == NULL || length == 0 || from < 0 ? 0 : -1;
}

int close(int file)
{
	called++;
	return file < 0;
}

long syscall(long number, ...)
{
	called++;
	return number < 0;
}

static int pipes[2];

static void nap(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 300000}, NULL);
}

static void *writes(void *unused)
{
	for (int round = 0; round < ROUNDS; round++) {
		nap();
		if (write(pipes[1], "x", 1) != 1)
			return unused;
	}
	return NULL;
}

static void at_poll(void)
{
	for (int round = 0; round < ROUNDS; round++)
		poll(NULL, 0, 1);
}

static void at_read(void)
{
	char byte;

	for (int round = 0; round < ROUNDS; round++)
		if (read(pipes[0], &byte, 1) != 1)
			return;
}

static void *lasts(void *name)
{
	prctl(PR_SET_NAME, name);
	for (int round = 0; round < ROUNDS; round++)
		nap();
	return NULL;
}

static void at_end(void)
{
	pthread_t lasting;

	if (pthread_create(&lasting, NULL, lasts, "lasts") == 0)
		pthread_join(lasting, NULL);
}

static void at_child(void)
{
	pid_t child = fork();

	if (child == 0) {
		lasts("forked");
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

int main(void)
{
	pthread_t writer;
	char last;

	if (pipe(pipes) != 0 || pthread_create(&writer, NULL, writes, NULL) != 0)
		return 1;
	at_read();
	pthread_join(writer, NULL);
	at_poll();
	at_end();
	at_child();
	printf("%d\n", called);
	printf("%ld\n", (long)pread(-1, NULL, 0, 0) + close(-1) + syscall(-1));
	fflush(stdout);
	if (prctl(PR_SET_SECCOMP, 1) != 0 || write(pipes[1], "y", 1) != 1 || read(pipes[0], &last, 1) != 1 || last != 'y')
		__builtin_trap();
	/* The C library would end all threads, which the sandbox forbids. */
	__asm__ volatile("syscall" : : "a"(SYS_exit), "D"(7));
	__builtin_unreachable();
}
