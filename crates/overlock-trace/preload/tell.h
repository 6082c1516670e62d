/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Telling the command what this process's threads do. */
#ifndef OVERLOCK_TELL_H
#define OVERLOCK_TELL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "layout.h"

#define SETS 4096
#define SLOW __attribute__((noinline))

#pragma GCC visibility push(hidden)

extern struct waited waited_for[SETS][WAYS];

/*
 * Which thread has taken a read-write lock last to write. The C library's memory of the lock says that, too, but not
 * any more when the thread has begun to release it.
 */
struct writer {
	const volatile void *_Atomic lock;
	_Atomic uint32_t thread;
};

extern struct writer last_writers[SETS];

/* Whether calls are passed on to the C library's own locks, and not to those of another preloaded library. */
extern bool is_libcs;

/* Returns where that stands. */
static inline struct writer *writer_of(const volatile void *lock)
{
	return &last_writers[((uint64_t)lock * 0x9e3779b97f4a7c15U) >> 52];
}

/* This thread has taken a lock to write. */
static inline void has_it_to_write(const volatile void *lock)
{
	struct writer *writer = writer_of(lock);
	uint32_t thread;

	if (!is_libcs)
		return;
	thread = (uint32_t)((const volatile pthread_rwlock_t *)lock)->__data.__cur_writer;
	/* Several locks share a cache line of the table: what it says already is not written. */
	if (atomic_load_explicit(&writer->lock, memory_order_relaxed) != lock)
		atomic_store_explicit(&writer->lock, lock, memory_order_relaxed);
	if (atomic_load_explicit(&writer->thread, memory_order_relaxed) != thread)
		atomic_store_explicit(&writer->thread, thread, memory_order_relaxed);
}

/*
 * How many threads wait for locks, and how many for other things: most need not look further. The first two are of
 * this process; the others are of all, and of locks that processes share.
 */
extern _Atomic uint32_t waiting_here[2], *waiting_anywhere;

/* Returns whether threads of other processes may wait for this as well. */
static inline bool is_shared(enum kind kind, const volatile void *lock)
{
	/* The C library's bit of a mutex's kind, which pthread_mutex_init sets. */
	const int mutex_bit = 128;

	switch (kind) {
	case MUTEX:
		return (((const pthread_mutex_t *)lock)->__data.__kind & mutex_bit) != 0;
	case READER:
	case WRITER:
		return ((const pthread_rwlock_t *)lock)->__data.__shared != 0;
	case CONDVAR:
		return (((const pthread_cond_t *)lock)->__data.__wrefs & 1) != 0;
	case SEMAPHORE:
		/* Behind the value and the number of waiters. */
		return ((const volatile int *)lock)[2] != 0;
	case FUTEX:
		return ((uint64_t)lock & SHARED) != 0;
	default:
		return false;
	}
}

/* Returns where a lock's entry is, if it has one. */
struct waited *set_of(enum kind kind, const volatile void *lock);

/* Returns the lock's entry, if a thread waits for it. */
static inline struct waited *waited(enum kind kind, const volatile void *lock)
{
	uint64_t key = (uint64_t)lock << 16;
	struct waited *set;

	if (__builtin_expect((atomic_load_explicit(&waiting_here[kind > SPIN], memory_order_relaxed) |
			      atomic_load_explicit(&waiting_anywhere[kind > SPIN], memory_order_relaxed)) == 0, 1))
		return NULL;
	set = set_of(kind, lock);
	for (int way = 0; way < WAYS; way++) {
		uint64_t word = atomic_load_explicit(&set[way].word, memory_order_relaxed);

		if (word - key - 1 < 0xffff)
			return &set[way];
	}
	return NULL;
}

/* The condition that this thread has waited for last, if it has released no lock since then. */
extern __thread const volatile void *kept_since;

/* A wait of this thread. */
struct wait {
	const volatile void *lock;
	struct waited *entry;
	uint64_t began;
	enum kind kind;
	uint32_t holder; /* the thread whose account was told at the beginning */
	bool is_shared;
};

/*
 * Makes a system call itself: a program may have functions of its own by the names of the C library's. Errors are small
 * negative numbers, and `errno` stays as it is.
 */
static inline long raw(long number, long one, long two, long three, long four, long five, long six)
{
	register long r10 __asm__("r10") = four, r8 __asm__("r8") = five, r9 __asm__("r9") = six;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(one), "S"(two), "d"(three), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

/*
 * Stamps are cheaper than the clock: cycles of the processor's counter, where its speed does not change, else
 * nanoseconds. They become nanoseconds by what both have done since the start.
 */
extern bool has_counter;
void start_stamps(void);
uint64_t now(void);

static inline uint64_t stamp(void)
{
	return has_counter ? __builtin_ia32_rdtsc() : now();
}

/* Stamps after which a call may have slept: some microseconds. */
#define LONG 20000

/*
 * Finds the functions that calls are passed on to. Returns whether there are any yet: the dynamic linker may call a
 * library of the program's before it has relocated this one. The process has one thread then, and locks do nothing.
 */
bool prepare(void);

/* Finds those in which a thread may sleep, and tells of none of them any more. */
void find_sleeps(void);
void leave_sleeps(void);

/* Joins the command's memory, if there is any. */
void tell_start(void);

/* In a forked child. */
void tell_forked(void);

/* Begins a wait for `lock` at the place with this return address and this frame of its callee. */
struct wait tell_waits(enum kind kind, const volatile void *lock, const volatile void *other, void *code, void *frame);

/* Ends it. */
void tell_leaves(const struct wait *wait, bool has_it);

/* This thread has taken a lock that others wait for. */
void tell_takes(struct waited *entry, enum kind kind, const volatile void *lock);

/*
 * This thread is about to release a lock that others wait for. It is told at least once in a period, by stamps, and
 * each time if all of them are woken.
 */
#define ALL 0
void tell_releases(struct waited *entry, enum kind kind, const volatile void *lock, uint64_t period, void *code,
		   void *frame);

/* A system call with this first argument took long, since it began by a stamp, and has this result. */
void tell_slept(uint32_t call, uint64_t argument, uint64_t began, void *code, void *frame, long result);

/* This thread is about to yield its processor, and has yielded it. */
void tell_yields(void *code, void *frame);
void tell_yielded(void);

/* This thread is about to wake threads, or all of them, at the place with this return address and frame. */
void tell_wakes(enum kind kind, const volatile void *lock, bool all, void *code, void *frame);

#pragma GCC visibility pop

#endif
