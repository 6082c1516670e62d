/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Signal handlers that leave a wait for a mutex and never return to it. POSIX leaves that undefined; libc's waiters
 * leave nothing behind in a mutex, so programs get away with it.
 */
#include "mutex.h"
#include <limits.h>
#include <setjmp.h>
#include <ucontext.h>

enum { OUT, INSIDE, AWAY, CANCELLED, NESTED };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static atomic_int ready, left, what, rounds;
static __thread sigjmp_buf out, inside;
static __thread int is_asleep;

static void jumps_inside(void)
{
	if (sigsetjmp(inside, 0) == 0)
		siglongjmp(inside, 1);
}

static void on_signal(int number)
{
	(void)number;
	switch (what) {
	case OUT:
		siglongjmp(out, 1);
	case INSIDE:
		jumps_inside();
		left++;
		return;
	case AWAY:
		left++;
		pthread_exit(NULL);
	case CANCELLED:
		left++;
		EQ(pthread_cancel(pthread_self()), 0);
		pthread_testcancel();
		fail(__FILE__, __LINE__, "still there");
	case NESTED:
		if (is_asleep++ == 0) {
			/* The second signal jumps from here back to here. */
			if (sigsetjmp(inside, 1) == 0) {
				ready++;
				EQ(pthread_mutex_lock(&other), 0);
			}
			left++;
			return;
		}
		siglongjmp(inside, 1);
	}
}

static void handle_signals(int flags)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART | SA_NODEFER | flags };

	EQ(sigaction(SIGUSR1, &action, NULL), 0);
}

