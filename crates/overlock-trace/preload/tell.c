/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Telling the command what this process's threads do: see layout.h. */
#define _GNU_SOURCE
#include "tell.h"

#include <cpuid.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Places that a thread remembers. A place that it has forgotten is told again. */
#define PLACES 64
/* Events between two searches for a free chunk: if the command was killed, there will be none. */
#define PATIENCE 1024
/* Bytes of the stack that are told with a place. */
#define STACK_BYTES 1024

struct place {
	uint64_t code;
	uint64_t stack;
};

static __thread struct {
	void *busy; /* where it tells something; a signal's handler may have interrupted that */
	bool is_known;
	uint32_t thread;
	uint32_t count;
	uint32_t patience; /* events that find no room before free chunks are looked for again */
	struct head *head;
	struct event *events;
	struct wait wait;          /* the one that it is in, if it has begun */
	const volatile void *held; /* the lock that it has waited for and not released yet */
	struct place places[PLACES];
	uint64_t yielded;  /* when it last did, as a stamp */
	uint64_t yields;   /* since when it has done nothing but that */
	uint64_t cpu;      /* its processor time at the last time it was told */
} self;

__thread const volatile void *kept_since;

struct waited waited_for[SETS][WAYS] __attribute__((aligned(64)));
struct writer last_writers[SETS] __attribute__((aligned(64)));
_Atomic uint32_t waiting_here[2];
static _Atomic uint32_t nobody[2];
_Atomic uint32_t *waiting_anywhere = nobody;

static struct shared *shared;
static uint32_t process;
static pthread_key_t end;

/* In a page that is zero in a forked child until `tell_forked`. Null if the kernel has no such pages. */
static uint32_t *mark;

struct waited *set_of(enum kind kind, const volatile void *lock)
{
	uint64_t hash = (uint64_t)lock * 0x9e3779b97f4a7c15U;

	if (shared != NULL && is_shared(kind, lock))
		return shared->waited_for[hash >> 56];
	return waited_for[hash >> 52];
}

static _Atomic uint32_t *waiting(const struct wait *wait)
{
	return &(wait->is_shared ? waiting_anywhere : waiting_here)[wait->kind > SPIN];
}

/* Returns a lock's address as events have it. */
static uint64_t address(enum kind kind, const volatile void *lock)
{
	return (uint64_t)lock | (is_shared(kind, lock) ? SHARED : 0);
}

static uint64_t time_of(clockid_t clock)
{
	struct timespec t;

	if (clock_gettime(clock, &t) != 0)
		return 0;
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t now(void)
{
	return time_of(CLOCK_MONOTONIC);
}

bool has_counter;
static uint64_t first_stamp, first_ns;

static uint64_t ns_of(uint64_t stamp_then)
{
	uint64_t at_stamp = stamp(), at_ns = now();
	double speed = (double)(at_ns - first_ns) / (double)(at_stamp - first_stamp + 1);

	/* What was never stamped is of no time. */
	if (stamp_then < first_stamp)
		return 0;
	return stamp_then >= at_stamp ? at_ns : at_ns - (uint64_t)((double)(at_stamp - stamp_then) * speed);
}

void start_stamps(void)
{
	unsigned int a, b, c, d = 0;

	has_counter = __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & 1 << 8);
	first_stamp = stamp();
	first_ns = now();
}

/* The thread will write no more into its chunk. */
static void closes(void)
{
	if (self.head != NULL)
		/* ORDERING: pairs with the command's load: it then reads all of the chunk. */
		atomic_store_explicit(&self.head->state, CLOSED, memory_order_release);
	self.head = NULL;
}

/*
 * The thread ends; what other libraries do after this may make it tell more. If it was cancelled in a wait, or has left
 * one by a jump and has not waited since, that wait ends here: a handler for that would lie on the stack of the wait,
 * which a jump leaves behind.
 */
static void ends(void *unused)
{
	(void)unused;
	tell_leaves(&self.wait, false);
	closes();
	self.is_known = false;
}

