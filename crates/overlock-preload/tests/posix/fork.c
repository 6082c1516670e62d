/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* fork: the child has only the forking thread, and what that thread held (POSIX.1-2017, fork and pthread_atfork). */
#include "mutex.h"

#include <sys/syscall.h>
#include <ucontext.h>

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER;
static atomic_int stop;
static long busy_count;

static void *keep_busy(void *argument)
{
	while (!stop) {
		EQ(pthread_mutex_lock(&busy), 0);
		busy_count++;
		EQ(pthread_mutex_unlock(&busy), 0);
	}
	return argument;
}

static void *count_in_child(void *argument)
{
	struct counter *counter = argument;

	for (long i = 0; i < counter->rounds; i++) {
		EQ(pthread_mutex_lock(counter->mutex), 0);
		count_once(counter);
		EQ(pthread_mutex_unlock(counter->mutex), 0);
	}
	return NULL;
}

/* Uses a free mutex from several threads, which shows that no trace of waiters is left on it. */
static void use_with_threads(pthread_mutex_t *mutex)
{
	struct counter counter = { .mutex = mutex, .rounds = 500 };
	pthread_t threads[4];

	for (int i = 0; i < 4; i++)
		threads[i] = start(count_in_child, &counter);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	EQ(counter.count, 2000);
}

CASE(child_unlocks_what_its_thread_locked)
{
	for_each_type(type) {
		pthread_mutex_t mutex = new_mutex(type);
		int knows_owner = type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE;
		pid_t child;

		/* libc takes the child for another owner, because the kernel has given its thread a new number. */
		if (knows_owner && !is_overlock())
			continue;
		EQ(pthread_mutex_lock(&mutex), 0);
		child = fork();
		EQ(pthread_mutex_unlock(&mutex), 0);
		EQ(pthread_mutex_trylock(&mutex), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
		if (child == 0) {
			use_with_threads(&mutex);
			EQ(pthread_mutex_destroy(&mutex), 0);
			_exit(0);
		}
		expect_success(child);
		use_with_threads(&mutex);
	}
}

CASE(child_unlocks_a_mutex_that_others_waited_for)
{
	for_each_type(type) {
		pthread_mutex_t mutex;
		pthread_t threads[6];
		struct section section;
		pid_t child;

		if ((type == PTHREAD_MUTEX_ERRORCHECK || type == PTHREAD_MUTEX_RECURSIVE) && !is_overlock())
			continue;
		for (int asleep = 0; asleep < 2; asleep++) {
			mutex = new_mutex(type);
			section = (struct section){ .mutex = &mutex };
			EQ(pthread_mutex_lock(&mutex), 0);
			for (int i = 0; i < 6; i++)
				threads[i] = start(enter_section, &section);
			if (asleep)
				pause_ms(30);
			child = fork();
			if (child == 0) {
				EQ(pthread_mutex_unlock(&mutex), 0);
				EQ(pthread_mutex_lock(&mutex), 0);
				EQ(pthread_mutex_unlock(&mutex), 0);
				use_with_threads(&mutex);
				_exit(0);
			}
			expect_success(child);
			CHECK(!section.entered);
			EQ(pthread_mutex_unlock(&mutex), 0);
			for (int i = 0; i < 6; i++)
				join(threads[i]);
		}
	}
}

static pthread_mutex_t waited_for = PTHREAD_MUTEX_INITIALIZER;
static _Atomic pid_t forked;

/* The child has no holder any more, and lets its one thread go on. */
static void fork_and_let_the_child_in(int number)
{
	pid_t child = fork();

	(void)number;
	if (child == 0)
		EQ(pthread_mutex_unlock(&waited_for), 0);
	forked = child;
}

/* A thread that can be cancelled at any instruction waits outside the queue. */
static void *wait_cancellably(void *argument)
{
	EQ(pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL), 0);
	EQ(pthread_mutex_lock(&waited_for), 0);
	EQ(pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL), 0);
	EQ(pthread_mutex_unlock(&waited_for), 0);
	if (forked == 0) {
		use_with_threads(&waited_for);
		_exit(0);
	}
	return argument;
}

