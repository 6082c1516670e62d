/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Overlock: locks for threads whose processor can be taken away.
 * C11 and C++11 or later; Linux; gcc or clang.
 *
 *     static ol_mutex_t lock = OL_MUTEX_INIT;
 *
 *     ol_mutex_lock(&lock);
 *     ...
 *     ol_mutex_unlock(&lock);
 *
 * | lock              | which thread is next                          | timed | use it for             |
 * |-------------------|-----------------------------------------------|-------|------------------------|
 * | ol_mutex_t        | the same as ol_hybrid_t                       | yes   | anything               |
 * | ol_hybrid_t       | a running thread; then first come, first      | yes   | speed, no starvation   |
 * |                   | served                                        |       |                        |
 * | ol_queued_t       | first come, first served; one try on entry    | yes   | even waiting times     |
 * | ol_ticket_t       | first come, first served, strictly            | no    | strict order           |
 * | ol_test_and_set_t | any thread that comes at the right moment     | yes   | a baseline             |
 * | ol_shared_t       | any thread that comes at the right moment     | yes   | several processes      |
 *
 * ol_rwlock_t is for many readers or one writer, ol_cond_t to wait for a condition under an ol_mutex_t. They
 * are 4 and 8 bytes, and otherwise like the locks.
 *
 * Each lock is 4 bytes, and zero bytes are an unlocked lock: static memory, calloc and
 * fresh mappings need no initialiser. No lock needs destruction.
 *
 * Rules:
 *   - The thread that took a lock releases it. A thread that takes a lock twice waits for ever.
 *     Releasing a lock that no thread holds is a bug, but leaves it free: the library counts it
 *     ("unlock_of_free") and reports it once. With OVERLOCK_CHECK=1 in the environment it reports each
 *     place, up to 16 times. A debugger can stop at ol_unlock_of_free.
 *   - A lock must not move while a thread uses it. The last thread to take it can free its memory: a
 *     release touches the lock once, and uses only its address afterwards.
 *   - ol_shared_t works between processes that map the same memory; the others within one process. It is
 *     not robust: if a process dies with the lock, or while it waits, the lock stays taken or other waiters
 *     may sleep on (a timed acquisition notices).
 *   - After fork, the child can use every lock that no other thread held at that moment.
 *   - A signal handler must not take locks, and must return to a wait that it has interrupted: neither by
 *     siglongjmp nor by pthread_exit may it leave the wait.
 *   - No function is a cancellation point, no wait for a condition either: a thread that pthread_cancel
 *     has named goes on until it has the lock, and to its next cancellation point. A thread must not be
 *     cancelled asynchronously (PTHREAD_CANCEL_ASYNCHRONOUS) inside of these functions.
 *   - No function changes errno.
 *
 * Functions that can fail return 0 or an error number, like those of POSIX threads.
 */
#ifndef OVERLOCK_H
#define OVERLOCK_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#if !defined(__GNUC__)
#error "overlock.h needs the __atomic builtins of gcc and clang"
#endif

/* The version of this header. ol_version() returns that of the library. */
#define OL_VERSION_MAJOR 0
#define OL_VERSION_MINOR 1
#define OL_VERSION_PATCH 0
#define OL_VERSION "0.1.0"

/* The thread sanitizer sees the atomic operations that are inline here, but not those of the library.
 * So the header announces what a slow path has acquired; the sanitizer itself sees what a release publishes. */
#ifndef OL_DETAIL_ACQUIRED
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define OL_DETAIL_TSAN
#endif
#elif defined(__SANITIZE_THREAD__)
#define OL_DETAIL_TSAN
#endif
#ifdef OL_DETAIL_TSAN
#include <sanitizer/tsan_interface.h>
#define OL_DETAIL_ACQUIRED(lock) __tsan_acquire(lock)
#define OL_DETAIL_RELEASES(lock) __tsan_release(lock)
#else
#define OL_DETAIL_ACQUIRED(lock) ((void)(lock))
#define OL_DETAIL_RELEASES(lock) ((void)(lock))
#endif
#endif
#ifndef OL_DETAIL_RELEASES
#define OL_DETAIL_RELEASES(lock) ((void)(lock))
#endif

