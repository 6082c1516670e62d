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

/* The name of each, and the system call that it makes; of the first ones, all or four arguments are the same, too. */
#define SAME(X) \
	X(read, 0) X(write, 1) X(open, 2) X(open64, 2) X(close, 3) X(poll, 7) X(pread, 17) X(pread64, 17) \
	X(pwrite, 18) X(pwrite64, 18) X(readv, 19) X(writev, 20) X(select, 23) X(msync, 26) X(nanosleep, 35) \
	X(sendfile, 40) X(sendfile64, 40) X(connect, 42) X(accept, 43) X(sendto, 44) X(recvfrom, 45) X(sendmsg, 46) \
	X(recvmsg, 47) X(semop, 65) X(msgsnd, 69) X(msgrcv, 70) X(fcntl, 72) X(fcntl64, 72) X(flock, 73) X(fsync, 74) \
	X(fdatasync, 75) X(ftruncate, 77) X(ftruncate64, 77) X(rename, 82) X(unlink, 87) X(sync, 162) \
	X(semtimedop, 220) X(clock_nanosleep, 230) X(epoll_wait, 232) X(openat, 257) X(openat64, 257) X(splice, 275) \
	X(fallocate, 285) X(fallocate64, 285) X(accept4, 288) X(preadv, 295) X(preadv64, 295) X(pwritev, 296) \
	X(pwritev64, 296) X(__read_chk, 0) X(__pread_chk, 17) X(__pread64_chk, 17) X(__poll_chk, 7) X(__open_2, 2) \
	X(__open64_2, 2) X(__openat_2, 257) X(__openat64_2, 257)
#define FOUR(X) X(send, 44) X(recv, 45) X(__recv_chk, 45)
#define LIKE(X) \
	X(usleep, 35) X(sleep, 35) X(thrd_sleep, 35) X(wait, 61) X(waitpid, 61) X(lockf, 72) \
	X(lockf64, 72) X(sigwait, 128) X(pselect, 270) X(ppoll, 271) X(epoll_pwait, 281) X(posix_fallocate, 285) \
	X(posix_fallocate64, 285) X(__ppoll_chk, 271)

typedef long function(long, long, long, long, long, long);

/* A call, as `overlock_passes` knows it. */
struct call {
	function *_Atomic next;
	uint64_t number;
	_Atomic bool is_told; /* if not, it is only passed on */
	uint8_t same; /* how many arguments are the system call's */
};

_Static_assert(offsetof(struct call, number) == 8 && offsetof(struct call, is_told) == 16, "as the assembler has it");

#define ENTRY(which, of, count) \
	struct call overlock_call_##which __attribute__((used)) = {.number = of, .same = count};
#define ENTRY_SAME(which, of) ENTRY(which, of, 6)
#define ENTRY_FOUR(which, of) ENTRY(which, of, 4)
#define ENTRY_LIKE(which, of) ENTRY(which, of, 0)
SAME(ENTRY_SAME)
FOUR(ENTRY_FOUR)
LIKE(ENTRY_LIKE)

/*
 * Only what the C library itself does is told of. A library of the program's may have a function of its own by one of
 * the names, with arguments and results of other types.
 */
static void find(struct call *call, const char *name, void *libc)
{
	void *next = dlsym(RTLD_NEXT, name);

	atomic_store_explicit(&call->next, (function *)next, memory_order_relaxed);
	atomic_store_explicit(&call->is_told, has_counter && libc != NULL && dlsym(libc, name) == next,
			      memory_order_relaxed);
}

void find_sleeps(void)
{
	void *libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);

#define FIND(name, number) find(&overlock_call_##name, #name, libc);
	SAME(FIND)
	FOUR(FIND)
	LIKE(FIND)
}

void leave_sleeps(void)
{
#define LEAVE(name, number) atomic_store_explicit(&overlock_call_##name.is_told, false, memory_order_relaxed);
	SAME(LEAVE)
	FOUR(LEAVE)
	LIKE(LEAVE)
}

/*
 * Makes a call for which no function has been found yet. The dynamic linker may have a library of the program's make it
 * before it has relocated this one, which then can find none, and has no `errno`.
 */
__attribute__((used)) long overlock_first(long one, long two, long three, long four, long five, long six,
					  struct call *call)
{
	function *next;
	long result;

	prepare();
	next = atomic_load_explicit(&call->next, memory_order_relaxed);
	if (next != NULL)
		return next(one, two, three, four, five, six);
	if (call->same == 0)
		return 0;
	if (call->same == 4)
		five = six = 0;
	result = raw((long)call->number, one, two, three, four, five, six);
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
	"	cmpb $0, 16(%r11)\n"
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
FOUR(PASSES)
LIKE(PASSES)
