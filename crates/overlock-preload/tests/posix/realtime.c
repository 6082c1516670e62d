/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Real-time threads wait without a yield: it can't let a thread of another priority run, and takes the rest of its
 * budget from a thread with a deadline (sched(7)). A filter kills the process for a yield.
 */
#include "mutex.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define DEADLINE 6

struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

static const struct scheduling deadline = {
	.size = sizeof(struct scheduling),
	.policy = DEADLINE,
	.runtime = 5000000,
	.deadline = 100000000,
	.period = 100000000,
};
static const struct scheduling fifo = { .size = sizeof(struct scheduling), .policy = SCHED_FIFO, .priority = 1 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static atomic_int comes, signalled;

static void kill_for_a_yield(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_sched_yield, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof(filter) / sizeof *(filter), .filter = filter };

	EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

/* Each wait begins while another thread keeps what it waits for. */
static void *wait_for_all(void *argument)
{
	if (syscall(SYS_sched_setattr, 0, argument, 0) != 0) {
		skipped("no thread may have this policy here: %s", strerror(errno));
		_exit(0);
	}
	kill_for_a_yield();
	comes = 1;
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	comes = 2;
	EQ(pthread_rwlock_wrlock(&rwlock), 0);
	EQ(pthread_rwlock_unlock(&rwlock), 0);
	comes = 3;
	EQ(pthread_rwlock_rdlock(&rwlock), 0);
	EQ(pthread_rwlock_unlock(&rwlock), 0);
	comes = 4;
	pthread_barrier_wait(&barrier);
	EQ(pthread_mutex_lock(&mutex), 0);
	comes = 5;
	while (!signalled)
		EQ(pthread_cond_wait(&cond, &mutex), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	return NULL;
}

static void let_it_come(int to)
{
	while (comes < to)
		pause_ms(1);
	pause_ms(5);
}

static void wait_with(const struct scheduling *scheduling)
{
	pthread_t thread;

	EQ(pthread_barrier_init(&barrier, NULL, 2), 0);
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_rwlock_wrlock(&rwlock), 0);
	thread = start(wait_for_all, (void *)scheduling);
	let_it_come(1);
	EQ(pthread_mutex_unlock(&mutex), 0);
	let_it_come(2);
	EQ(pthread_rwlock_unlock(&rwlock), 0);
	let_it_come(3);
	EQ(pthread_rwlock_wrlock(&rwlock), 0);
	EQ(pthread_rwlock_unlock(&rwlock), 0);
	let_it_come(4);
	pthread_barrier_wait(&barrier);
	let_it_come(5);
	EQ(pthread_mutex_lock(&mutex), 0);
	signalled = 1;
	EQ(pthread_cond_signal(&cond), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	join(thread);
}

CASE(a_thread_with_a_deadline)
{
	wait_with(&deadline);
}

CASE(a_thread_with_a_priority)
{
	wait_with(&fifo);
}
