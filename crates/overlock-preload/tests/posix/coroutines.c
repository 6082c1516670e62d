/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Threads with several stacks, in any order in memory: which waits does a jump leave? libc's waiters leave nothing
 * behind in a mutex, so a program gets away with any jump.
 */
#include "mutex.h"
#include <setjmp.h>
#include <ucontext.h>

enum { SIZE = 1 << 17, STACKS = 4 };
enum { THREADS, COROUTINES, HANDLERS, OTHERS };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int ready, left;
static sigjmp_buf out;
static ucontext_t back, coroutine, other, interrupted;
/* The place of each stack in memory, from the lowest. */
static const int *order;
static char *memory;
static void (*in_handler)(void);

static stack_t stack(int which)
{
	return (stack_t){ .ss_sp = memory + order[which] * SIZE, .ss_size = SIZE };
}

static void on_signal(int number)
{
	(void)number;
	in_handler();
}

static void jumps_out(void)
{
	siglongjmp(out, 1);
}

static void waits_here(void)
{
	ready = 1;
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
}

static void make(ucontext_t *context, int on, void (*run)(void), ucontext_t *next)
{
	EQ(getcontext(context), 0);
	context->uc_stack = stack(on);
	context->uc_link = next;
	makecontext(context, run, 0);
}

static void *waits_in_a_coroutine(void *unused)
{
	stack_t handlers = stack(HANDLERS);

	(void)unused;
	EQ(sigaltstack(&handlers, NULL), 0);
	if (sigsetjmp(out, 1) == 0) {
		make(&coroutine, COROUTINES, waits_here, &back);
		EQ(swapcontext(&back, &coroutine), 0);
	}
	left = 1;
	return NULL;
}

static void *waits_on_its_own_stack(void *unused)
{
	(void)unused;
	if (sigsetjmp(out, 1) == 0)
		waits_here();
	left = 1;
	return NULL;
}

/* A handler interrupts a thread's wait. Then the mutex must be as if nobody had ever waited, or go to the waiter. */
static void interrupt(void *(*run)(void *), int flags, int stays)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_NODEFER | flags };
	struct section section = { .mutex = &mutex };
	pthread_attr_t attributes;
	pthread_t thread, second;

	ready = left = 0;
	EQ(sigaction(SIGUSR1, &action, NULL), 0);
	EQ(pthread_attr_init(&attributes), 0);
	EQ(pthread_attr_setstack(&attributes, stack(THREADS).ss_sp, SIZE), 0);
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_create(&thread, &attributes, run, NULL), 0);
	while (!ready)
		sched_yield();
	pause_ms(5);
	second = start(enter_section, &section);
	pause_ms(5);
	EQ(pthread_kill(thread, SIGUSR1), 0);
	while (!stays && !left)
		sched_yield();
	pause_ms(5);
	EQ(left, !stays);
	EQ(pthread_mutex_unlock(&mutex), 0);
	join(thread);
	join(second);
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	EQ(pthread_attr_destroy(&attributes), 0);
}

/* Runs it with the stacks in each order. */
static void in_each_order(void *(*run)(void *), int flags, int stays)
{
	memory = mmap(NULL, STACKS * SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	for (int code = 0; code < 256; code++) {
		int places[STACKS] = { code & 3, code >> 2 & 3, code >> 4 & 3, code >> 6 & 3 };
		int seen = 0;

		for (int i = 0; i < STACKS; i++)
			seen |= 1 << places[i];
		if (seen != 15)
			continue;
		order = places;
		interrupt(run, flags, stays);
	}
}

CASE(a_jump_leaves_a_coroutine)
{
	in_handler = jumps_out;
	in_each_order(waits_in_a_coroutine, 0, 0);
}

CASE(a_jump_leaves_a_coroutine_from_the_stack_for_handlers)
{
	in_handler = jumps_out;
	in_each_order(waits_in_a_coroutine, SA_ONSTACK, 0);
}

static void jumps_within(void)
{
	sigjmp_buf inside;

	if (sigsetjmp(inside, 1) == 0)
		siglongjmp(inside, 1);
}

/* A handler enters another coroutine, and comes back from it. */
static void runs(void (*run)(void))
{
	make(&other, OTHERS, run, &interrupted);
	EQ(swapcontext(&interrupted, &other), 0);
}

static void runs_one_that_jumps_within(void)
{
	runs(jumps_within);
}

static void runs_one_that_jumps_out(void)
{
	runs(jumps_out);
}

CASE(a_jump_within_a_coroutine_leaves_the_wait_alone)
{
	in_handler = runs_one_that_jumps_within;
	in_each_order(waits_in_a_coroutine, 0, 1);
	in_each_order(waits_in_a_coroutine, SA_ONSTACK, 1);
	in_each_order(waits_on_its_own_stack, 0, 1);
}

CASE(a_jump_out_of_a_coroutine_leaves_the_wait_that_it_has_interrupted)
{
	in_handler = runs_one_that_jumps_out;
	in_each_order(waits_on_its_own_stack, 0, 0);
}