static void claim(void)
{
	uint64_t serial = atomic_fetch_add_explicit(&shared->claims, 1, memory_order_relaxed);
	long thread = self.is_known ? 1 : raw(SYS_gettid, 0, 0, 0, 0, 0, 0);
	uint32_t first;

	closes();
	/* A child of vfork has this thread's memory for a while. */
	if (thread <= 0 || (!self.is_known && raw(SYS_getpid, 0, 0, 0, 0, 0, 0) != process)) {
		self.patience = PATIENCE;
		return;
	}
	/* The same few chunks are used again and again: they are in the processor's cache. */
	first = atomic_load_explicit(&shared->hint, memory_order_relaxed);
	for (uint32_t i = 0; i < CHUNKS; i++) {
		uint32_t index = (first + i) % CHUNKS;
		struct head *head = &shared->heads[index];
		uint32_t state = FREE, used;

		/* ORDERING: pairs with the command's store: it has read what was in the chunk. */
		if (atomic_load_explicit(&head->state, memory_order_relaxed) != FREE ||
		    !atomic_compare_exchange_strong_explicit(&head->state, &state, OPEN, memory_order_acquire,
							     memory_order_relaxed))
			continue;
		if (!self.is_known) {
			self.thread = (uint32_t)thread;
			self.is_known = true;
			pthread_setspecific(end, &self);
			memset(self.places, 0, sizeof self.places);
		}
		atomic_store_explicit(&shared->hint, index + 1, memory_order_relaxed);
		used = atomic_load_explicit(&shared->used, memory_order_relaxed);
		while (used <= index && !atomic_compare_exchange_weak_explicit(&shared->used, &used, index + 1,
									       memory_order_relaxed,
									       memory_order_relaxed))
			;
		head->process = process;
		head->thread = self.thread;
		head->serial = serial;
		self.count = 0;
		self.head = head;
		self.events = shared->events[head - shared->heads];
		return;
	}
	self.patience = PATIENCE;
}

/* Returns room for some events, which end up in one chunk. */
static struct event *room(uint32_t count)
{
	if (self.patience > 0)
		self.patience--;
	else if (self.head == NULL || self.count + count > CHUNK_EVENTS)
		claim();
	if (self.head == NULL) {
		atomic_fetch_add_explicit(&shared->dropped, 1, memory_order_relaxed);
		return NULL;
	}
	return &self.events[self.count];
}

static void publish(uint32_t count)
{
	self.count += count;
	/* ORDERING: pairs with the command's load: the events below the count are complete. */
	atomic_store_explicit(&self.head->count, self.count, memory_order_release);
}

/*
 * Returns whether the command reads what is told, or will. A child may get here before `tell_forked` is called: in the
 * handlers of other libraries, or since its parent has made it by the system call.
 */
static bool is_told(void)
{
	if (shared == NULL || atomic_load_explicit(&shared->is_watched, memory_order_relaxed) == ENDED)
		return false;
	if (__builtin_expect(mark != NULL && *mark == 0, 0))
		tell_forked();
	return true;
}

/*
 * Returns whether this thread tells something already. A handler may have left that behind by a jump: then this frame
 * is not below it, unless it is on a stack for handlers.
 */
static SLOW bool is_busy(void)
{
	stack_t stack = {.ss_flags = SS_ONSTACK};

	if (self.busy == NULL)
		return false;
	if (__builtin_frame_address(0) < self.busy)
		return true;
	return raw(SYS_sigaltstack, 0, (long)&stack, 0, 0, 0, 0) != 0 || (stack.ss_flags & SS_ONSTACK) != 0;
}

/* Returns whether this thread may tell something now; then `done` has to follow. */
static bool begin(void)
{
	if (!is_told())
		return false;
	if (is_busy()) {
		atomic_fetch_add_explicit(&shared->dropped, 1, memory_order_relaxed);
		return false;
	}
	self.busy = __builtin_frame_address(0);
	atomic_signal_fence(memory_order_seq_cst);
	return true;
}