CASE(a_waiter_forks_in_a_handler_and_waits_on)
{
	struct sigaction action = { .sa_handler = fork_and_let_the_child_in };

	EQ(sigaction(SIGUSR1, &action, NULL), 0);
	for (int i = 0; i < 4; i++) {
		pthread_t thread;

		forked = -1;
		EQ(pthread_mutex_lock(&waited_for), 0);
		thread = start(wait_cancellably, NULL);
		pause_ms(10);
		EQ(pthread_kill(thread, SIGUSR1), 0);
		while (forked == -1)
			pause_ms(1);
		expect_success(forked);
		EQ(pthread_mutex_unlock(&waited_for), 0);
		join(thread);
	}
}

#ifdef __x86_64__
enum { TRAP_FLAG = 0x100 };

static pthread_mutex_t stepped_to = PTHREAD_MUTEX_INITIALIZER;
static volatile enum { FREE, HELD, RELEASING } held;
static volatile int steps, in_trap, is_child, is_stepping;
static pid_t stepping;

/* Forks once at each instruction. */
static void trap(int number, siginfo_t *info, void *context)
{
	static unsigned char seen[1 << 16];
	greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
	size_t hash = registers[REG_RIP] * 0x9e3779b97f4a7c15ul >> 48;
	pid_t child;

	(void)number;
	(void)info;
	steps++;
	if (!is_stepping)
		registers[REG_EFL] &= ~TRAP_FLAG;
	if (!is_stepping || held == RELEASING || seen[hash]++)
		return;
	in_trap = 1;
	child = fork();
	if (child != 0) {
		expect_success(child);
		in_trap = 0;
		return;
	}
	alarm(30);
	if (held == RELEASING)
		_exit(0);
	is_child = 1;
	is_stepping = 0;
	registers[REG_EFL] &= ~TRAP_FLAG;
	if (held == HELD)
		EQ(pthread_mutex_unlock(&stepped_to), 0);
}

static int is_asleep(pid_t thread)
{
	char path[64], state = 0;
	FILE *file;

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
	file = fopen(path, "r");
	CHECK(file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
	fclose(file);
	return state == 'S';
}

/* Holds the mutex until the other thread has halted for it. */
static void *hold_until_it_sleeps(void *argument)
{
	EQ(pthread_mutex_lock(&stepped_to), 0);
	held = HELD;
	for (int asleep = 0; asleep < 3; asleep = !in_trap && is_asleep(stepping) ? asleep + 1 : 0)
		pause_ms(3);
	held = RELEASING;
	EQ(pthread_mutex_unlock(&stepped_to), 0);
	held = FREE;
	return argument;
}

CASE(a_handler_forks_at_every_instruction_of_a_wait)
{
	struct sigaction action = { .sa_sigaction = trap, .sa_flags = SA_SIGINFO };
	pthread_t holder;

	EQ(sigaction(SIGTRAP, &action, NULL), 0);
	stepping = (pid_t)syscall(SYS_gettid);
	holder = start(hold_until_it_sleeps, NULL);
	while (held == FREE)
		pause_ms(1);
	is_stepping = 1;
	__asm__ volatile("pushf; orq $0x100, (%%rsp); popf" ::: "memory", "cc");
	EQ(pthread_mutex_lock(&stepped_to), 0);
	EQ(pthread_mutex_unlock(&stepped_to), 0);
	is_stepping = 0;
	if (is_child) {
		for (int i = 0; i < 100; i++) {
			EQ(pthread_mutex_lock(&stepped_to), 0);
			EQ(pthread_mutex_unlock(&stepped_to), 0);
		}
		_exit(0);
	}
	join(holder);
	if (steps == 0)
		skipped("no signal comes after each instruction");
}
#endif

static void *enter_in_child(void *argument)
{
	return enter_section(argument);
}

CASE(child_threads_queue_for_a_mutex_held_since_before_the_fork)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct section section = { .mutex = &mutex };
	pthread_t parents[3];
	pid_t child;

	EQ(pthread_mutex_lock(&mutex), 0);
	for (int i = 0; i < 3; i++)
		parents[i] = start(enter_section, &section);
	pause_ms(20);
	child = fork();
	if (child == 0) {
		struct section in_child = { .mutex = &mutex };
		pthread_t threads[4];
		struct timespec at = in_ms(CLOCK_REALTIME, 20);

		for (int i = 0; i < 4; i++)
			threads[i] = start(enter_in_child, &in_child);
		EQ(pthread_mutex_trylock(&mutex), EBUSY);
		EQ(pthread_mutex_timedlock(&mutex, &at), ETIMEDOUT);
		pause_ms(20);
		CHECK(!in_child.entered);
		EQ(pthread_mutex_unlock(&mutex), 0);
		for (int i = 0; i < 4; i++)
			join(threads[i]);
		use_with_threads(&mutex);
		_exit(0);
	}
	expect_success(child);
	EQ(pthread_mutex_unlock(&mutex), 0);
	for (int i = 0; i < 3; i++)
		join(parents[i]);
}

