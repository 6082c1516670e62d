/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * The decisions of overlock-vcpu's policies, on sets of at most 64 threads: bit n of a set is the thread in slot n.
 * What each policy does, and why, stands in crates/overlock-vcpu/src/host/sched/yield_to/; that is the oracle, and
 * `overlock host run --check` replays every event through it.
 */
#pragma once

/* A group: the vCPUs of one guest, or the threads of one program. */
struct group {
	struct bpf_spin_lock lock;
	u32 process;             /* 0 is a free one */
	u64 number;              /* of the next event */
	u64 used;                /* slots that have ever had a thread */
	u64 taken;               /* slots that have one */
	u64 running, halted, spinning;
	u64 due;                 /* skip-spinners: skipped since it ran */
	u64 counted;             /* spin-count: the count is not 0 */
	u64 machines[SLOTS];     /* KVM's own record of the vCPU */
	u32 start, ipi_start;    /* where the rotations go on */
	u8 counts[SLOTS];
	u64 vtime[SLOTS];
	u32 threads[SLOTS];
	u8 vcpus[SLOTS];         /* the slot of the vCPU with this number, plus one */
	u8 last[SLOTS];          /* whom it interrupted last, plus one */
	u8 debt_to[SLOTS][DEBTS]; /* who sent the latest unanswered IPIs, plus one */
	u64 debt_at[SLOTS][DEBTS];
};

/* What a policy sees, and what it answers. */
struct spin {
	u64 at;
	u64 fit, running, halted, ahead, spinning, all, in_user;
	u64 looked;                /* those that a scan came to */
	u64 passed, no_ipi, beyond, idle; /* fit ones that were skipped, by reason: the last one counts */
	u32 slots, pcpus;
	u32 slot;
	u8 holder, next[4];
	u8 verdict, why, other;
};

#define IPI_WINDOW_NS 50000000ULL

INLINE void add(u64 *to, u64 value)
{
	__sync_fetch_and_add(to, value);
}

INLINE u64 bit(u32 slot)
{
	return 1ULL << (slot & 63);
}

/* The slots below `slot`, of which there may be 64. */
INLINE u64 below(u32 slot)
{
	return slot >= 64 ? ~0ULL : (1ULL << slot) - 1;
}

/*
 * The kernel's verifier follows both ways of every branch and remembers what each knows. So whatever is found out about
 * each of 64 threads is found without branches: otherwise it has 2 to the power of 64 ways to follow.
 */
INLINE u64 hidden(u64 value)
{
	__asm__ volatile("" : "+r"(value));
	return value;
}

INLINE u64 is_nonzero(u64 value)
{
	return (value | hidden(-value)) >> 63;
}

/* Whether `a` is more than `b`, for times. */
INLINE u64 is_later(u64 a, u64 b)
{
	return hidden(b - a) >> 63;
}

INLINE u32 count(u64 set)
{
	set -= set >> 1 & 0x5555555555555555ULL;
	set = (set & 0x3333333333333333ULL) + (set >> 2 & 0x3333333333333333ULL);
	return ((set + (set >> 4)) & 0x0f0f0f0f0f0f0f0fULL) * 0x0101010101010101ULL >> 56;
}

/* The lowest of a set that is not empty. */
INLINE u32 lowest(u64 set)
{
	return count((set & -set) - 1) & 63;
}

/* The highest of a set, plus one. */
INLINE u32 extent(u64 set)
{
	set |= set >> 1;
	set |= set >> 2;
	set |= set >> 4;
	set |= set >> 8;
	set |= set >> 16;
	set |= set >> 32;
	return count(set);
}

INLINE void answer(struct spin *spin, u8 verdict, u8 why, u32 slot)
{
	spin->verdict = verdict;
	spin->why = why;
	spin->other = slot;
}

/* Those of `set` that a round from `start` comes to before `slot`. */
INLINE u64 before(u64 set, u32 start, u32 slot)
{
	u64 upper = ~below(start);

	return slot >= start ? set & upper & below(slot) : set & (upper | below(slot));
}

