/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The library's record of each thread: `Thread` in thread.rs.
 *
 * It is in C because the fast path reads it: with this model of thread-local storage that is one load, which it is
 * not for a thread-local of Rust in a shared library. A preloaded library is there from the start, so the model costs
 * nothing.
 */
#include <pthread.h>
#include <stdint.h>

struct overlock_thread {
	uint32_t tid;
	uint32_t number;
	uint64_t identity;
	uint32_t policy;
	uint32_t woken;
	const void *at_gate;
	uint64_t waits_since;
};

__attribute__((visibility("hidden"), tls_model("initial-exec"))) __thread struct overlock_thread overlock_thread;

/*
 * Returns the kernel's number of the calling thread as libc knows it, or 0. libc has it from the kernel at the
 * thread's birth, tells no program, and makes it the owner of what the thread locks. So a read-write lock of our own,
 * which stays libc's, tells it without a system call. (A mutex would be ours.)
 */
uint32_t overlock_tid_of_libc(void);
uint32_t overlock_tid_of_libc(void)
{
	pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	uint32_t writer;

	if (pthread_rwlock_trywrlock(&lock) != 0)
		return 0;
	writer = (uint32_t)lock.__data.__cur_writer;
	pthread_rwlock_unlock(&lock);
	return writer;
}