#ifdef __cplusplus
#define OL_INLINE inline
#define OL_DETAIL_U16(number) static_cast<uint16_t>(number)
extern "C" {
#else
#define OL_INLINE static inline
#define OL_DETAIL_U16(number) ((uint16_t)(number))
#endif
#define OL_SLOW __attribute__((cold, nothrow))
#define OL_CHECKED __attribute__((warn_unused_result))

/* ---- The locks ------------------------------------------------------------------------------- */

typedef struct { uint32_t word; } ol_test_and_set_t;
typedef struct { uint16_t head, tail; } ol_ticket_t;
typedef struct { uint32_t word; } ol_queued_t;
typedef struct { uint32_t word; } ol_hybrid_t;
typedef struct { uint32_t word; } ol_shared_t;
typedef ol_hybrid_t ol_mutex_t;

#define OL_TEST_AND_SET_INIT { 0 }
#define OL_TICKET_INIT { 0, 0 }
#define OL_QUEUED_INIT { 0 }
#define OL_HYBRID_INIT { 0 }
#define OL_SHARED_INIT { 0 }
#define OL_MUTEX_INIT OL_HYBRID_INIT

/* ---- The process ----------------------------------------------------------------------------- */

/* Switches halting off: locks then only spin, which is right where every thread has its own core. Call
 * this before the first use of a lock: once a thread has waited for a lock, halting can be switched
 * neither off (EBUSY) nor on again. ol_shared_t always halts. */
int ol_set_waiting(bool on);

/* Returns the version of the linked library; OL_VERSION is that of the header. If their first two
 * numbers differ, the program must be compiled again. */
const char *ol_version(void);

/* Returns the name of counter number `index`, or NULL past the last one:
 *     for (size_t i = 0; (name = ol_counter_name(i)) != NULL; i++) ... */
const char *ol_counter_name(size_t index);

/* Writes to `count` how often an event has happened since the start, to the locks that these
 * functions took or released. Uncontended paths count nothing. Returns 0, or EINVAL if there is no
 * such event. */
int ol_counter(const char *name, uint64_t *count);

/* ---- The lock words, as the library defines them ---------------------------------------------- */

/* The bits that an acquisition sets, and those with which a release calls its slow half. */
#define OL_TEST_AND_SET_TAKE 1u
#define OL_TEST_AND_SET_SLOW 2u
#define OL_TICKET_TAKE 2u
#define OL_TICKET_SLOW 1u
#define OL_TICKET_NONE 0xffffffffu
#define OL_QUEUED_TAKE 1u
#define OL_QUEUED_SLOW 73728u
#define OL_HYBRID_TAKE 1u
#define OL_HYBRID_SLOW 73728u
#define OL_DETAIL_WAKES 65536u
#define OL_SHARED_TAKE OL_TEST_AND_SET_TAKE
#define OL_SHARED_SLOW OL_TEST_AND_SET_SLOW
#define OL_MUTEX_TAKE OL_HYBRID_TAKE
#define OL_MUTEX_SLOW OL_HYBRID_SLOW

/* Slow paths: not for direct use. The inline functions below call them. */
OL_SLOW void ol_unlock_of_free(void);
OL_SLOW void ol_test_and_set_lock_slow(ol_test_and_set_t *lock, uint32_t unused);
OL_SLOW int ol_test_and_set_trylock_slow(ol_test_and_set_t *lock);
OL_SLOW int ol_test_and_set_timedlock_slow(ol_test_and_set_t *lock, int64_t s, int64_t ns);
OL_SLOW void ol_test_and_set_unlock_slow(ol_test_and_set_t *lock, uint32_t before);
OL_SLOW void ol_ticket_lock_slow(ol_ticket_t *lock, uint32_t ticket);
OL_SLOW void ol_ticket_unlock_slow(ol_ticket_t *lock, uint32_t before);
OL_SLOW void ol_queued_lock_slow(ol_queued_t *lock, uint32_t unused);
OL_SLOW int ol_queued_trylock_slow(ol_queued_t *lock);
OL_SLOW int ol_queued_timedlock_slow(ol_queued_t *lock, int64_t s, int64_t ns);
OL_SLOW void ol_queued_unlock_slow(ol_queued_t *lock, uint32_t before);
OL_SLOW void ol_hybrid_lock_slow(ol_hybrid_t *lock, uint32_t unused);
OL_SLOW int ol_hybrid_trylock_slow(ol_hybrid_t *lock);
OL_SLOW int ol_hybrid_timedlock_slow(ol_hybrid_t *lock, int64_t s, int64_t ns);
OL_SLOW void ol_hybrid_unlock_slow(ol_hybrid_t *lock, uint32_t before);
OL_SLOW void ol_shared_lock_slow(ol_shared_t *lock, uint32_t unused);
OL_SLOW int ol_shared_trylock_slow(ol_shared_t *lock);
OL_SLOW int ol_shared_timedlock_slow(ol_shared_t *lock, int64_t s, int64_t ns);
OL_SLOW void ol_shared_unlock_slow(ol_shared_t *lock, uint32_t before);

/* The library reports the place to which it returns: so this is neither a jump nor a function of its own. */
OL_INLINE __attribute__((always_inline)) void ol_detail_unlock_of_free(void)
{
    ol_unlock_of_free();
    __asm__ volatile("");
}

/* ORDERING, here and below: every acquisition is Acquire, with the Release of every release. */
OL_INLINE bool ol_detail_take(uint32_t *word, uint32_t take)
{
    uint32_t free = 0;
    return __atomic_compare_exchange_n(word, &free, take, false, __ATOMIC_ACQUIRE,
                                       __ATOMIC_RELAXED);
}

/* As above, but leaves the cache line alone if the lock is taken: for callers that do not wait. */
OL_INLINE bool ol_detail_try_take(uint32_t *word, uint32_t take)
{
    return __atomic_load_n(word, __ATOMIC_RELAXED) == 0 && ol_detail_take(word, take);
}

/* Clears `take` and the mark of sleeping waiters in the word of a held lock and returns the word before. If no thread
 * holds the lock, it reports
 * that, changes nothing and returns 0. The first guess is a lock without waiters, because to load a word
 * that a locked instruction has just written costs a third of an uncontended pair.
 * ORDERING, here and below: every release is Release, with the Acquire of the next acquisition. */
OL_INLINE uint32_t ol_detail_release(uint32_t *word, uint32_t take)
{
    uint32_t before = take;
    while (!__atomic_compare_exchange_n(word, &before, (before - take) & ~OL_DETAIL_WAKES, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        if (!(before & take)) {
            ol_detail_unlock_of_free();
            return 0;
        }
    }
    return before;
}

/* Returns a slow path's result, and announces the acquisition if that is 0. */
OL_INLINE int ol_detail_taken(void *lock, int error)
{
    if (error == 0)
        OL_DETAIL_ACQUIRED(lock);
    return error;
}

/* A time in numbers of one size, whatever the size of time_t here and in the library. NULL becomes a time
 * with invalid nanoseconds. */
OL_INLINE int64_t ol_detail_s(const struct timespec *at) { return at != NULL ? at->tv_sec : 0; }
OL_INLINE int64_t ol_detail_ns(const struct timespec *at) { return at != NULL ? at->tv_nsec : -1; }

/* ---- The functions ------------------------------------------------------------------------------
 *
 * void ol_X_lock(ol_X_t *lock)
 *     Takes the lock; waits as long as necessary.
 * int ol_X_trylock(ol_X_t *lock)
 *     Takes the lock and returns 0, or returns EBUSY if that is not possible at once.
 * int ol_X_timedlock(ol_X_t *lock, const struct timespec *at)
 *     Takes the lock and returns 0. Returns ETIMEDOUT if CLOCK_MONOTONIC has reached `at` before the
 *     lock could be taken; EINVAL if it is not free and `at` is NULL or its nanoseconds are not below
 *     a second.
 * void ol_X_unlock(ol_X_t *lock)
 *     Releases the lock, which the caller holds.
 *
 * Uncontended, each is one atomic read-modify-write and no call (for tickets: and two loads), but for
 * up to 16 uses of a hybrid lock after some of its contended ones, which is then timed.
 */

/* The hybrid lock: unfair while that pays, orderly before it hurts. At most 4,095 acquisitions pass a
 * waiter while it is the queue head. */
OL_INLINE void ol_hybrid_lock(ol_hybrid_t *lock)
{
    if (!ol_detail_take(&lock->word, OL_HYBRID_TAKE)) {
        ol_hybrid_lock_slow(lock, 0);
        OL_DETAIL_ACQUIRED(lock);
    }
}

OL_INLINE OL_CHECKED int ol_hybrid_trylock(ol_hybrid_t *lock)
{
    if (ol_detail_try_take(&lock->word, OL_HYBRID_TAKE))
        return 0;
    return ol_detail_taken(lock, ol_hybrid_trylock_slow(lock));
}

OL_INLINE OL_CHECKED int ol_hybrid_timedlock(ol_hybrid_t *lock, const struct timespec *at)
{
    if (ol_detail_take(&lock->word, OL_HYBRID_TAKE))
        return 0;
    return ol_detail_taken(lock, ol_hybrid_timedlock_slow(lock, ol_detail_s(at), ol_detail_ns(at)));
}

OL_INLINE void ol_hybrid_unlock(ol_hybrid_t *lock)
{
    uint32_t before = ol_detail_release(&lock->word, OL_HYBRID_TAKE);
    if (before & OL_HYBRID_SLOW)
        ol_hybrid_unlock_slow(lock, before);
}

/* The default lock is the hybrid one. */
OL_INLINE void ol_mutex_lock(ol_mutex_t *lock) { ol_hybrid_lock(lock); }
OL_INLINE OL_CHECKED int ol_mutex_trylock(ol_mutex_t *lock) { return ol_hybrid_trylock(lock); }
OL_INLINE OL_CHECKED int ol_mutex_timedlock(ol_mutex_t *lock, const struct timespec *at)
{
    return ol_hybrid_timedlock(lock, at);
}
OL_INLINE void ol_mutex_unlock(ol_mutex_t *lock) { ol_hybrid_unlock(lock); }

/* The queued lock: one queue, served in order; a newcomer tries once to take the lock on entry. */
OL_INLINE void ol_queued_lock(ol_queued_t *lock)
{
    if (!ol_detail_take(&lock->word, OL_QUEUED_TAKE)) {
        ol_queued_lock_slow(lock, 0);
        OL_DETAIL_ACQUIRED(lock);
    }
}

OL_INLINE OL_CHECKED int ol_queued_trylock(ol_queued_t *lock)
{
    if (ol_detail_try_take(&lock->word, OL_QUEUED_TAKE))
        return 0;
    return ol_detail_taken(lock, ol_queued_trylock_slow(lock));
}

OL_INLINE OL_CHECKED int ol_queued_timedlock(ol_queued_t *lock, const struct timespec *at)
{
    if (ol_detail_take(&lock->word, OL_QUEUED_TAKE))
        return 0;
    return ol_detail_taken(lock, ol_queued_timedlock_slow(lock, ol_detail_s(at), ol_detail_ns(at)));
}

OL_INLINE void ol_queued_unlock(ol_queued_t *lock)
{
    uint32_t before = ol_detail_release(&lock->word, OL_QUEUED_TAKE);
    if (before & OL_QUEUED_SLOW)
        ol_queued_unlock_slow(lock, before);
}

/* The ticket lock: first come, first served, among the first 8,191 threads of a process. It has no
 * timed acquisition, because a ticket can't be handed back. */
OL_INLINE OL_CHECKED int ol_ticket_trylock(ol_ticket_t *lock)
{
    /* ORDERING: drawing a ticket decides an order only; the load that finds it served acquires. */
    uint32_t head = __atomic_load_n(&lock->head, __ATOMIC_RELAXED) & ~OL_TICKET_SLOW;
    uint16_t ticket = OL_DETAIL_U16(head);
    uint16_t next = OL_DETAIL_U16(head + OL_TICKET_TAKE);
    if (!__atomic_compare_exchange_n(&lock->tail, &ticket, next, false, __ATOMIC_RELAXED,
                                     __ATOMIC_RELAXED))
        return EBUSY;
    /* The tickets may have wrapped around since `head` was read; then this one has to wait. */
    if ((__atomic_load_n(&lock->head, __ATOMIC_ACQUIRE) & ~OL_TICKET_SLOW) != head) {
        ol_ticket_lock_slow(lock, head);
        OL_DETAIL_ACQUIRED(lock);
    }
    return 0;
}

OL_INLINE void ol_ticket_lock(ol_ticket_t *lock)
{
    if (ol_ticket_trylock(lock) != 0) {
        ol_ticket_lock_slow(lock, OL_TICKET_NONE);
        OL_DETAIL_ACQUIRED(lock);
    }
}

OL_INLINE void ol_ticket_unlock(ol_ticket_t *lock)
{
    /* ORDERING: Acquire, so that the tail is loaded after the head; the release is Release. */
    uint16_t before = __atomic_load_n(&lock->head, __ATOMIC_ACQUIRE);
    do {
        if (__atomic_load_n(&lock->tail, __ATOMIC_RELAXED) == (before & ~OL_TICKET_SLOW)) {
            ol_detail_unlock_of_free();
            return;
        }
    } while (!__atomic_compare_exchange_n(&lock->head, &before, OL_DETAIL_U16(before + OL_TICKET_TAKE), true,
                                          __ATOMIC_RELEASE, __ATOMIC_ACQUIRE));
    if (before & OL_TICKET_SLOW)
        ol_ticket_unlock_slow(lock, before);
}

/* The test-and-set lock: any thread that comes at the right moment takes it. A waiter can be passed any
 * number of times. */
OL_INLINE void ol_test_and_set_lock(ol_test_and_set_t *lock)
{
    if (!ol_detail_take(&lock->word, OL_TEST_AND_SET_TAKE)) {
        ol_test_and_set_lock_slow(lock, 0);
        OL_DETAIL_ACQUIRED(lock);
    }
}

OL_INLINE OL_CHECKED int ol_test_and_set_trylock(ol_test_and_set_t *lock)
{
    if (ol_detail_try_take(&lock->word, OL_TEST_AND_SET_TAKE))
        return 0;
    return ol_detail_taken(lock, ol_test_and_set_trylock_slow(lock));
}

OL_INLINE OL_CHECKED int ol_test_and_set_timedlock(ol_test_and_set_t *lock,
                                                   const struct timespec *at)
{
    if (ol_detail_take(&lock->word, OL_TEST_AND_SET_TAKE))
        return 0;
    return ol_detail_taken(lock, ol_test_and_set_timedlock_slow(lock, ol_detail_s(at), ol_detail_ns(at)));
}

OL_INLINE void ol_test_and_set_unlock(ol_test_and_set_t *lock)
{
    uint32_t before = __atomic_exchange_n(&lock->word, 0u, __ATOMIC_RELEASE);
    if (before & OL_TEST_AND_SET_SLOW)
        ol_test_and_set_unlock_slow(lock, before);
    else if (before == 0)
        ol_detail_unlock_of_free();
}

/* The lock for memory that several processes map: a test-and-set lock whose waiters the kernel
 * finds by the page behind the address. */
OL_INLINE void ol_shared_lock(ol_shared_t *lock)
{
    if (!ol_detail_take(&lock->word, OL_SHARED_TAKE)) {
        ol_shared_lock_slow(lock, 0);
        OL_DETAIL_ACQUIRED(lock);
    }
}

OL_INLINE OL_CHECKED int ol_shared_trylock(ol_shared_t *lock)
{
    if (ol_detail_try_take(&lock->word, OL_SHARED_TAKE))
        return 0;
    return ol_detail_taken(lock, ol_shared_trylock_slow(lock));
}

OL_INLINE OL_CHECKED int ol_shared_timedlock(ol_shared_t *lock, const struct timespec *at)
{
    if (ol_detail_take(&lock->word, OL_SHARED_TAKE))
        return 0;
    return ol_detail_taken(lock, ol_shared_timedlock_slow(lock, ol_detail_s(at), ol_detail_ns(at)));
}

OL_INLINE void ol_shared_unlock(ol_shared_t *lock)
{
    uint32_t before = __atomic_exchange_n(&lock->word, 0u, __ATOMIC_RELEASE);
    if (before & OL_SHARED_SLOW)
        ol_shared_unlock_slow(lock, before);
    else if (before == 0)
        ol_detail_unlock_of_free();
}

/* ---- Readers and writers, conditions -------------------------------------------------------------
 *
 * ol_rwlock_t: many readers or one writer. Where both readers and writers wait, they take turns: neither starve.
 * A thread that reads already and reads once more calls ol_rwlock_rdlock_again: ol_rwlock_rdlock may wait for a
 * writer that waits for it.
 *
 * ol_cond_t: all its waiters use the same mutex. The thread that has slept longest is woken first; a
 * broadcast wakes all at once. A wait may return 0 without a signal, so it stands in a loop. No wait is a
 * cancellation point. The waker need not hold the mutex. The memory is used until the last wait has returned.
 *
 * `...timed...` takes a time on CLOCK_MONOTONIC, `...clock...` on CLOCK_MONOTONIC or CLOCK_REALTIME: they
 * return ETIMEDOUT if the clock has reached it first; EINVAL if `at` is NULL, its nanoseconds are not below
 * a second, or the clock is another one (a read-write lock that is free is taken all the same). If
 * CLOCK_REALTIME is set forward during a wait, the wait ends when it would have ended before.
 */

typedef struct { uint32_t word; } ol_rwlock_t;
typedef struct { uint32_t words[9]; } ol_cond_t;

#define OL_RWLOCK_INIT { 0 }
#define OL_COND_INIT { { 0, 0, 0, 0, 0, 0, 0, 0, 0 } }

/* CLOCK_MONOTONIC and clockid_t as Linux defines them: strict C11 hides both. */
#define OL_DETAIL_MONOTONIC 1

/* Not for direct use. The inline functions below call them. */
#define OL_DETAIL_CALLED __attribute__((nothrow))
OL_DETAIL_CALLED void ol_rwlock_read(ol_rwlock_t *lock);
OL_DETAIL_CALLED void ol_rwlock_read_again(ol_rwlock_t *lock);
OL_DETAIL_CALLED int ol_rwlock_try_read(ol_rwlock_t *lock);
OL_DETAIL_CALLED int ol_rwlock_timed_read(ol_rwlock_t *lock, int clock, int64_t s, int64_t ns);
OL_DETAIL_CALLED void ol_rwlock_leave_read(ol_rwlock_t *lock);
OL_DETAIL_CALLED void ol_rwlock_write(ol_rwlock_t *lock);
OL_DETAIL_CALLED int ol_rwlock_try_write(ol_rwlock_t *lock);
OL_DETAIL_CALLED int ol_rwlock_timed_write(ol_rwlock_t *lock, int clock, int64_t s, int64_t ns);
OL_DETAIL_CALLED void ol_rwlock_leave_write(ol_rwlock_t *lock);
OL_DETAIL_CALLED void ol_cond_sleep(ol_cond_t *cond, ol_mutex_t *mutex);
OL_DETAIL_CALLED int ol_cond_timed_sleep(ol_cond_t *cond, ol_mutex_t *mutex, int clock, int64_t s,
                                         int64_t ns);
OL_DETAIL_CALLED void ol_cond_wake_one(ol_cond_t *cond);
OL_DETAIL_CALLED void ol_cond_wake_all(ol_cond_t *cond);

OL_INLINE void ol_rwlock_rdlock(ol_rwlock_t *lock)
{
    ol_rwlock_read(lock);
    OL_DETAIL_ACQUIRED(lock);
}

OL_INLINE OL_CHECKED int ol_rwlock_tryrdlock(ol_rwlock_t *lock)
{
    return ol_detail_taken(lock, ol_rwlock_try_read(lock));
}

OL_INLINE OL_CHECKED int ol_rwlock_clockrdlock(ol_rwlock_t *lock, int clock,
                                              const struct timespec *at)
{
    return ol_detail_taken(lock, ol_rwlock_timed_read(lock, clock, ol_detail_s(at), ol_detail_ns(at)));
}

OL_INLINE OL_CHECKED int ol_rwlock_timedrdlock(ol_rwlock_t *lock, const struct timespec *at)
{
    return ol_rwlock_clockrdlock(lock, OL_DETAIL_MONOTONIC, at);
}

OL_INLINE void ol_rwlock_rdunlock(ol_rwlock_t *lock)
{
    OL_DETAIL_RELEASES(lock);
    ol_rwlock_leave_read(lock);
}

/* Reads past writers that wait: for a thread that may read already. */
OL_INLINE void ol_rwlock_rdlock_again(ol_rwlock_t *lock)
{
    ol_rwlock_read_again(lock);
    OL_DETAIL_ACQUIRED(lock);
}

OL_INLINE void ol_rwlock_wrlock(ol_rwlock_t *lock)
{
    ol_rwlock_write(lock);
    OL_DETAIL_ACQUIRED(lock);
}

OL_INLINE OL_CHECKED int ol_rwlock_trywrlock(ol_rwlock_t *lock)
{
    return ol_detail_taken(lock, ol_rwlock_try_write(lock));
}

OL_INLINE OL_CHECKED int ol_rwlock_clockwrlock(ol_rwlock_t *lock, int clock,
                                              const struct timespec *at)
{
    return ol_detail_taken(lock, ol_rwlock_timed_write(lock, clock, ol_detail_s(at), ol_detail_ns(at)));
}

OL_INLINE OL_CHECKED int ol_rwlock_timedwrlock(ol_rwlock_t *lock, const struct timespec *at)
{
    return ol_rwlock_clockwrlock(lock, OL_DETAIL_MONOTONIC, at);
}

OL_INLINE void ol_rwlock_wrunlock(ol_rwlock_t *lock)
{
    OL_DETAIL_RELEASES(lock);
    ol_rwlock_leave_write(lock);
}

/* Releases the mutex, which the caller holds, waits for a signal, and takes the mutex again. */
OL_INLINE void ol_cond_wait(ol_cond_t *cond, ol_mutex_t *mutex)
{
    OL_DETAIL_RELEASES(mutex);
    ol_cond_sleep(cond, mutex);
    OL_DETAIL_ACQUIRED(mutex);
}

/* Also holds the mutex when it returns an error. */
OL_INLINE OL_CHECKED int ol_cond_clockwait(ol_cond_t *cond, ol_mutex_t *mutex, int clock,
                                           const struct timespec *at)
{
    OL_DETAIL_RELEASES(mutex);
    int error = ol_cond_timed_sleep(cond, mutex, clock, ol_detail_s(at), ol_detail_ns(at));
    OL_DETAIL_ACQUIRED(mutex);
    return error;
}

OL_INLINE OL_CHECKED int ol_cond_timedwait(ol_cond_t *cond, ol_mutex_t *mutex, const struct timespec *at)
{
    return ol_cond_clockwait(cond, mutex, OL_DETAIL_MONOTONIC, at);
}

/* Wakes the thread that has waited longest, if there is one. */
OL_INLINE void ol_cond_signal(ol_cond_t *cond) { ol_cond_wake_one(cond); }

/* Wakes all threads that wait. */
OL_INLINE void ol_cond_broadcast(ol_cond_t *cond) { ol_cond_wake_all(cond); }

#ifdef __cplusplus
} /* extern "C" */

/* ---- C++ ----------------------------------------------------------------------------------------
 *
 * Classes that std::lock_guard, std::unique_lock, std::scoped_lock and std::lock take:
 *
 *     static overlock::mutex lock;
 *     std::lock_guard<overlock::mutex> guard(lock);
 *
 * All are Lockable; all but `ticket` are TimedLockable. They are constant-initialised and hold
 * nothing but the C lock.
 */

#include <chrono>

namespace overlock {

/* A lock, given its C functions. */
template <class C, void (*Lock)(C *), int (*TryLock)(C *), void (*Unlock)(C *)>
class basic_lock {
public:
    constexpr basic_lock() noexcept = default;
    basic_lock(const basic_lock &) = delete;
    basic_lock &operator=(const basic_lock &) = delete;

    void lock() noexcept { Lock(&lock_); }
    bool try_lock() noexcept { return TryLock(&lock_) == 0; }
    void unlock() noexcept { Unlock(&lock_); }

    /* The C lock, for C code that also takes it. */
    using native_handle_type = C *;
    native_handle_type native_handle() noexcept { return &lock_; }

private:
    C lock_ = {};
};

/* A lock, given its C functions, whose waiters can give up. */
template <class C, void (*Lock)(C *), int (*TryLock)(C *), int (*TimedLock)(C *, const timespec *),
          void (*Unlock)(C *)>
class timed_lock : public basic_lock<C, Lock, TryLock, Unlock> {
public:
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &time)
    {
        using namespace std::chrono;
        using exact = duration<long double>;
        if (!(time > time.zero()))
            return this->try_lock();
        /* Into the clock's integers before it is added: a float that holds the uptime has coarse steps. */
        const auto now = steady_clock::now();
        const auto most = steady_clock::time_point::max() - now;
        if (!(exact(time) < exact(most)))
            return try_lock_until(steady_clock::time_point::max());
        auto wait = duration_cast<steady_clock::duration>(time);
        if (exact(wait) < exact(time))
            ++wait;
        return try_lock_until(now + wait);
    }

    /* Waits by the steady clock, and reads `Clock` again afterwards, because it may have been set. */
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &at)
    {
        for (auto now = Clock::now(); now < at; now = Clock::now()) {
            if (try_lock_within(at - now))
                return true;
        }
        return this->try_lock();
    }

private:
    /* Waits for a positive time, but at most for an hour. */
    template <class Rep, class Period>
    bool try_lock_within(const std::chrono::duration<Rep, Period> &time)
    {
        using namespace std::chrono;
        const nanoseconds wait = time < hours(1) ? duration_cast<nanoseconds>(time) : hours(1);
        /* The steady clock of libstdc++ and libc++ is CLOCK_MONOTONIC. */
        const auto at = duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()) + wait;
        const auto s = duration_cast<seconds>(at);
        timespec until = {};
        until.tv_sec = static_cast<decltype(until.tv_sec)>(s.count());
        until.tv_nsec = static_cast<decltype(until.tv_nsec)>((at - s).count());
        return TimedLock(this->native_handle(), &until) == 0;
    }
};

