/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The memory that traced processes share with the command: the same in src/preload/memory.rs.
 *
 * It is a pool of chunks. A thread claims a free chunk when it has something to tell, fills it with events, and claims
 * the next. The command reads events as they come, and frees a chunk that is full and read. So a process may end in any
 * way at any time: what it has told is there. If there is no free chunk, events are counted as dropped.
 */
#ifndef OVERLOCK_LAYOUT_H
#define OVERLOCK_LAYOUT_H

#include <stdatomic.h>
#include <stdint.h>

#define LAYOUT 1         /* of all that is below */
#define CHUNKS 16384     /* 64 MB, of which only what is used takes memory */
#define CHUNK_EVENTS 128 /* a page */

/* The state of a chunk. */
enum { FREE, OPEN, CLOSED };

/* Whether the command reads what is told. */
enum { NOT_YET, WATCHED, ENDED };

/* What a thread did. */
enum what {
	WAITS = 1, /* begins to wait for `lock`; of a condition variable, `other` is the mutex */
	GOT,       /* its wait has ended, and it has the lock, which `thread` had released at `other` */
	TAKES,     /* takes a lock that others wait for; as above */
	WAKES,     /* releases, or signals, what others wait for */
	LEAVES,    /* its wait has ended otherwise */
	STACK,     /* the place `site` of this thread: frame, instruction and stack pointer, and `thread` bytes that follow */
};

/* What is waited for: locks first. */
enum kind { MUTEX = 1, READER, WRITER, SPIN, CONDVAR, SEMAPHORE, BARRIER, JOIN };

struct event {
	uint64_t at; /* CLOCK_MONOTONIC, in nanoseconds */
	uint64_t lock;
	uint64_t other;
	uint32_t thread;
	uint8_t what;
	uint8_t kind;
	uint16_t site;
};

/* About a chunk. */
struct head {
	_Atomic uint32_t state;
	_Atomic uint32_t count; /* of the events that can be read */
	uint32_t process;
	uint32_t thread;
	uint64_t serial; /* a thread's chunks are read in this order */
} __attribute__((aligned(64)));

struct shared {
	uint64_t token; /* the number in the variable */
	uint32_t layout;
	_Atomic uint32_t joined; /* processes */
	_Atomic uint64_t dropped;
	_Atomic uint64_t claims;
	_Atomic uint32_t is_watched; /* NOT_YET, which the first process waits for, WATCHED or ENDED */
	char padding[4096 - 36];
	struct head heads[CHUNKS];
	struct event events[CHUNKS][CHUNK_EVENTS];
};

_Static_assert(sizeof(struct event) == 32 && sizeof(struct head) == 64, "the layout that the command reads");
_Static_assert(sizeof(struct shared) == 4096 + CHUNKS * (64 + 4096), "the layout that the command reads");

#endif
