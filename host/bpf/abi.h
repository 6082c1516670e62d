/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What the scheduler shares with programs (the page) and with its loader (all else): src/page.rs, src/sched/abi.rs. */
#pragma once

enum {
	SLOTS = 64,   /* threads of a group */
	GROUPS = 8,   /* processes */
	RECORDS = 63, /* of a page */
	DEBTS = 4,    /* senders that a receiver remembers */
};

/* docs/host.md says what the fields mean. */
struct record {
	u32 thread, holds, holder, next[4], granted, reserved[8];
};

struct page {
	u32 magic, version, records, generation, reserved[12];
	struct record all[RECORDS];
};

enum policy { POLICY_NONE, POLICY_YIELD, POLICY_SKIP_SPINNERS, POLICY_SPIN_COUNT, POLICY_LOAD_GATE, POLICY_IPI_FIRST,
	      POLICY_PV_HINT, POLICY_LINUX, POLICY_LINUX_IPI };

enum kind { EVENT_RUNS, EVENT_WORKED, EVENT_IPI, EVENT_SPIN, EVENT_NOTHING };

enum verdict { VERDICT_TO, VERDICT_PLAIN, VERDICT_STAY };

/* Reasons have the numbers that they have in overlock-vcpu, in the order of declaration. */
enum chosen { NEXT_IN_TURN, NOT_SPINNING, SKIPPED_BEFORE, LOCK_HOLDER, NEXT_WAITER, OWES_IPI, OWES_HOLDER, IPI_PENDING,
	      CHOSEN_COUNT = 10 };
enum skipped { ITSELF, UNKNOWN, RUNNING, HALTED, STOPPED, OTHER_GUEST, AHEAD_OF_SHARE, SPINNING, NO_IPI,
	       BEYOND_SCAN, IN_USER, SKIPPED_COUNT };
enum missed { POLICY_NEVER, POLICY_UNDIRECTED, NO_CANDIDATE, NOT_OVERCOMMITTED, HOLDER_RUNNING, MISSED_AHEAD = 8,
	      MISSED_COUNT = 10 };

/* One event of a group. A spin says what the policy saw, and what it answered. */
struct event {
	u64 number, at;
	u64 running, halted, spinning, ahead, used, in_user; /* sets of slots */
	u32 group;
	u8 kind, slot, other, verdict, why, slots, pcpus, holder; /* holder, next: slots plus one */
	u8 next[4];
};

struct tally {
	u64 to[CHOSEN_COUNT], plain[MISSED_COUNT], stay[MISSED_COUNT], skipped[SKIPPED_COUNT];
	u64 events, lost;            /* written, and not written for want of room */
	u64 moved, gone;             /* chosen threads that got the processor, or had gone */
	u64 extended, held, deposed; /* slices extended; holders that lost their processor: at its end, to others */
	u64 returned;                /* extensions in which the thread yielded */
};

struct settings {
	u64 slice_ns, lead_ns, grace_ns;
	u32 policy, cap;
	u32 has_page, tells;
	u32 stalls; /* for a test: threads wait for ever, and the kernel's watchdog ends the scheduler */
	u32 modes;  /* the policy asks who was in user mode, and KVM is there to tell */
};

/* Why the kernel ended it; the kind is 0 while it runs. */
struct exited {
	u32 kind;
	char reason[128], message[256];
};