/* The first of `set` in a round from `start`. The set is not empty. */
INLINE u32 first(u64 set, u32 start)
{
	u64 upper = set & ~below(start);

	return lowest(upper ? upper : set);
}

/* The first `limit` of `set` in a round from `start`. */
INLINE u64 first_few(u64 set, u32 start, u32 limit)
{
	u64 rest = set, few = 0;

	for (u32 n = 0; n < SLOTS; n++) {
		if (n >= limit || !rest)
			break;
		u64 one = bit(first(rest, start));
		few |= one;
		rest &= ~one;
	}
	return few;
}

/* Round from `start`: the first of `right`. It returns whether there is one; `spin` learns who was skipped. */
INLINE bool scan(struct spin *spin, u32 *start, u64 right, u64 wrong, u64 *skipped)
{
	u32 from = *start >= spin->slots ? 0 : *start;

	if (!right) {
		*skipped = wrong;
		spin->looked = spin->all;
		return false;
	}
	spin->other = first(right, from);
	*skipped = before(wrong, from, spin->other);
	spin->looked |= before(spin->all, from, spin->other);
	*start = spin->other + 1;
	return true;
}

/* Of the `limit` first of those that are fit, but never one that is `idle`: in user mode. */
INLINE void skip_spinners(struct group *group, struct spin *spin, u32 limit, u64 idle)
{
	u32 from = group->start >= spin->slots ? 0 : group->start;
	u64 few = limit >= SLOTS ? spin->fit : first_few(spin->fit, from, limit);
	u64 right = few & ~idle & (~spin->spinning | group->due);
	u64 skipped;
	bool found = scan(spin, &group->start, right, few & ~right, &skipped);

	spin->passed |= skipped & ~idle;
	spin->idle = skipped & idle;
	group->due |= spin->passed;
	if (!found) {
		spin->beyond = spin->fit & ~few;
		answer(spin, VERDICT_STAY, NO_CANDIDATE, 0);
	} else if (spin->spinning & bit(spin->other)) {
		group->due &= ~bit(spin->other);
		answer(spin, VERDICT_TO, SKIPPED_BEFORE, spin->other);
	} else {
		answer(spin, VERDICT_TO, NOT_SPINNING, spin->other);
	}
}

INLINE void spin_count(struct group *group, struct spin *spin, u32 cap)
{
	u32 own = spin->slot & 63;
	u64 skipped;

	if (group->counts[own] < cap)
		group->counts[own]++;
	group->counted |= bit(own);
	bool found = scan(spin, &group->start, spin->fit & ~group->counted, spin->fit & group->counted, &skipped);

	spin->passed |= skipped;
	u64 counted = 0;
	for (u32 n = 0; n < SLOTS; n++) {
		group->counts[n] -= skipped >> n & 1;
		counted |= is_nonzero(group->counts[n]) << n;
	}
	group->counted = counted;
	if (!found)
		answer(spin, VERDICT_STAY, NO_CANDIDATE, 0);
	else
		answer(spin, VERDICT_TO, spin->spinning & bit(spin->other) ? SKIPPED_BEFORE : NOT_SPINNING, spin->other);
}

INLINE void load_gate(struct group *group, struct spin *spin)
{
	u32 waiting = count(spin->fit | spin->ahead);

	if (!waiting) {
		answer(spin, VERDICT_STAY, NOT_OVERCOMMITTED, 0);
		return;
	}
	skip_spinners(group, spin, (waiting + spin->pcpus - 1) / spin->pcpus * 2, 0);
	if (spin->verdict == VERDICT_STAY)
		spin->verdict = VERDICT_PLAIN;
}

