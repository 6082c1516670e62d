/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A thread waits for a lock of C11's, which in glibc is none of pthread's names. */
#include <stdatomic.h>
#include <threads.h>

static mtx_t lock;
static atomic_int is_coming;

static int second(void *unused)
{
	(void)unused;
	is_coming = 1;
	mtx_lock(&lock);
	return mtx_unlock(&lock);
}

int main(void)
{
	thrd_t thread;

	mtx_init(&lock, mtx_plain);
	mtx_lock(&lock);
	thrd_create(&thread, second, NULL);
	while (!is_coming)
		thrd_yield();
	thrd_sleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	mtx_unlock(&lock);
	return thrd_join(thread, NULL);
}