static void lock_busy(void)
{
	EQ(pthread_mutex_lock(&busy), 0);
}

static void unlock_busy(void)
{
	EQ(pthread_mutex_unlock(&busy), 0);
}

static void start_busy_threads(pthread_t *threads)
{
	for (int i = 0; i < 4; i++)
		threads[i] = start(keep_busy, NULL);
}

static void stop_busy_threads(pthread_t *threads)
{
	stop = 1;
	for (int i = 0; i < 4; i++)
		join(threads[i]);
}

CASE(atfork_handlers_keep_a_busy_mutex_whole)
{
	/* What memory allocators do: lock before the fork, unlock after it on both sides. */
	pthread_t threads[4];

	EQ(pthread_atfork(lock_busy, unlock_busy, unlock_busy), 0);
	start_busy_threads(threads);
	for (int round = 0; round < 40; round++) {
		pid_t child = fork();

		if (child == 0) {
			lock_busy();
			unlock_busy();
			if (round % 10 == 0)
				use_with_threads(&busy);
			_exit(0);
		}
		expect_success(child);
	}
	stop_busy_threads(threads);
}

CASE(grandchild)
{
	pthread_t threads[4];

	EQ(pthread_atfork(lock_busy, unlock_busy, unlock_busy), 0);
	start_busy_threads(threads);
	for (int round = 0; round < 5; round++) {
		pid_t child = fork();

		if (child == 0) {
			pthread_t childs[4];

			stop = 0;
			start_busy_threads(childs);
			for (int i = 0; i < 3; i++) {
				pid_t grandchild = fork();

				if (grandchild == 0) {
					lock_busy();
					unlock_busy();
					use_with_threads(&busy);
					_exit(0);
				}
				expect_success(grandchild);
			}
			stop_busy_threads(childs);
			_exit(0);
		}
		expect_success(child);
	}
	stop_busy_threads(threads);
}

/* A condition that threads of the parent are blocked on. */
static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	int waiting, go;
} gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0 };

static void *wait_at_gate(void *argument)
{
	EQ(pthread_mutex_lock(&gate.mutex), 0);
	gate.waiting++;
	while (!gate.go)
		EQ(pthread_cond_wait(&gate.cond, &gate.mutex), 0);
	EQ(pthread_mutex_unlock(&gate.mutex), 0);
	return argument;
}

static void lock_when_waiting(int waiting)
{
	EQ(pthread_mutex_lock(&gate.mutex), 0);
	while (gate.waiting < waiting) {
		EQ(pthread_mutex_unlock(&gate.mutex), 0);
		pause_ms(1);
		EQ(pthread_mutex_lock(&gate.mutex), 0);
	}
}