/* Those that owe `asker` (plus one) an answer, or anyone if it is 0. */
INLINE u64 debtors(struct group *group, struct spin *spin, u8 asker)
{
	u64 all = 0;

	for (u32 n = 0; n < SLOTS; n++)
		for (u32 i = 0; i < DEBTS; i++) {
			u64 to = group->debt_to[n][i];
			u64 old = is_later(spin->at, group->debt_at[n][i] + IPI_WINDOW_NS);
			u64 other = is_nonzero(asker) & is_nonzero(to ^ asker);
			all |= (is_nonzero(to) & ~other & ~old & 1) << n;
		}
	return all;
}

INLINE void ipi_first(struct group *group, struct spin *spin)
{
	u64 skipped;

	for (u32 round = 0; round < 2; round++) {
		u64 owe = debtors(group, spin, round ? 0 : spin->slot + 1);
		bool found = scan(spin, &group->ipi_start, spin->fit & owe, spin->fit & ~owe, &skipped);

		spin->no_ipi |= skipped;
		if (found) {
			answer(spin, VERDICT_TO, round ? IPI_PENDING : OWES_IPI, spin->other);
			return;
		}
	}
	skip_spinners(group, spin, SLOTS, 0);
}

/* A spinner in the kernel passes over those in user mode, unless an interrupt is pending for them. */
INLINE void as_linux(struct group *group, struct spin *spin)
{
	u64 idle = spin->in_user & ~debtors(group, spin, 0);

	skip_spinners(group, spin, SLOTS, spin->in_user & bit(spin->slot) ? 0 : idle);
}

INLINE void linux_ipi(struct group *group, struct spin *spin)
{
	u32 last = group->last[spin->slot & 63];
	u64 own = last ? bit(last - 1) & debtors(group, spin, spin->slot + 1) : 0;
	u64 pending = debtors(group, spin, 0), skipped;

	if (own & spin->fit)
		return answer(spin, VERDICT_TO, OWES_IPI, last - 1);
	spin->looked |= own;
	bool found = scan(spin, &group->ipi_start, spin->fit & pending, spin->fit & ~pending, &skipped);
	spin->no_ipi |= skipped;
	if (found)
		return answer(spin, VERDICT_TO, IPI_PENDING, spin->other);
	as_linux(group, spin);
	if (spin->verdict == VERDICT_STAY && scan(spin, &group->ipi_start, spin->fit, 0, &skipped))
		answer(spin, VERDICT_TO, NEXT_IN_TURN, spin->other);
}

/* Those that a guest's hint names together, in their order. It returns whether one of them decides. */
INLINE bool hinted(struct spin *spin, u64 set, u8 why, u64 *running)
{
	u64 decide;

	set &= spin->all;
	decide = set & (spin->fit | spin->ahead);
	if (!decide) {
		spin->looked |= set;
		*running |= set & spin->running & ~bit(spin->slot);
		return false;
	}
	u64 it = decide & -decide;
	spin->looked |= set & (it - 1);
	if (spin->fit & it) {
		answer(spin, VERDICT_TO, why, lowest(it));
	} else {
		spin->looked |= it;
		answer(spin, VERDICT_PLAIN, MISSED_AHEAD, 0);
	}
	return true;
}

/* The set of a slot, plus one; 0 is none. */
INLINE u64 named(u8 plus_one)
{
	return is_nonzero(plus_one) << ((plus_one - 1) & 63);
}

INLINE void pv_hint(struct group *group, struct spin *spin)
{
	u64 running = 0;

	if (hinted(spin, debtors(group, spin, spin->slot + 1), OWES_IPI, &running))
		return;
	if (spin->holder && hinted(spin, debtors(group, spin, spin->holder), OWES_HOLDER, &running))
		return;
	if (hinted(spin, named(spin->holder), LOCK_HOLDER, &running))
		return;
	for (u32 i = 0; i < 4; i++)
		if (hinted(spin, named(spin->next[i]), NEXT_WAITER, &running))
			return;
	if (running)
		answer(spin, VERDICT_STAY, HOLDER_RUNNING, 0);
	else
		ipi_first(group, spin);
}

