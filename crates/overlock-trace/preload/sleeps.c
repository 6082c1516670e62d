/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls of the C library in which the kernel may let a thread sleep, in front of the library's own. Each is passed on
 * as it came, and told of afterwards if it took long. Whether its thread slept meanwhile, the kernel's records say.
 *
 * All of them take at most six words and return one or less, so one way is good for all (System V ABI for AMD64,
 * section 3.2.3). It is written in assembly language: a look at a thread that sleeps knows its stack pointer only, and
 * finds the callers of functions that need no other register for that.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>

#include "tell.h"

#define TEXT(what) #what
#define TEXT_OF(macro) TEXT(macro)

/* The name of each, and the system call that it makes; of the first ones, the arguments are also the same. */
#define SAME(X) \
	X(read, 0) X(write, 1) X(open, 2) X(open64, 2) X(close, 3) X(poll, 7) X(pread, 17) X(pread64, 17) \
	X(pwrite, 18) X(pwrite64, 18) X(readv, 19) X(writev, 20) X(select, 23) X(msync, 26) X(nanosleep, 35) \
	X(sendfile, 40) X(sendfile64, 40) X(connect, 42) X(accept, 43) X(sendto, 44) X(recvfrom, 45) X(sendmsg, 46) \
	X(recvmsg, 47) X(semop, 65) X(msgsnd, 69) X(msgrcv, 70) X(fcntl, 72) X(fcntl64, 72) X(flock, 73) X(fsync, 74) \
	X(fdatasync, 75) X(ftruncate, 77) X(ftruncate64, 77) X(rename, 82) X(unlink, 87) X(sync, 162) \
	X(semtimedop, 220) X(clock_nanosleep, 230) X(epoll_wait, 232) X(openat, 257) X(openat64, 257) X(splice, 275) \
	X(fallocate, 285) X(fallocate64, 285) X(accept4, 288) X(preadv, 295) X(preadv64, 295) X(pwritev, 296) \
	X(pwritev64, 296)
#define LIKE(X) \
	X(usleep, 35) X(sleep, 35) X(thrd_sleep, 35) X(send, 44) X(recv, 45) X(wait, 61) X(waitpid, 61) X(lockf, 72) \
	X(lockf64, 72) X(sigwait, 128) X(pselect, 270) X(ppoll, 271) X(epoll_pwait, 281) X(posix_fallocate, 285) \
	X(posix_fallocate64, 285) X(__read_chk, 0) X(__pread_chk, 17) X(__pread64_chk, 17) X(__recv_chk, 45) \
	X(__poll_chk, 7) X(__ppoll_chk, 271)

typedef long function(long, long, long, long, long, long);

/* A call, as `overlock_passes` knows it. */
struct call {
	function *_Atomic next;
	uint64_t number;
	bool is_same;
};

_Static_assert(offsetof(struct call, next) == 0 && offsetof(struct call, number) == 8, "as `overlock_passes` has it");

#define ENTRY(which, of, same) \
	struct call overlock_call_##which __attribute__((used)) = {.number = of, .is_same = same};
#define ENTRY_SAME(which, of) ENTRY(which, of, true)
#define ENTRY_LIKE(which, of) ENTRY(which, of, false)
SAME(ENTRY_SAME)
LIKE(ENTRY_LIKE)