CASE(child_uses_a_condition_that_others_waited_for)
{
	pthread_t threads[3], childs[3];
	pid_t child;

	for (int i = 0; i < 3; i++)
		threads[i] = start(wait_at_gate, NULL);
	lock_when_waiting(3);
	child = fork();
	if (child == 0) {
		gate.waiting = 0;
		EQ(pthread_mutex_unlock(&gate.mutex), 0);
		for (int i = 0; i < 3; i++)
			childs[i] = start(wait_at_gate, NULL);
		lock_when_waiting(3);
		gate.go = 1;
		EQ(pthread_cond_broadcast(&gate.cond), 0);
		EQ(pthread_mutex_unlock(&gate.mutex), 0);
		for (int i = 0; i < 3; i++)
			join(childs[i]);
		/* libc waits here for the parent's threads to leave. */
		if (is_overlock())
			EQ(pthread_cond_destroy(&gate.cond), 0);
		_exit(0);
	}
	expect_success(child);
	gate.go = 1;
	EQ(pthread_cond_broadcast(&gate.cond), 0);
	EQ(pthread_mutex_unlock(&gate.mutex), 0);
	for (int i = 0; i < 3; i++)
		join(threads[i]);
	EQ(pthread_cond_destroy(&gate.cond), 0);
}

static void *fork_and_use(void *argument)
{
	pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
	pid_t child = fork();

	if (child == 0) {
		EQ(pthread_mutex_lock(&mutex), 0);
		EQ(pthread_mutex_lock(&mutex), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
		EQ(pthread_mutex_unlock(&mutex), 0);
		use_with_threads(&mutex);
		_exit(0);
	}
	expect_success(child);
	return argument;
}

CASE(any_thread_may_fork)
{
	pthread_t threads[4];

	start_busy_threads(threads);
	for (int i = 0; i < 8; i++)
		elsewhere(fork_and_use, NULL);
	stop_busy_threads(threads);
}

CASE(vfork_and_exec)
{
	pthread_t threads[4];

	start_busy_threads(threads);
	for (int i = 0; i < 8; i++) {
		char *arguments[] = { "true", NULL };
		pid_t child;

		EQ(posix_spawnp(&child, "true", NULL, NULL, arguments, environ), 0);
		expect_success(child);
	}
	stop_busy_threads(threads);
}

/* A mutex with waiters, at an address that the caller chooses. */
static void fork_beside_waiters(pthread_mutex_t *mutex)
{
	struct section section = { .mutex = mutex };
	pthread_t threads[4];

	EQ(pthread_mutex_init(mutex, NULL), 0);
	EQ(pthread_mutex_lock(mutex), 0);
	for (int i = 0; i < 4; i++)
		threads[i] = start(enter_section, &section);
	pause_ms(20);
	for (int i = 0; i < 3; i++) {
		pid_t child = fork();

		if (child == 0) {
			use_with_threads(&busy);
			_exit(0);
		}
		expect_success(child);
	}
	CHECK(!section.entered);
	EQ(pthread_mutex_trylock(mutex), EBUSY);
	EQ(pthread_mutex_unlock(mutex), 0);
	for (int i = 0; i < 4; i++)
		join(threads[i]);
	use_with_threads(mutex);
}

CASE(child_leaves_alone_what_it_shares)
{
	fork_beside_waiters(shared_memory(sizeof(pthread_mutex_t)));
}

CASE(child_leaves_alone_what_it_has_not_got)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(memory != MAP_FAILED);
	EQ(madvise(memory, 4096, MADV_DONTFORK), 0);
	fork_beside_waiters(memory);
}

/* A child without fork handlers: a bare system call, as sandboxes make it. */
CASE(child_of_a_bare_clone)
{
	pthread_t threads[4];

	if (getenv("WITHOUT_WIPE") != NULL) {
		puts("not so: nothing tells a child of a bare clone that it is one");
		return;
	}
	start_busy_threads(threads);
	for (int round = 0; round < 8; round++) {
		pid_t child;

		lock_busy();
		child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
		if (child == 0) {
			for (int i = 0; i < 100; i++) {
				unlock_busy();
				lock_busy();
			}
			EQ(pthread_mutex_trylock(&busy), EBUSY);
			_exit(0);
		}
		unlock_busy();
		expect_success(child);
	}
	stop_busy_threads(threads);
}
