/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library that stands before ours and replaces one function of libc, SYMBOL, by one that counts its calls under a
 * mutex and then jumps to libc's, as tracers do. If ours calls it while it waits for a mutex, it waits for the count's,
 * and so on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>

#define TEXT_OF(symbol) #symbol
#define TEXT(symbol) TEXT_OF(symbol)

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;
static long calls;
__attribute__((visibility("hidden"))) void *interposed_real;

__attribute__((visibility("hidden"), used)) void interposed_note(void)
{
	if (interposed_real == NULL)
		interposed_real = LOOK_UP;
	pthread_mutex_lock(&counting);
	calls++;
	for (volatile int i = 0; i < 300; i++)
		;
	pthread_mutex_unlock(&counting);
}

/* Any signature: the arguments' registers are kept. */
__asm__(".globl " TEXT(SYMBOL) "\n"
	".type " TEXT(SYMBOL) ", @function\n"
	TEXT(SYMBOL) ":\n"
	"push %rbp; mov %rsp, %rbp\n"
	"push %rdi; push %rsi; push %rdx; push %rcx; push %r8; push %r9; push %rax; push %r10\n"
	"sub $128, %rsp\n"
	"movups %xmm0, (%rsp); movups %xmm1, 16(%rsp); movups %xmm2, 32(%rsp); movups %xmm3, 48(%rsp)\n"
	"movups %xmm4, 64(%rsp); movups %xmm5, 80(%rsp); movups %xmm6, 96(%rsp); movups %xmm7, 112(%rsp)\n"
	"call interposed_note\n"
	"movups (%rsp), %xmm0; movups 16(%rsp), %xmm1; movups 32(%rsp), %xmm2; movups 48(%rsp), %xmm3\n"
	"movups 64(%rsp), %xmm4; movups 80(%rsp), %xmm5; movups 96(%rsp), %xmm6; movups 112(%rsp), %xmm7\n"
	"add $128, %rsp\n"
	"pop %r10; pop %rax; pop %r9; pop %r8; pop %rcx; pop %rdx; pop %rsi; pop %rdi\n"
	"pop %rbp\n"
	"jmp *interposed_real(%rip)\n");