static void done(void)
{
	atomic_signal_fence(memory_order_seq_cst);
	self.busy = NULL;
}

static void tell(struct event event)
{
	struct event *place;

	if (!begin())
		return;
	place = room(1);
	if (place != NULL) {
		*place = event;
		publish(1);
	}
	done();
}

/* Returns the number of a place, and tells its stack if it is new. */
static uint16_t place(void *code, void *frame)
{
	/* Behind the saved frame pointer and the return address. */
	struct place here = {(uint64_t)code, (uint64_t)frame + 16};
	uint16_t index = ((here.code ^ here.stack << 7) * 0x9e3779b97f4a7c15U) >> 58;
	const uint32_t most = 1 + STACK_BYTES / sizeof(struct event);
	struct event *event;

	if (self.is_known && self.places[index].code == here.code && self.places[index].stack == here.stack)
		return index;
	if (!begin())
		return index;
	event = room(most);
	if (event != NULL) {
		/*
		 * The end of the stack may be nearer than that, so the kernel copies. It knows the memory by this
		 * thread: the process's first one may have ended.
		 */
		struct iovec to = {event + 1, STACK_BYTES}, from = {(void *)here.stack, STACK_BYTES};
		long copied = 0;

		for (size_t length = STACK_BYTES; copied <= 0 && length >= 64; length /= 4) {
			to.iov_len = from.iov_len = length;
			copied = raw(SYS_process_vm_readv, self.thread, (long)&to, 1, (long)&from, 1, 0);
		}
		copied = copied < 0 ? 0 : copied;
		*event = (struct event){
			.at = *(uint64_t *)frame,
			.lock = here.code,
			.other = here.stack,
			.thread = (uint32_t)copied,
			.what = STACK,
			.site = index,
		};
		self.places[index] = here;
		publish(1 + (uint32_t)((size_t)copied + sizeof *event - 1) / sizeof *event);
	}
	done();
	return index;
}

/* Whether an entry's word is of this lock: then threads wait for it, or did. */
static bool is_of(uint64_t word, uint64_t key)
{
	return word >> 16 == key >> 16;
}

/* Makes an entry that no thread waits by one of this lock. Of earlier waits it says nothing. */
static bool takes_over(struct waited *entry, uint64_t *word, uint64_t key)
{
	if (!atomic_compare_exchange_strong_explicit(&entry->word, word, key | 1, memory_order_relaxed,
						     memory_order_relaxed))
		return false;
	atomic_store_explicit(&entry->releaser, 0, memory_order_relaxed);
	atomic_store_explicit(&entry->told, 0, memory_order_relaxed);
	return true;
}

/* Counts this thread among those that wait for a lock. Returns nothing if there are too many such locks. */
static struct waited *joins(enum kind kind, const volatile void *lock)
{
	uint64_t key = (uint64_t)lock << 16;
	struct waited *set = set_of(kind, lock);
	int way = 0;

	for (; way < WAYS; way++) {
		uint64_t word = atomic_load_explicit(&set[way].word, memory_order_relaxed);

		while (is_of(word, key) && (word & 0xffff) != 0 && (word & 0xffff) != 0xffff)
			if (atomic_compare_exchange_weak_explicit(&set[way].word, &word, word + 1, memory_order_relaxed,
								  memory_order_relaxed))
				return &set[way];
	}
	for (way = 0; way < WAYS; way++) {
		uint64_t word = atomic_load_explicit(&set[way].word, memory_order_relaxed);

		if ((word & 0xffff) == 0 && takes_over(&set[way], &word, key))
			return &set[way];
		/* Another waiter was faster: there is one entry for each lock. */
		if (is_of(word, key) && (word & 0xffff) != 0)
			return (word & 0xffff) == 0xffff ? NULL : joins(kind, lock);
	}
	return NULL;
}

/*
 * Returns which thread has a read-write lock to write, or 0. While a writer has taken the lock's word and not said yet
 * who it is, that is the writer before it.
 */