using hybrid = timed_lock<ol_hybrid_t, ol_hybrid_lock, ol_hybrid_trylock, ol_hybrid_timedlock,
                          ol_hybrid_unlock>;
using queued = timed_lock<ol_queued_t, ol_queued_lock, ol_queued_trylock, ol_queued_timedlock,
                          ol_queued_unlock>;
using ticket = basic_lock<ol_ticket_t, ol_ticket_lock, ol_ticket_trylock, ol_ticket_unlock>;
using test_and_set = timed_lock<ol_test_and_set_t, ol_test_and_set_lock, ol_test_and_set_trylock,
                                ol_test_and_set_timedlock, ol_test_and_set_unlock>;
using shared = timed_lock<ol_shared_t, ol_shared_lock, ol_shared_trylock, ol_shared_timedlock,
                          ol_shared_unlock>;
using mutex = hybrid;

/* For std::shared_lock, std::unique_lock and their like. std::condition_variable_any waits with any class here:
 *     std::unique_lock<overlock::mutex> guard(lock);
 *     changed.wait(guard, [] { return is_ready; });
 */
class shared_mutex : public timed_lock<ol_rwlock_t, ol_rwlock_wrlock, ol_rwlock_trywrlock,
                                       ol_rwlock_timedwrlock, ol_rwlock_wrunlock> {
public:
    void lock_shared() noexcept { ol_rwlock_rdlock(this->native_handle()); }
    bool try_lock_shared() noexcept { return ol_rwlock_tryrdlock(this->native_handle()) == 0; }
    void unlock_shared() noexcept { ol_rwlock_rdunlock(this->native_handle()); }
};

} /* namespace overlock */
#endif

#undef OL_INLINE
#undef OL_SLOW
#undef OL_DETAIL_CALLED
#undef OL_DETAIL_U16
#undef OL_CHECKED
#endif