INLINE void decide(struct group *group, struct spin *spin, u32 policy, u32 cap)
{
	switch (policy) {
	case POLICY_YIELD:
		return answer(spin, VERDICT_PLAIN, POLICY_UNDIRECTED, 0);
	case POLICY_SKIP_SPINNERS:
		return skip_spinners(group, spin, SLOTS, 0);
	case POLICY_SPIN_COUNT:
		return spin_count(group, spin, cap);
	case POLICY_LOAD_GATE:
		return load_gate(group, spin);
	case POLICY_IPI_FIRST:
		return ipi_first(group, spin);
	case POLICY_PV_HINT:
		return pv_hint(group, spin);
	case POLICY_LINUX:
		return as_linux(group, spin);
	case POLICY_LINUX_IPI:
		return linux_ipi(group, spin);
	default:
		return answer(spin, VERDICT_STAY, POLICY_NEVER, 0);
	}
}

/* Fills in what the policy sees. */
INLINE void look(struct group *group, struct spin *spin, u64 limit)
{
	u64 ahead = 0;

	for (u32 n = 0; n < SLOTS; n++)
		ahead |= is_later(group->vtime[n], limit) << n;
	u64 waits = group->taken & ~group->running & ~group->halted & ~bit(spin->slot);
	spin->slots = extent(group->used);
	spin->all = below(spin->slots);
	spin->running = group->running & group->taken;
	spin->halted = group->halted & group->taken;
	spin->ahead = waits & ahead;
	spin->fit = waits & ~ahead;
	spin->spinning = group->spinning;
}

/* How many were skipped for each reason. */
INLINE void tell_skipped(const struct spin *spin, u64 *skipped)
{
	u64 own = bit(spin->slot);
	u64 chosen = spin->verdict == VERDICT_TO ? bit(spin->other) : 0;
	u64 known = spin->fit | spin->running | spin->halted | spin->ahead | own;
	u64 looked = spin->looked & ~chosen;
	u64 later = spin->passed | spin->beyond | spin->idle | chosen;

	add(&skipped[ITSELF], count(looked & own));
	add(&skipped[RUNNING], count(looked & spin->running & ~own));
	add(&skipped[HALTED], count(looked & spin->halted & ~own));
	add(&skipped[AHEAD_OF_SHARE], count(looked & spin->ahead));
	add(&skipped[UNKNOWN], count(looked & ~known));
	add(&skipped[SPINNING], count(spin->passed & ~chosen));
	add(&skipped[BEYOND_SCAN], count(spin->beyond & ~chosen));
	add(&skipped[IN_USER], count(spin->idle & ~chosen));
	add(&skipped[NO_IPI], count(spin->no_ipi & ~later));
}

/* A thread of the group runs: it answers its interrupts, and a skip is forgotten. */
INLINE void notice_runs(struct group *group, u32 slot)
{
	slot &= 63;
	group->due &= ~bit(slot);
	for (u32 i = 0; i < DEBTS; i++)
		group->debt_to[slot][i] = 0;
}

/* It left its processor without a spin. */
INLINE void notice_worked(struct group *group, u32 slot)
{
	slot &= 63;
	group->counts[slot] /= 2;
	if (!group->counts[slot])
		group->counted &= ~bit(slot);
}

/* It was interrupted by `from`: the latest senders are kept, each once. */
INLINE void notice_ipi(struct group *group, u32 from, u32 to, u64 at)
{
	u8 carried = from + 1;
	u64 carried_at = at;

	group->last[from & 63] = to + 1;
	to &= 63;
	for (u32 i = 0; i < DEBTS; i++) {
		u8 old = group->debt_to[to][i];
		u64 old_at = group->debt_at[to][i];
		group->debt_to[to][i] = carried;
		group->debt_at[to][i] = carried_at;
		if (old == from + 1)
			break;
		carried = old;
		carried_at = old_at;
	}
}
