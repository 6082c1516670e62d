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

#define LAYOUT 3         /* of all that is below */
#define CHUNKS 16384     /* 64 MB, of which only what is used takes memory */
#define CHUNK_EVENTS 128 /* a page */

/* The state of a chunk. */
enum { FREE, OPEN, CLOSED };

/* Whether the command reads what is told. */
enum { NOT_YET, WATCHED, ENDED };

/* What a thread did. */
enum what {
	WAITS = 1, /* begins to wait for `lock`, which `thread` has; of a condition variable, `other` is the mutex, and
		      `thread` is 1 if this thread has released none since it last waited for the condition; of a
		      futex, `other` is the value that it expects, and the operation in the upper half */
	GOT,       /* its wait has ended, and it has the lock, which `thread` had released at `other` */
	TAKES,     /* takes a lock that others wait for; as above */
	WAKES,     /* releases, or signals, what others wait for; `other` is 1 if that is for all of them */
	LEAVES,    /* its wait has ended otherwise */
	ACCOUNT,   /* at this time `thread` had run for `lock` ns, and been without a processor for `other` ns */
	YIELDS,    /* has spent `lock` ns of processor time in a loop that yields */
	SLEPT,     /* may have slept since `lock` in the system call `thread`, whose first argument is `other`,
		      or, of a wait for a process, that process; `kind` is the type of its file, shifted, and 1 */
	STACK,     /* the place `site` of this thread: frame, instruction and stack pointer, and `thread` bytes that follow */
};

/* What is waited for: locks first. */
enum kind { MUTEX = 1, READER, WRITER, SPIN, CONDVAR, SEMAPHORE, BARRIER, JOIN, FUTEX };

struct event {
	uint64_t at; /* CLOCK_MONOTONIC, in nanoseconds */
	uint64_t lock;
	uint64_t other;
	uint32_t thread;
	uint8_t what;
	uint8_t kind;
	uint16_t site;
};

/*
 * A lock that threads wait for. Its releases are noted here, and told when another thread gets it: a thread that takes
 * and releases it again and again tells next to nothing.
 */
struct waited {
	_Atomic uint64_t word;     /* the lock's address, shifted, and how many wait */
	_Atomic uint32_t releaser; /* which thread released it last */
	_Atomic uint32_t unused;
	_Atomic uint64_t released; /* when, as a stamp */
	_Atomic uint64_t told;     /* when this was last told */
};

/* Locks that threads of several processes wait for: their words are at the same address in all of them. */
#define SHARED_SETS 256
#define WAYS 2
/* Marks the address of such a lock in an event. */
#define SHARED (1ULL << 63)

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
	_Atomic uint32_t hint;       /* the first chunk that may be free */
	_Atomic uint32_t used;       /* the chunks behind have never been used */
	_Atomic uint32_t accounts;   /* whether holders' accounts are to be told */
	_Atomic uint32_t waiting[2]; /* threads that wait for locks of several processes, and for other such things */
	char padding[4096 - 56];
	struct waited waited_for[SHARED_SETS][WAYS];
	struct head heads[CHUNKS];
	struct event events[CHUNKS][CHUNK_EVENTS];
};

_Static_assert(sizeof(struct event) == 32 && sizeof(struct head) == 64, "the layout that the command reads");
_Static_assert(sizeof(struct waited) * SHARED_SETS * WAYS == 4 * 4096, "the layout that the command reads");
_Static_assert(sizeof(struct shared) == 5 * 4096 + CHUNKS * (64 + 4096), "the layout that the command reads");

#endif
