/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls of the C library in which the kernel may let a thread sleep, in front of the library's own. Each is passed on as
 * it came, and told of afterwards if it took long. Whether its thread slept meanwhile, the kernel's records say.
 *
 * All of them take at most six words, and return one or less, so one type does for all (System V ABI for AMD64, section
 * 3.2.3). The functions have other names here, because the C library's headers declare them with their own types.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "tell.h"

typedef long call(long, long, long, long, long, long);

/* The name of each, and the system call that it makes; of the first ones, the arguments are also the same. */
#define SAME(X) \
	X(read, 0) X(write, 1) X(open, 2) X(open64, 2) X(close, 3) X(poll, 7) X(pread, 17) X(pread64, 17) \
	X(pwrite, 18) X(pwrite64, 18) X(readv, 19) X(writev, 20) X(select, 23) X(msync, 26) X(nanosleep, 35) \
	X(sendfile, 40) X(sendfile64, 40) X(connect, 42) X(accept, 43) X(sendto, 44) X(recvfrom, 45) X(sendmsg, 46) \
	X(recvmsg, 47) X(semop, 65) X(msgsnd, 69) X(msgrcv, 70) X(fcntl, 72) X(fcntl64, 72) X(flock, 73) X(fsync, 74) \
	X(fdatasync, 75) X(ftruncate, 77) X(ftruncate64, 77) X(rename, 82) X(unlink, 87) X(sync, 162) \
	X(semtimedop, 220) X(clock_nanosleep, 230) X(epoll_wait, 232) X(openat, 257) X(openat64, 257) \
	X(ppoll, 271) X(splice, 275) X(fallocate, 285) X(fallocate64, 285) X(accept4, 288) X(preadv, 295) \
	X(preadv64, 295) X(pwritev, 296) X(pwritev64, 296)
#define LIKE(X) \
	X(usleep, 35) X(sleep, 35) X(thrd_sleep, 35) X(send, 44) X(recv, 45) X(lockf, 72) X(lockf64, 72) X(waitpid, 61) \
	X(wait, 61) X(pselect, 270) X(epoll_pwait, 281) X(sigwait, 128) X(posix_fallocate, 285) \
	X(posix_fallocate64, 285) X(__read_chk, 0) X(__pread_chk, 17) X(__pread64_chk, 17) X(__recv_chk, 45) \
	X(__poll_chk, 7) X(__ppoll_chk, 271)

static struct {
#define POINTER(name, number) call *_Atomic name;
	SAME(POINTER)
	LIKE(POINTER)
} next;

void find_sleeps(void)
{
#define FIND(name, number) \
	atomic_store_explicit(&next.name, (call *)dlsym(RTLD_NEXT, #name), memory_order_relaxed);
	SAME(FIND)
	LIKE(FIND)
}

/*
 * The dynamic linker may have a library of the program's make calls before it has relocated this one, which then can
 * find no other function, and no `errno`.
 */
static long raw(long number, long one, long two, long three, long four, long five, long six)
{
	register long r10 __asm__("r10") = four, r8 __asm__("r8") = five, r9 __asm__("r9") = six;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(one), "S"(two), "d"(three), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result < 0 ? -1 : result;
}
#define NOTHING(number, ...) 0

#define PASSES(name, number, without) \
	__attribute__((visibility("default"))) call passes_##name __asm__(#name); \
	long passes_##name(long one, long two, long three, long four, long five, long six) \
	{ \
		call *passed = atomic_load_explicit(&next.name, memory_order_relaxed); \
		uint64_t began; \
		long result; \
 \
		if (__builtin_expect(passed == NULL, 0)) { \
			prepare(); \
			passed = atomic_load_explicit(&next.name, memory_order_relaxed); \
			if (passed == NULL) \
				return without(number, one, two, three, four, five, six); \
		} \
		began = stamp(); \
		result = passed(one, two, three, four, five, six); \
		if (__builtin_expect(stamp() - began > LONG, 0)) \
			tell_slept(number, (uint64_t)one, began, __builtin_return_address(0), \
				   __builtin_frame_address(0)); \
		return result; \
	}
#define PASSES_SAME(name, number) PASSES(name, number, raw)
#define PASSES_LIKE(name, number) PASSES(name, number, NOTHING)

SAME(PASSES_SAME)
LIKE(PASSES_LIKE)
