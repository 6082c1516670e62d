/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* The same decisions as plain code, so that a test compares them with the oracle without a kernel. */
#include <stdbool.h>
#include <linux/bpf.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __u64 u64;
typedef __s64 s64;
#define INLINE static inline

#include "abi.h"
#include "policy.h"

const unsigned long overlock_group_size = sizeof(struct group);

/* Does what the event says, and fills in the answer to a spin. */
void overlock_play(struct group *group, struct event *event, u32 policy, u32 cap, u64 *skipped)
{
	struct spin spin = {
		.at = event->at, .running = event->running, .halted = event->halted, .ahead = event->ahead,
		.spinning = event->spinning, .in_user = event->in_user, .slots = event->slots, .pcpus = event->pcpus,
		.slot = event->slot, .holder = event->holder, .all = below(event->slots),
	};

	switch (event->kind) {
	case EVENT_RUNS:
		notice_runs(group, event->slot);
		return;
	case EVENT_WORKED:
		notice_worked(group, event->slot);
		return;
	case EVENT_IPI:
		notice_ipi(group, event->slot, event->other, event->at);
		return;
	default:
		for (u32 i = 0; i < 4; i++)
			spin.next[i] = event->next[i];
		spin.fit = event->used & ~(spin.running | spin.halted | spin.ahead | bit(event->slot));
		decide(group, &spin, policy, cap);
		tell_skipped(&spin, skipped);
		event->verdict = spin.verdict;
		event->why = spin.why;
		event->other = spin.other;
	}
}