static uint32_t writer(const volatile pthread_rwlock_t *lock)
{
	/* The C library's bits of the word: it is a writer's turn, and the writer has not released the lock. */
	const unsigned int is_written = 1 | 2;
	uint32_t known = (uint32_t)lock->__data.__cur_writer;
	struct writer *last = writer_of(lock);

	if (known != 0 || (lock->__data.__readers & is_written) != is_written ||
	    atomic_load_explicit(&last->lock, memory_order_relaxed) != lock)
		return known;
	return atomic_load_explicit(&last->thread, memory_order_relaxed);
}

/* Returns which thread holds a lock, where that is known, or 0. Of other locks than the C library's it is not. */
static uint32_t holder(enum kind kind, const volatile void *lock)
{
	if (!is_libcs)
		return 0;
	switch (kind) {
	case MUTEX:
		return (uint32_t)((const volatile pthread_mutex_t *)lock)->__data.__owner;
	case READER:
	case WRITER:
		return writer(lock);
	case JOIN:
		/* Behind the head of the thread's block: its number, until it ends. */
		return ((const volatile uint32_t *)lock)[0x2d0 / 4];
	default:
		return 0;
	}
}

/*
 * Tells for how long a thread has run, and for how long it could not: its clock is exact, and the second is complete
 * when it runs. Returns whether that is known.
 */
static bool tell_account(uint32_t thread)
{
	/* The kernel's name for the processor time of a thread of this process. */
	uint64_t ran = time_of((clockid_t)(~thread << 3 | 6)), delayed = 0;
	char text[64], *end;
	ssize_t length;
	int file;

	snprintf(text, sizeof text, "/proc/self/task/%u/schedstat", thread);
	file = ran == 0 ? -1 : (int)raw(SYS_openat, AT_FDCWD, (long)text, O_RDONLY | O_CLOEXEC, 0, 0, 0);
	if (file < 0)
		return false;
	length = raw(SYS_read, file, (long)text, sizeof text - 1, 0, 0, 0);
	raw(SYS_close, file, 0, 0, 0, 0, 0);
	text[length < 0 ? 0 : length] = '\0';
	end = strchr(text, ' ');
	if (end == NULL)
		return false;
	delayed = strtoull(end, NULL, 10);
	tell((struct event){.at = now(), .lock = ran, .other = delayed, .thread = thread, .what = ACCOUNT});
	return true;
}

struct wait tell_waits(enum kind kind, const volatile void *lock, const volatile void *other, void *code, void *frame)
{
	int error = errno;
	struct wait wait = {.lock = lock, .kind = kind};
	uint16_t site;

	/* The locks of another preloaded library wait by the system call. */
	if (!is_told() || (kind == FUTEX && self.wait.began != 0))
		return wait;
	site = place(code, frame);
	wait.is_shared = is_shared(kind, lock);
	atomic_fetch_add_explicit(waiting(&wait), 1, memory_order_relaxed);
	wait.entry = joins(kind, lock);
	/* Whoever takes the lock after this thread was counted will tell of it. */
	wait.holder = holder(kind, lock);
	if (wait.holder == self.thread)
		wait.holder = 0;
	wait.began = now();
	tell((struct event){.at = wait.began,
			    .thread = kind == CONDVAR ? kept_since == lock : wait.holder,
			    .lock = address(kind, lock),
			    .other = (uint64_t)other | (kind == CONDVAR && is_shared(MUTEX, other) ? SHARED : 0),
			    .what = WAITS,
			    .kind = (uint8_t)kind,
			    .site = site});
	if (atomic_load_explicit(&shared->accounts, memory_order_relaxed) == 0 || wait.holder == 0 ||
	    !tell_account(wait.holder))
		wait.holder = 0;
	self.wait = wait;
	errno = error;
	return wait;
}

