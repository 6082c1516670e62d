/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Processes that wait for a mutex once, and then end in the way that the argument names: none of them by exit.
 * `children N` makes N children that end by _exit; `daemon` goes into the background, where it closes all files;
 * `forever` waits for a signal; `user` becomes another one; `exec` executes a program.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int is_coming;

static void *second(void *unused)
{
	is_coming = 1;
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void wait_once(void)
{
	pthread_t thread;

	is_coming = 0;
	pthread_mutex_lock(&mutex);
	if (pthread_create(&thread, NULL, second, NULL) != 0)
		abort();
	while (!is_coming)
		usleep(100);
	usleep(20000);
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
	const char *way = argc > 1 ? argv[1] : "";

	if (strcmp(way, "children") == 0) {
		for (int i = 0; i < atoi(argv[2]); i++)
			if (fork() == 0) {
				wait_once();
				_exit(0);
			}
		while (wait(NULL) > 0)
			;
		_exit(0);
	}
	if (strcmp(way, "daemon") == 0 && daemon(1, 0) != 0)
		return 1;
	if (strcmp(way, "daemon") == 0)
		syscall(SYS_close_range, 3, ~0U, 0);
	if (strcmp(way, "user") == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
		return 1;
	wait_once();
	puts("waited");
	fflush(stdout);
	if (strcmp(way, "forever") == 0)
		pause();
	if (strcmp(way, "daemon") == 0)
		usleep(300000);
	if (strcmp(way, "exec") == 0)
		execl("/bin/true", "true", NULL);
	_exit(0);
}
