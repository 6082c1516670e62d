/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What the scheduler remembers of threads, groups and processors; the page; what it tells its loader. */
#pragma once

#define QUEUE 0x0c4b4c564fULL
#define CPUS 512

/* What the loader sets, and what it reads: sections of their own, so that it needs no names in them. */
const volatile struct settings settings SEC(".rodata.settings") = {};
struct tally tally SEC(".data.tally") = {};
struct exited exited SEC(".data.exited") = {};

static u64 vtime_now = 0;

struct place {
	u32 group, slot;
	u32 managed, spun, requests, graced, extended, is_vcpu, in_user;
	u32 record, generation; /* of the page; the record plus one */
	u64 vtime, since;
};

struct {
	UINT(type, BPF_MAP_TYPE_TASK_STORAGE);
	UINT(map_flags, BPF_F_NO_PREALLOC);
	TYPE(key, int);
	TYPE(value, struct place);
} places SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, GROUPS);
	TYPE(key, u32);
	TYPE(value, struct group);
} groups SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(max_entries, CPUS);
	TYPE(key, u32);
	TYPE(value, u32);
} next SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_ARRAY);
	UINT(map_flags, BPF_F_MMAPABLE);
	UINT(max_entries, 1);
	TYPE(key, u32);
	TYPE(value, struct page);
} page SEC(".maps");

struct {
	UINT(type, BPF_MAP_TYPE_RINGBUF);
	UINT(max_entries, 1 << 23);
} events SEC(".maps");

INLINE struct place *place_of(struct task_struct *p)
{
	struct place *place = task_storage(&places, p, 0, 0);

	return place && place->managed ? place : 0;
}

INLINE struct group *group_of(struct place *place)
{
	u32 key = place->group;

	return map_lookup(&groups, &key);
}

INLINE struct page *the_page(void)
{
	u32 key = 0;

	return settings.has_page ? map_lookup(&page, &key) : 0;
}

INLINE void set_slice(struct task_struct *p, u64 slice)
{
	if (scx_bpf_task_set_slice)
		scx_bpf_task_set_slice(p, slice);
	else
		p->scx.slice = slice;
}

/* The record of a thread on the page, or none. */
INLINE struct record *record_of(struct task_struct *p, struct place *place)
{
	struct page *the = the_page();
	u32 found = 0;

	if (!the)
		return 0;
	if (place->generation != the->generation) {
		place->generation = the->generation;
		for (u32 n = 0; n < RECORDS; n++)
			found |= (n + 1) & (is_nonzero(the->all[n].thread ^ (u32)p->pid) - 1);
		place->record = found;
	}
	u32 n = place->record - 1;
	return n < RECORDS ? &the->all[n] : 0;
}

/*
 * The slot, plus one, of the thread that has the record (plus one) on the page; 0 if there is none. A function of its
 * own, which the verifier follows once.
 */
__attribute__((noinline)) int slot_of(u32 key, u32 record)
{
	struct group *group = map_lookup(&groups, &key);
	struct page *the = the_page();
	int found = 0;

	record--;
	if (!the || !group || record >= RECORDS)
		return 0;
	u32 thread = the->all[record].thread;
	if (!thread)
		return 0;
	for (u32 n = 0; n < SLOTS; n++)
		found |= (n + 1) & (is_nonzero(group->threads[n] ^ thread) - 1);
	return found;
}

/* Writes an event for the oracle. The number and the sets were taken under the group's lock. */
INLINE void tell(u32 group, u64 number, u64 at, u8 kind, u32 slot, u32 other, const struct spin *spin)
{
	if (!settings.tells)
		return;
	struct event *event = ring_reserve(&events, sizeof(*event), 0);
	if (!event) {
		add(&tally.lost, 1);
		return;
	}
	__builtin_memset(event, 0, sizeof(*event));
	event->number = number;
	event->at = at;
	event->group = group;
	event->kind = kind;
	event->slot = slot;
	event->other = other;
	if (spin) {
		event->running = spin->running;
		event->halted = spin->halted;
		event->ahead = spin->ahead;
		event->spinning = spin->spinning;
		event->in_user = spin->in_user;
		event->used = spin->fit | spin->running | spin->halted | spin->ahead | bit(slot);
		event->slots = spin->slots;
		event->pcpus = spin->pcpus;
		event->verdict = spin->verdict;
		event->why = spin->why;
		event->holder = spin->holder;
		for (u32 i = 0; i < 4; i++)
			event->next[i] = spin->next[i];
	}
	ring_submit(event, 0);
	add(&tally.events, 1);
}