/* Tells that this thread has a lock now, and which thread has released it last. */
static void has(enum what what, const struct waited *entry, enum kind kind, const volatile void *lock, uint64_t since)
{
	uint32_t releaser = 0;
	uint64_t released = 0;

	if (entry != NULL) {
		/* ORDERING: pairs with the store in `tell_releases`. */
		releaser = atomic_load_explicit(&entry->releaser, memory_order_acquire);
		released = ns_of(atomic_load_explicit(&entry->released, memory_order_relaxed));
		if (released < since)
			releaser = 0;
	}
	tell((struct event){.at = now(),
			    .lock = address(kind, lock),
			    .other = released,
			    .thread = releaser,
			    .what = (uint8_t)what,
			    .kind = (uint8_t)kind});
}

void tell_leaves(const struct wait *wait, bool has_it)
{
	int error = errno;

	if (wait->began == 0)
		return;
	if (wait->holder != 0)
		tell_account(wait->holder);
	if (has_it) {
		has(GOT, wait->entry, wait->kind, wait->lock, wait->began);
		self.held = wait->lock;
		if (wait->kind == WRITER)
			has_it_to_write(wait->lock);
	} else {
		tell((struct event){.at = now(),
				    .lock = address(wait->kind, wait->lock),
				    .what = LEAVES,
				    .kind = (uint8_t)wait->kind});
	}
	if (wait->entry != NULL)
		atomic_fetch_sub_explicit(&wait->entry->word, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(waiting(wait), 1, memory_order_relaxed);
	self.wait.began = 0;
	errno = error;
}

void tell_takes(struct waited *entry, enum kind kind, const volatile void *lock)
{
	if (!is_told())
		return;
	/* Only a change of hands matters. */
	if (atomic_load_explicit(&entry->releaser, memory_order_relaxed) != self.thread || !self.is_known)
		has(TAKES, entry, kind, lock, 0);
}

void tell_releases(struct waited *entry, enum kind kind, const volatile void *lock, uint64_t period, void *code,
		   void *frame)
{
	uint64_t at = stamp();

	if (!is_told())
		return;
	if (self.held == lock || at - atomic_load_explicit(&entry->told, memory_order_relaxed) >= period) {
		self.held = NULL;
		atomic_store_explicit(&entry->told, at, memory_order_relaxed);
		tell_wakes(kind, lock, period == ALL, code, frame);
	}
	if (!self.is_known && begin()) {
		room(1);
		done();
	}
	/* The entry may have gone over to another lock, which this thread never had. */
	if (is_of(atomic_load_explicit(&entry->word, memory_order_relaxed), (uint64_t)lock << 16)) {
		atomic_store_explicit(&entry->released, at, memory_order_relaxed);
		/* ORDERING: pairs with the load in `has`, which then finds this time or a later one. */
		atomic_store_explicit(&entry->releaser, self.thread, memory_order_release);
	}
}

void tell_wakes(enum kind kind, const volatile void *lock, bool all, void *code, void *frame)
{
	int error = errno;

	if (is_told()) {
		uint16_t site = place(code, frame);

		tell((struct event){.at = now(),
				    .lock = address(kind, lock),
				    .other = all,
				    .what = WAKES,
				    .kind = (uint8_t)kind,
				    .site = site});
	}
	errno = error;
}

/* Returns of what type the file is of a call that may be for one of several, or 0. */
static uint8_t type_of(uint32_t call, uint64_t file)
{
	struct stat status;

	switch (call) {
	case SYS_read:
	case SYS_write:
	case SYS_readv:
	case SYS_writev:
	case SYS_ioctl:
	case SYS_sendfile:
	case SYS_splice:
		if (raw(SYS_fstat, (long)file, (long)&status, 0, 0, 0, 0) == 0)
			return (uint8_t)(1 | (status.st_mode & S_IFMT) >> 11);
	}
	return 0;
}

void tell_slept(uint32_t call, uint64_t argument, uint64_t began, void *code, void *frame, long result)
{
	int error = errno;

	/* Our own calls, amid what is told, are not the program's. */
	if (is_told() && !is_busy()) {
		uint16_t site = place(code, frame);

		tell((struct event){.at = now(),
				    .lock = ns_of(began),
				    .other = call == SYS_wait4 ? (uint64_t)result : argument,
				    .thread = call,
				    .what = SLEPT,
				    .kind = type_of(call, argument),
				    .site = site});
	}
	errno = error;
}

/* The stamps between two yields of a loop that does nothing else, and between two times that it is told of. */
#define SOON 1000000
#define TELLS 6000000

void tell_yields(void *code, void *frame)
{
	uint64_t at = stamp();

	if (!is_told())
		return;
	if (at - self.yielded > SOON) {
		self.yields = at;
		self.cpu = 0;
	} else if (at - self.yields > TELLS) {
		uint64_t cpu = time_of(CLOCK_THREAD_CPUTIME_ID);
		int error = errno;

		if (self.cpu != 0)
			tell((struct event){.at = now(),
					    .lock = cpu - self.cpu,
					    .what = YIELDS,
					    .site = place(code, frame)});
		self.cpu = cpu;
		self.yields = at;
		errno = error;
	}
}

void tell_yielded(void)
{
	self.yielded = stamp();
}

/* Returns whether a system call that returns an address has failed. */
static bool is_error(const void *at)
{
	return (long)at < 0 && (long)at > -4096;
}

/* Maps a file if it is the command's memory. */
static struct shared *map(int file, uint64_t token)
{
	uint64_t first = 0;
	char last;
	void *at;

	/* A shorter file would raise SIGBUS. */
	if (raw(SYS_pread64, file, (long)&first, sizeof first, 0, 0, 0) != sizeof first || first != token ||
	    raw(SYS_pread64, file, (long)&last, 1, sizeof(struct shared) - 1, 0, 0) != 1)
		return NULL;
	at = (void *)raw(SYS_mmap, 0, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	return is_error(at) ? NULL : at;
}

void tell_start(void)
{
	const char *variable = getenv("OVERLOCK_TRACE");
	unsigned long long token;
	struct shared *mapped;
	char path[64];
	int file, command;

	process = (uint32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
	if (variable == NULL || sscanf(variable, "%d:%d:%llu", &file, &command, &token) != 3)
		return;
	mapped = map(file, token);
	if (mapped == NULL) {
		/* The program's parent may have closed the descriptor. */
		snprintf(path, sizeof path, "/proc/%d/fd/%d", command, file);
		file = (int)raw(SYS_openat, AT_FDCWD, (long)path, O_RDWR | O_CLOEXEC, 0, 0, 0);
		mapped = file < 0 ? NULL : map(file, token);
		if (file >= 0)
			raw(SYS_close, file, 0, 0, 0, 0, 0);
	}
	if (mapped == NULL || mapped->layout != LAYOUT || pthread_key_create(&end, ends) != 0)
		return;
	atomic_fetch_add_explicit(&mapped->joined, 1, memory_order_relaxed);
	mark = (void *)raw(SYS_mmap, 0, sizeof *mark, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (is_error(mark) || raw(SYS_madvise, (long)mark, sizeof *mark, MADV_WIPEONFORK, 0, 0, 0) != 0)
		mark = NULL;
	else
		*mark = 1;
	/* Not for long: the command may have ended. */
	if (atomic_load_explicit(&mapped->is_watched, memory_order_relaxed) == NOT_YET)
		raw(SYS_futex, (long)&mapped->is_watched, FUTEX_WAIT, NOT_YET, (long)&(struct timespec){.tv_sec = 1}, 0, 0);
	shared = mapped;
	waiting_anywhere = mapped->waiting;
}

void tell_forked(void)
{
	if (mark != NULL) {
		if (*mark != 0)
			return;
		*mark = 1;
	}
	process = (uint32_t)raw(SYS_getpid, 0, 0, 0, 0, 0, 0);
	/* The chunk is the parent's, and so are the threads that wait. */
	memset(&self, 0, sizeof self);
	if (waiting_here[0] != 0 || waiting_here[1] != 0)
		memset(waited_for, 0, sizeof waited_for);
	waiting_here[0] = waiting_here[1] = 0;
	if (shared != NULL)
		atomic_fetch_add_explicit(&shared->joined, 1, memory_order_relaxed);
}
