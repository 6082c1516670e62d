/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Telling the command what this process's threads do. */
#ifndef OVERLOCK_TELL_H
#define OVERLOCK_TELL_H

#include <stdbool.h>
#include <stddef.h>

#include "layout.h"

/*
 * A lock that threads of this process wait for. Its releases are noted here, and told when another thread gets it: a
 * thread that takes and releases it again and again tells next to nothing.
 */
struct waited {
	_Atomic uint64_t word;     /* the lock's address, shifted, and how many wait */
	_Atomic uint32_t releaser; /* which thread released it last */
	_Atomic uint32_t unused;
	_Atomic uint64_t released; /* when, as a stamp */
	_Atomic uint64_t told;     /* when this was last told */
};

#define SETS 4096
#define WAYS 2

#pragma GCC visibility push(hidden)

extern struct waited waited_for[SETS][WAYS];

/* How many threads of this process wait for locks, and how many for other things: most need not look further. */
extern _Atomic uint32_t waiting_for_locks, waiting_for_work;

/* Returns the lock's entry, if a thread waits for it. */
static inline struct waited *waited(enum kind kind, const volatile void *lock)
{
	uint64_t key = (uint64_t)lock << 16;
	struct waited *set = waited_for[((uint64_t)lock * 0x9e3779b97f4a7c15U) >> 52];

	if (__builtin_expect(atomic_load_explicit(kind > SPIN ? &waiting_for_work : &waiting_for_locks,
						  memory_order_relaxed) == 0, 1))
		return NULL;
	for (int way = 0; way < WAYS; way++) {
		uint64_t word = atomic_load_explicit(&set[way].word, memory_order_relaxed);

		if (word - key - 1 < 0xffff)
			return &set[way];
	}
	return NULL;
}

/* A wait of this thread. */
struct wait {
	const volatile void *lock;
	struct waited *entry;
	uint64_t began;
	enum kind kind;
};

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

/* This thread is about to release a lock that others wait for. It is told at least once in a period, by stamps. */
void tell_releases(struct waited *entry, enum kind kind, const volatile void *lock, uint64_t period);

/* This thread is about to wake threads that wait for no lock. */
void tell_wakes(enum kind kind, const volatile void *lock);

#pragma GCC visibility pop

#endif