/* Gives the calling thread another stack for its handlers: above its own, or below. */
static void use_another_stack(int above)
{
	enum { SIZE = 1 << 16 };
	char here, *memory = NULL;

	for (int i = 0; i < 1000; i++) {
		memory = mmap(above ? &here + ((long)i << 20) : &here - ((long)i << 24), SIZE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(memory != MAP_FAILED);
		if ((memory > &here) == above)
			break;
		EQ(munmap(memory, SIZE), 0);
		memory = NULL;
	}
	if (memory == NULL) {
		skipped("no room for a stack %s the thread's", above ? "above" : "below");
		memory = malloc(SIZE);
	}
	EQ(sigaltstack(&(stack_t){ .ss_sp = memory, .ss_size = SIZE }, NULL), 0);
}

/* Waits for the mutex until a handler jumps out, as often as there are rounds. */
static void *waits_and_jumps(void *stack)
{
	volatile int round = 0;

	if (stack != NULL)
		use_another_stack(stack == &ready);
	sigsetjmp(out, 1);
	if (round++ < rounds) {
		ready++;
		EQ(pthread_mutex_lock(&mutex), 0);
		fail(__FILE__, __LINE__, "the mutex was free");
	}
	left++;
	return NULL;
}

/* Waits for the mutex and gets it. */
static void *waits(void *unused)
{
	(void)unused;
	ready++;
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	return NULL;
}

static void wait_for(atomic_int *count, int value)
{
	while (*count < value)
		sched_yield();
}

/* Sends the thread a signal for each round of its waits. */
static void signal_rounds(pthread_t thread, int before, long ms)
{
	for (int i = 1; i <= rounds; i++) {
		wait_for(&ready, before + i);
		pause_ms(ms);
		EQ(pthread_kill(thread, SIGUSR1), 0);
	}
	wait_for(&left, 1);
}

/* A thread jumps out of its wait, behind some others and before some; the others get the mutex. */
static void jump_out(int others_before, int others_after, void *stack, long ms)
{
	pthread_t threads[16], jumper;
	int n = 0;

	ready = left = 0;
	EQ(pthread_mutex_lock(&mutex), 0);
	for (int i = 0; i < others_before; i++)
		threads[n++] = start(waits, NULL);
	wait_for(&ready, n);
	pause_ms(ms);
	jumper = start(waits_and_jumps, stack);
	wait_for(&ready, n + 1);
	pause_ms(ms);
	for (int i = 0; i < others_after; i++)
		threads[n++] = start(waits, NULL);
	wait_for(&ready, n + 1);
	signal_rounds(jumper, n, ms);
	EQ(pthread_mutex_unlock(&mutex), 0);
	for (int i = 0; i < n; i++)
		join(threads[i]);
	join(jumper);
	EQ(elsewhere(waits, NULL), 0);
}

static void jump_out_everywhere(void *stack)
{
	handle_signals(stack != NULL ? SA_ONSTACK : 0);
	what = OUT;
	rounds = 1;
	for (int before = 0; before <= 2; before++)
		for (int after = 0; after <= 2; after++)
			jump_out(before, after, stack, 5);
}

CASE(a_waiter_jumps_out)
{
	jump_out_everywhere(NULL);
}

CASE(a_waiter_jumps_out_from_a_stack_above)
{
	jump_out_everywhere(&ready);
}

CASE(a_waiter_jumps_out_from_a_stack_below)
{
	jump_out_everywhere(&left);
}

CASE(a_waiter_jumps_out_again_and_again)
{
	handle_signals(0);
	what = OUT;
	rounds = 10;
	jump_out(0, 0, NULL, 2);
	jump_out(2, 2, NULL, 2);
}

static void *waits_until_jump_with_deadline(void *unused)
{
	struct timespec at = in_ms(CLOCK_REALTIME, 100000);

	(void)unused;
	if (sigsetjmp(out, 1) == 0) {
		ready++;
		EQ(pthread_mutex_timedlock(&mutex, &at), 0);
		fail(__FILE__, __LINE__, "the mutex was free");
	}
	return NULL;
}

CASE(a_timed_waiter_jumps_out)
{
	pthread_t threads[3];

	handle_signals(0);
	what = OUT;
	EQ(pthread_mutex_lock(&mutex), 0);
	threads[0] = start(waits, NULL);
	wait_for(&ready, 1);
	pause_ms(5);
	threads[1] = start(waits_until_jump_with_deadline, NULL);
	wait_for(&ready, 2);
	pause_ms(5);
	threads[2] = start(waits, NULL);
	wait_for(&ready, 3);
	pause_ms(5);
	EQ(pthread_kill(threads[1], SIGUSR1), 0);
	join(threads[1]);
	EQ(pthread_mutex_unlock(&mutex), 0);
	join(threads[0]);
	join(threads[2]);
	EQ(elsewhere(waits, NULL), 0);
}

/* Some time passes between one lock and the unlock of another, in any order. */
static void let_pass(pthread_t *threads, int n)
{
	EQ(pthread_mutex_unlock(&mutex), 0);
	for (int i = 0; i < n; i++)
		join(threads[i]);
	EQ(elsewhere(waits, NULL), 0);
}

static void jump_inside(void *(*run)(void *), int flags, void *stack)
{
	pthread_t threads[3];

	handle_signals(flags);
	what = INSIDE;
	for (int place = 0; place < 3; place++) {
		ready = left = 0;
		EQ(pthread_mutex_lock(&mutex), 0);
		for (int i = 0; i < 3; i++) {
			threads[i] = start(run, stack);
			wait_for(&ready, i + 1);
			pause_ms(5);
		}
		EQ(pthread_kill(threads[place], SIGUSR1), 0);
		wait_for(&left, 1);
		pause_ms(5);
		let_pass(threads, 3);
	}
}

static void *waits_with_a_stack(void *stack)
{
	use_another_stack(stack == &ready);
	return waits(NULL);
}

CASE(a_jump_within_a_handler_leaves_the_wait_alone)
{
	jump_inside(waits, 0, NULL);
}

CASE(a_jump_within_a_handler_on_another_stack_leaves_the_wait_alone)
{
	jump_inside(waits_with_a_stack, SA_ONSTACK, &ready);
	jump_inside(waits_with_a_stack, SA_ONSTACK, &left);
}

static void wipe(void *place)
{
	*(atomic_int *)place = 0;
}

static void *waits_and_cleans_up(void *place)
{
	pthread_cleanup_push(wipe, place);
	waits(NULL);
	pthread_cleanup_pop(1);
	return place;
}

/* A waiter's thread ends in a handler, and its clean-up handlers run. */
static void end_in_a_handler(int how)
{
	atomic_int places[3];
	pthread_t threads[3];

	handle_signals(0);
	what = how;
	for (int place = 0; place < 3; place++) {
		ready = left = 0;
		EQ(pthread_mutex_lock(&mutex), 0);
		for (int i = 0; i < 3; i++) {
			places[i] = 1;
			threads[i] = start(waits_and_cleans_up, &places[i]);
			wait_for(&ready, i + 1);
			pause_ms(5);
		}
		EQ(pthread_kill(threads[place], SIGUSR1), 0);
		wait_for(&left, 1);
		while (places[place] != 0)
			sched_yield();
		for (int i = 0; i < 3; i++)
			EQ(places[i], i != place);
		let_pass(threads, 3);
	}
}

CASE(a_waiter_exits_in_a_handler)
{
	end_in_a_handler(AWAY);
}

CASE(a_waiter_is_cancelled_in_a_handler)
{
	end_in_a_handler(CANCELLED);
}

/* A handler interrupts a wait and waits itself; another handler jumps out of the second wait only. */
CASE(a_jump_leaves_the_inner_wait_only)
{
	pthread_t threads[3];

	handle_signals(0);
	what = NESTED;
	EQ(pthread_mutex_lock(&mutex), 0);
	EQ(pthread_mutex_lock(&other), 0);
	for (int i = 0; i < 3; i++) {
		threads[i] = start(waits, NULL);
		wait_for(&ready, i + 1);
		pause_ms(5);
	}
	EQ(pthread_kill(threads[1], SIGUSR1), 0);
	/* A signal that comes while the first is pending would be lost. */
	wait_for(&ready, 4);
	pause_ms(20);
	EQ(pthread_kill(threads[1], SIGUSR1), 0);
	wait_for(&left, 1);
	EQ(pthread_mutex_unlock(&other), 0);
	EQ(pthread_mutex_lock(&other), 0);
	let_pass(threads, 3);
}

static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

/* Is woken, waits for the mutex, jumps out of that, and waits for the other mutex. */
static void *jumps_out_when_woken(void *unused)
{
	if (sigsetjmp(out, 1) == 0) {
		EQ(pthread_mutex_lock(&mutex), 0);
		ready++;
		EQ(pthread_cond_wait(&cond, &mutex), 0);
		fail(__FILE__, __LINE__, "the mutex was free");
	}
	left++;
	EQ(pthread_mutex_lock(&other), 0);
	EQ(pthread_mutex_unlock(&other), 0);
	return unused;
}

/* Of all waits, only the two of that thread are in the queue, so that the counters are of these. */
CASE(a_woken_waiter_jumps_out)
{
	pthread_t thread;

	handle_signals(0);
	what = OUT;
	EQ(pthread_mutex_lock(&other), 0);
	thread = start(jumps_out_when_woken, NULL);
	while (!ready || pthread_mutex_trylock(&mutex) != 0)
		pause_ms(1);
	EQ(pthread_cond_signal(&cond), 0);
	pause_ms(50);
	EQ(pthread_kill(thread, SIGUSR1), 0);
	wait_for(&left, 1);
	pause_ms(100);
	EQ(pthread_mutex_unlock(&other), 0);
	join(thread);
	EQ(pthread_mutex_unlock(&mutex), 0);
}

static void *jumps_out_of_the_gate(void *argument)
{
	EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	return waits_and_jumps(argument);
}

/* A thread that can be cancelled anywhere does not join a queue. */
CASE(a_waiter_outside_the_queue_jumps_out)
{
	pthread_t threads[2], jumper;

	handle_signals(0);
	what = OUT;
	rounds = 3;
	for (int others = 0; others <= 2; others++) {
		ready = left = 0;
		EQ(pthread_mutex_lock(&mutex), 0);
		for (int i = 0; i < others; i++)
			threads[i] = start(waits, NULL);
		wait_for(&ready, others);
		jumper = start(jumps_out_of_the_gate, NULL);
		signal_rounds(jumper, others, 5);
		let_pass(threads, others);
		join(jumper);
	}
}

#ifdef __x86_64__
static atomic_int jumps, finished;
static __thread volatile int is_in_lock;

/* Jumps out of an interrupted sleep: a thread that sleeps has not got the mutex. */
static void on_signal_in_sleep(int number, siginfo_t *info, void *context)
{
	const greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	const unsigned char *next = (const unsigned char *)registers[REG_RIP];

	(void)number;
	(void)info;
	if (is_in_lock && registers[REG_RAX] == -EINTR && next[-2] == 0x0f && next[-1] == 0x05) {
		is_in_lock = 0;
		jumps++;
		siglongjmp(out, 1);
	}
}

static void *counts_and_jumps(void *argument)
{
	struct counter *counter = argument;
	volatile long i = 0;

	sigsetjmp(out, 1);
	while (i < counter->rounds) {
		is_in_lock = 1;
		EQ(pthread_mutex_lock(counter->mutex), 0);
		is_in_lock = 0;
		count_once(counter);
		/* Long enough for waiters to sleep, now and then. */
		if (i % 16 == 0)
			nanosleep(&(struct timespec){ .tv_nsec = 50000 }, NULL);
		EQ(pthread_mutex_unlock(counter->mutex), 0);
		i++;
	}
	finished++;
	while (finished < 4)
		pause_ms(1);
	return NULL;
}

CASE(waiters_jump_out_while_others_lock_and_unlock)
{
	struct sigaction action = { .sa_sigaction = on_signal_in_sleep, .sa_flags = SA_SIGINFO };
	struct counter counter = { .mutex = &mutex, .rounds = 20000 };
	pthread_t threads[4];

	EQ(sigaction(SIGUSR1, &action, NULL), 0);
	for (int i = 0; i < 4; i++)
		threads[i] = start(counts_and_jumps, &counter);
	for (int i = 0; finished < 4; i++)
		EQ(pthread_kill(threads[i % 4], SIGUSR1), 0);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	EQ(counter.count, 4 * counter.rounds);
	printf("%d jumps\n", jumps);
}

static atomic_long steps, last_step;
static int is_cancellable;

/* The processor raises this signal after each instruction. */
static void on_step(int number)
{
	(void)number;
	if (++steps == last_step)
		siglongjmp(out, 1);
}

static void *waits_step_by_step(void *unused)
{
	if (is_cancellable)
		EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	if (sigsetjmp(out, 1) == 0) {
		ready++;
		__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
		pthread_mutex_lock(&mutex);
		fail(__FILE__, __LINE__, "the mutex was free");
	}
	left++;
	return unused;
}

/* Returns whether the thread still executes instructions. */
static int is_awake(void)
{
	long before = steps;

	for (int i = 0; i < 1000 && before == steps && !left; i++)
		pause_ms(1);
	return before != steps;
}

/*
 * A thread jumps out of its wait, behind some others, after this number of instructions. Returns whether it got so
 * far.
 */
static int jump_after(long instructions, int others)
{
	struct sigaction action = { .sa_handler = on_step };
	pthread_t threads[4], jumper;
	int got_there;

	EQ(sigaction(SIGTRAP, &action, NULL), 0);
	what = OUT;
	handle_signals(0);
	last_step = instructions;
	EQ(pthread_mutex_lock(&mutex), 0);
	for (int i = 0; i < others; i++)
		threads[i] = start(waits, NULL);
	wait_for(&ready, others);
	pause_ms(others);
	jumper = start(waits_step_by_step, NULL);
	wait_for(&ready, others + 1);
	while (!left && is_awake())
		;
	got_there = left;
	if (!got_there)
		EQ(pthread_kill(jumper, SIGUSR1), 0);
	join(jumper);
	threads[others] = start(waits, NULL);
	let_pass(threads, others + 1);
	return got_there;
}

enum { NOT_SO_FAR = 7 };

/* Returns the status of a process that jumps out after this number of instructions, and what it said. */
static int status_of_jump(long instructions, int others, char *said, size_t size)
{
	int status, ends[2];
	ssize_t got;
	pid_t child;

	EQ(pipe(ends), 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		alarm(60);
		EQ(dup2(ends[1], 2), 2);
		EQ(close(ends[1]), 0);
		_exit(jump_after(instructions, others) ? 0 : NOT_SO_FAR);
	}
	EQ(close(ends[1]), 0);
	got = read(ends[0], said, size - 1);
	said[got > 0 ? got : 0] = 0;
	EQ(close(ends[0]), 0);
	EQ(waitpid(child, &status, 0), child);
	return status;
}

/*
 * At the few instants at which a wait can't be given up, a message must say so. Most instructions are those of
 * spinning: the first twenty, and from there steps of a twentieth, are enough, unless JUMPS asks for all.
 */
static void jump_after_every_instruction(int others, long most)
{
	const long part = getenv("JUMPS") != NULL ? 1000000 : 20;
	int whole = 0, refused = 0;

	for (long instructions = 1; instructions <= most; instructions += 1 + instructions / part) {
		char said[256];
		int status = status_of_jump(instructions, others, said, sizeof said);

		if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_SO_FAR)
			break;
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			whole++;
			continue;
		}
		if (!is_overlock() || !WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT ||
		    strstr(said, "a signal handler left a wait for a lock") == NULL) {
			fprintf(stderr, "after %ld instructions: status %x, %s\n", instructions, status, said);
			fail(__FILE__, __LINE__, "a jump is survived or explained");
		}
		refused++;
	}
	printf("%d jumps survived, %d explained\n", whole, refused);
	CHECK(whole > 20);
	CHECK(refused * 4 < whole);
}

CASE(a_waiter_jumps_out_after_every_instruction)
{
	jump_after_every_instruction(0, LONG_MAX);
}

CASE(a_waiter_behind_another_jumps_out_after_every_instruction)
{
	/* It wakes up for ever, the less often the longer, and looks whether the mutex is reserved in vain. */
	jump_after_every_instruction(1, 300);
}

CASE(a_waiter_outside_the_queue_jumps_out_after_every_instruction)
{
	is_cancellable = 1;
	/* Such a waiter looks at the mutex from time to time, for ever. */
	jump_after_every_instruction(1, 500);
}
#endif
