/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The library's record of each thread: `Thread` in thread.rs.
 *
 * It is in C because the fast path reads it: with this model of thread-local storage that is one load, which it is
 * not for a thread-local of Rust in a shared library. A preloaded library is there from the start, so the model costs
 * nothing.
 */
#include <stdint.h>

struct overlock_thread {
	uint32_t tid;
	uint32_t number;
	uint32_t line;
	uint32_t policy;
	int cancel_type;
	_Bool decides;
	uint32_t woken;
	const void *at_gate;
	uint64_t waits_since;
};

__attribute__((visibility("hidden"), tls_model("initial-exec"))) __thread struct overlock_thread overlock_thread;
