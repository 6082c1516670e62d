/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Everything that the library does after its start, behind a filter that kills for every system call but those that
 * the library's README names. They are in the variable ALLOWED, separated by spaces; without it, all of the table is
 * allowed.
 */
#include "mutex.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const struct {
	const char *name;
	unsigned int number;
} calls[] = {
	{ "futex", SYS_futex },
	{ "nanosleep", SYS_nanosleep },
	{ "sched_yield", SYS_sched_yield },
	{ "gettid", SYS_gettid },
	{ "getpid", SYS_getpid },
	{ "tgkill", SYS_tgkill },
	{ "sched_getscheduler", SYS_sched_getscheduler },
	{ "sigaltstack", SYS_sigaltstack },
	{ "writev", SYS_writev },
	{ "mmap", SYS_mmap },
	{ "clock_gettime", SYS_clock_gettime },
	{ "openat", SYS_openat },
	{ "fstat", SYS_fstat },
	{ "write", SYS_write },
	{ "close", SYS_close },
};

/* What the program and libc need until the end. */
static const unsigned int own[] = {
	SYS_exit, SYS_exit_group, SYS_madvise, SYS_munmap, SYS_rt_sigprocmask, SYS_rt_sigreturn,
	SYS_tgkill, SYS_getpid, SYS_write, SYS_futex,
};

static int is_allowed(const char *name)
{
	const char *allowed = getenv("ALLOWED");
	const char *found = allowed != NULL ? strstr(allowed, name) : NULL;
	size_t length = strlen(name);

	if (allowed == NULL)
		return 1;
	while (found != NULL && !((found == allowed || found[-1] == ' ') && (found[length] == ' ' || found[length] == 0)))
		found = strstr(found + 1, name);
	return found != NULL;
}

static void put_up_sandbox(void)
{
	struct sock_filter filter[2 * (COUNT(calls) + COUNT(own)) + 2];
	struct sock_fprog program = { .filter = filter };
	unsigned short n = 0;

	filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < COUNT(calls) + COUNT(own); i++) {
		unsigned int number = i < COUNT(calls) ? calls[i].number : own[i - COUNT(calls)];

		if (i < COUNT(calls) && !is_allowed(calls[i].name))
			continue;
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
		filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	}
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	program.len = n;
	EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EQ(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program), 0);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static pthread_barrier_t step;
static atomic_int turn, waiting;
static long spins;

static void *queue_once(void *argument)
{
	waiting++;
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	return argument;
}

/* So many threads wait and end that the next one to wait takes numbers back. */
static void use_up_numbers(void)
{
	static pthread_t threads[260];
	pthread_attr_t attributes;

	EQ(pthread_attr_init(&attributes), 0);
	EQ(pthread_attr_setstacksize(&attributes, 65536), 0);
	EQ(pthread_mutex_lock(&mutex), 0);
	for (size_t i = 0; i < COUNT(threads); i++)
		EQ(pthread_create(&threads[i], &attributes, queue_once, NULL), 0);
	while (waiting < (int)COUNT(threads))
		pause_ms(1);
	pause_ms(20);
	EQ(pthread_mutex_unlock(&mutex), 0);
	for (size_t i = 0; i < COUNT(threads); i++)
		join(threads[i]);
}

static sigjmp_buf place;
static pthread_t jumper;

static void jump(int number)
{
	(void)number;
	siglongjmp(place, 1);
}

static void leave_a_wait(void)
{
	if (sigsetjmp(place, 0) == 0) {
		jumper = pthread_self();
		waiting = 1;
		EQ(pthread_mutex_lock(&mutex), 0);
		fail(__FILE__, __LINE__, "the mutex was not free");
	}
}

static void use_conditions(int me)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 2);

	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_cond_timedwait(&cond, &mutex, &at), ETIMEDOUT);
	EQ(pthread_mutex_unlock(&mutex), 0);
	pthread_barrier_wait(&step);
	for (int round = 0; round < 200; round++) {
		EQ(pthread_mutex_lock(&mutex), 0);
		while (turn % 2 != me)
			EQ(pthread_cond_wait(&cond, &mutex), 0);
		turn++;
		EQ(pthread_cond_broadcast(&cond), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
	}
}

static void use_spin_lock(void)
{
	for (int round = 0; round < 5000; round++) {
		EQ(pthread_spin_lock(&spin), 0);
		spins++;
		if (round % 50 == 0)
			sched_yield();
		EQ(pthread_spin_unlock(&spin), 0);
	}
}

static void *use_everything(void *argument)
{
	struct counter *counter = argument;
	static atomic_int threads;
	int me = threads++ % 2;

	/* Once when it has started, and once when the filter is there. */
	pthread_barrier_wait(&step);
	pthread_barrier_wait(&step);
	count_and_check_errno(counter);
	use_spin_lock();
	pthread_barrier_wait(&step);
	use_conditions(me);
	pthread_barrier_wait(&step);
	/* The main thread has the mutex. */
	pthread_barrier_wait(&step);
	if (me == 0) {
		struct timespec at = in_ms(CLOCK_REALTIME, 5);

		EQ(pthread_mutex_timedlock(&mutex, &at), ETIMEDOUT);
		leave_a_wait();
	} else {
		EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
		EQ(pthread_mutex_lock(&mutex), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
	}
	return NULL;
}

CASE(the_calls_that_are_documented_suffice)
{
	struct counter counter = { .mutex = &mutex, .rounds = 10000 };
	struct sigaction action = { .sa_handler = jump };
	pthread_t threads[2];

	EQ(sigaction(SIGUSR1, &action, NULL), 0);
	EQ(pthread_barrier_init(&step, NULL, 3), 0);
	EQ(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE), 0);
	use_up_numbers();
	waiting = 0;
	for (int i = 0; i < 2; i++)
		threads[i] = start(use_everything, &counter);
	pthread_barrier_wait(&step);
	put_up_sandbox();
	/* The threads find the mutex taken. */
	EQ(pthread_mutex_lock(&mutex), 0);
	pthread_barrier_wait(&step);
	for (int i = 0; i < 1000; i++)
		sched_yield();
	EQ(pthread_mutex_unlock(&mutex), 0);
	pthread_barrier_wait(&step);
	pthread_barrier_wait(&step);
	pthread_barrier_wait(&step);
	EQ(pthread_mutex_lock(&mutex), 0);
	pthread_barrier_wait(&step);
	while (!waiting)
		sched_yield();
	for (int i = 0; i < 1000; i++)
		sched_yield();
	EQ(pthread_kill(jumper, SIGUSR1), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	for (int i = 0; i < 2; i++)
		join(threads[i]);
	EQ(counter.count, 20000);
	EQ(spins, 10000);
	/* A free mutex: this is reported. */
	EQ(pthread_mutex_unlock(&mutex), 0);
}