void find_sleeps(void)
{
#define FIND(name, number) \
	atomic_store_explicit(&overlock_call_##name.next, (function *)dlsym(RTLD_NEXT, #name), memory_order_relaxed);
	SAME(FIND)
	LIKE(FIND)
}

/*
 * Makes a call for which no function has been found yet. The dynamic linker may have a library of the program's make it
 * before it has relocated this one, which then can find none, and has no `errno`.
 */
__attribute__((used)) long overlock_first(long one, long two, long three, long four, long five, long six,
					  struct call *call)
{
	register long r10 __asm__("r10") = four, r8 __asm__("r8") = five, r9 __asm__("r9") = six;
	function *next;
	long result;

	prepare();
	next = atomic_load_explicit(&call->next, memory_order_relaxed);
	if (next != NULL)
		return next(one, two, three, four, five, six);
	if (!call->is_same)
		return 0;
	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(call->number), "D"(one), "S"(two), "d"(three), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result < 0 ? -1 : result;
}

/*
 * Passes a call on, with R11 for what is known of it. Without a counter to stamp by, nothing is told. R12 is the stamp
 * before, and R13 the first argument. The saved RBP and the return address are the frame that `tell_slept` wants.
 */
__asm__(".text\n"
	".p2align 4\n"
	".type overlock_passes, @function\n"
	"overlock_passes:\n"
	".cfi_startproc\n"
	"	cmpq $0, (%r11)\n"
	"	je 3f\n"
	"	cmpb $0, has_counter(%rip)\n"
	"	je 4f\n"
	".cfi_remember_state\n"
	"	push %rbp\n"
	".cfi_adjust_cfa_offset 8\n"
	".cfi_rel_offset %rbp, 0\n"
	"	push %rbx\n"
	".cfi_adjust_cfa_offset 8\n"
	".cfi_rel_offset %rbx, 0\n"
	"	push %r12\n"
	".cfi_adjust_cfa_offset 8\n"
	".cfi_rel_offset %r12, 0\n"
	"	push %r13\n"
	".cfi_adjust_cfa_offset 8\n"
	".cfi_rel_offset %r13, 0\n"
	"	sub $8, %rsp\n"
	".cfi_adjust_cfa_offset 8\n"
	"	mov %r11, %rbx\n"
	"	mov %rdi, %r13\n"
	"	mov %rdx, %r12\n"
	"	rdtsc\n"
	"	shl $32, %rdx\n"
	"	or %rdx, %rax\n"
	"	mov %r12, %rdx\n"
	"	mov %rax, %r12\n"
	"	call *(%rbx)\n"
	"	mov %rax, (%rsp)\n"
	"	rdtsc\n"
	"	shl $32, %rdx\n"
	"	or %rdx, %rax\n"
	"	sub %r12, %rax\n"
	"	cmp $" TEXT_OF(LONG) ", %rax\n"
	"	jbe 2f\n"
	"	mov 8(%rbx), %rdi\n"
	"	mov %r13, %rsi\n"
	"	mov %r12, %rdx\n"
	"	mov 40(%rsp), %rcx\n"
	"	lea 32(%rsp), %r8\n"
	"	mov (%rsp), %r9\n"
	"	call tell_slept\n"
	"2:	mov (%rsp), %rax\n"
	"	add $8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n"
	"	pop %r13\n"
	".cfi_adjust_cfa_offset -8\n"
	"	pop %r12\n"
	".cfi_adjust_cfa_offset -8\n"
	"	pop %rbx\n"
	".cfi_adjust_cfa_offset -8\n"
	"	pop %rbp\n"
	".cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	".cfi_restore_state\n"
	"3:	push %r11\n"
	".cfi_adjust_cfa_offset 8\n"
	"	call overlock_first\n"
	"	add $8, %rsp\n"
	".cfi_adjust_cfa_offset -8\n"
	"	ret\n"
	"4:	jmp *(%r11)\n"
	".cfi_endproc\n"
	".size overlock_passes, . - overlock_passes\n");

#define PASSES(name, number) \
	__asm__(".globl " #name "\n" \
		".type " #name ", @function\n" \
		#name ":\n" \
		".cfi_startproc\n" \
		"	endbr64\n" \
		"	lea overlock_call_" #name "(%rip), %r11\n" \
		"	jmp overlock_passes\n" \
		".cfi_endproc\n" \
		".size " #name ", . - " #name "\n");
SAME(PASSES)
LIKE(PASSES)
