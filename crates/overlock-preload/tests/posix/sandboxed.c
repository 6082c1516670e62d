/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that executes itself in a sandbox which kills for `membarrier`, and uses its locks there. */
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
