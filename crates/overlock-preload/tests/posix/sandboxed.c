/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs that put up a sandbox and use their locks behind it. */
#include "mutex.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void put_up_sandbox(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { .len = sizeof filter / sizeof *filter, .filter = filter };

	EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void use_locks(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct counter counter = { .mutex = &mutex, .rounds = 20000 };
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		threads[i] = start(count_and_check_errno, &counter);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	EQ(counter.count, 80000);
}

/* Before, after, and when it is there from the start. */
CASE(a_sandbox_that_kills_for_membarrier)
{
	if (getenv("SANDBOXED") == NULL) {
		char *arguments[] = { program_invocation_name, (char *)"a_sandbox_that_kills_for_membarrier", NULL };

		use_locks();
		put_up_sandbox();
		use_locks();
		EQ(setenv("SANDBOXED", "1", 1), 0);
		execv("/proc/self/exe", arguments);
		fail(__FILE__, __LINE__, "execv");
	}
	use_locks();
}

static atomic_int taken;

/* Behind the strictest sandbox, which allows `read`, `write` and `exit`. */
static void take_free_mutexes(void)
{
	pthread_spinlock_t spin;

	EQ(pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE), 0);
	EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0), 0);
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);

		EQ(pthread_mutex_lock(&mutex), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
		EQ(pthread_mutex_trylock(&mutex), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
	}
	EQ(pthread_spin_lock(&spin), 0);
	EQ(pthread_spin_unlock(&spin), 0);
	taken = 1;
	syscall(SYS_exit, 0);
}

static void *take_free_mutexes_in_thread(void *argument)
{
	take_free_mutexes();
	return argument;
}

CASE(a_thread_that_may_make_no_call_takes_a_free_mutex)
{
	join(start(take_free_mutexes_in_thread, NULL));
	CHECK(taken);
}

CASE(a_child_that_may_make_no_call_takes_a_free_mutex)
{
	pid_t child;

	use_locks();
	child = fork();
	if (child == 0)
		take_free_mutexes();
	expect_success(child);
}
