/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * Directed yields for the threads of chosen processes, as a scheduler of sched_ext's. All other threads stay with the
 * kernel's own class (SCX_OPS_SWITCH_PARTIAL): the loader gives the chosen ones SCHED_EXT.
 *
 * One queue, in order of virtual time. A yield asks the policy; the thread that it names is put into `next` of the
 * yielder's processor, which takes it out of the queue when it looks for work. Sources: the kernel's documentation.
 */
#include "kernel.h"
#include "abi.h"
#include "policy.h"
#include "state.h"
#include "kvm.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

SEC("struct_ops/select_cpu")
s32 select_cpu(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	bool is_idle = 0;
	s32 cpu = scx_bpf_select_cpu_dfl(p, ctx[1], ctx[2], &is_idle);

	if (is_idle && !settings.stalls)
		scx_bpf_dsq_insert(p, SCX_DSQ_LOCAL, settings.slice_ns, 0);
	return cpu;
}

SEC("struct_ops/enqueue")
int enqueue(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct place *place = place_of(p);
	u64 vtime = vtime_now;

	if (settings.stalls)
		return 0;
	if (place) {
		/* A sleeper gains one slice at most. */
		if ((s64)(place->vtime - (vtime - settings.slice_ns)) < 0)
			place->vtime = vtime - settings.slice_ns;
		vtime = place->vtime;
	}
	scx_bpf_dsq_insert_vtime(p, QUEUE, settings.slice_ns, vtime, ctx[1]);
	return 0;
}

/* Takes the chosen thread out of the queue. */
INLINE bool take(u32 thread)
{
	struct bpf_iter_scx_dsq it;
	struct task_struct *p;
	bool moved = 0;

	if (bpf_iter_scx_dsq_new(&it, QUEUE, 0)) {
		bpf_iter_scx_dsq_destroy(&it);
		return 0;
	}
	while ((p = bpf_iter_scx_dsq_next(&it)))
		if ((u32)p->pid == thread) {
			moved = scx_bpf_dsq_move(&it, p, SCX_DSQ_LOCAL, 0);
			break;
		}
	bpf_iter_scx_dsq_destroy(&it);
	return moved;
}

/* A holder whose slice is over keeps its processor until it releases, for one extension at most. */
INLINE bool extend(struct task_struct *p, struct place *place)
{
	if (!settings.has_page || !settings.grace_ns || place->graced)
		return 0;
	struct record *record = record_of(p, place);
	if (!record || !record->holds)
		return 0;
	place->graced = place->extended = 1;
	record->granted = 1;
	set_slice(p, settings.grace_ns);
	add(&tally.extended, 1);
	return 1;
}

SEC("struct_ops/dispatch")
int dispatch(u64 *ctx)
{
	u32 cpu = ctx[0];
	struct task_struct *prev = (void *)ctx[1]; /* it could go on, but its slice is over */
	struct place *place = prev && prev->scx.flags & SCX_TASK_QUEUED ? place_of(prev) : 0;
	u32 *chosen = map_lookup(&next, &cpu);

	if (chosen && *chosen) {
		u32 thread = *chosen;
		*chosen = 0;
		if (take(thread)) {
			add(&tally.moved, 1);
			return 0;
		}
		add(&tally.gone, 1);
	}
	/* The slice may have been found over between two ticks. */
	if (place && extend(prev, place))
		return 0;
	/* If nobody waits, it gets another slice. */
	if (!scx_bpf_dsq_move_to_local(QUEUE) && place)
		place->graced = 0;
	return 0;
}

SEC("struct_ops/tick")
int tick(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct place *place = place_of(p);

	if (place && !p->scx.slice)
		extend(p, place);
	return 0;
}

SEC("struct_ops/runnable")
int runnable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct place *place = place_of(p);
	struct group *group = place ? group_of(place) : 0;

	if (!group)
		return 0;
	spin_lock(&group->lock);
	group->halted &= ~bit(place->slot);
	spin_unlock(&group->lock);
	return 0;
}

SEC("struct_ops/quiescent")
int quiescent(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct place *place = place_of(p);
	struct group *group = place ? group_of(place) : 0;

	if (!group || !(ctx[1] & SCX_DEQ_SLEEP))
		return 0;
	spin_lock(&group->lock);
	group->halted |= bit(place->slot);
	spin_unlock(&group->lock);
	return 0;
}

SEC("struct_ops/running")
int running(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct place *place = place_of(p);
	struct group *group = place ? group_of(place) : 0;
	u64 number, at = now_ns();

	if (!group)
		return 0;
	place->since = at;
	place->spun = 0;
	place->graced = place->extended = 0;
	if ((s64)(place->vtime - vtime_now) > 0)
		vtime_now = place->vtime;
	spin_lock(&group->lock);
	group->running |= bit(place->slot);
	group->halted &= ~bit(place->slot);
	group->spinning &= ~bit(place->slot);
	notice_runs(group, place->slot);
	number = group->number++;
	spin_unlock(&group->lock);
	tell(place->group, number, at, EVENT_RUNS, place->slot, 0, 0);
	return 0;
}

SEC("struct_ops/stopping")
int stopping(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	bool is_ready = ctx[1] & 1;
	struct place *place = place_of(p);
	struct group *group = place ? group_of(place) : 0;
	u64 number, at = now_ns();

	if (!group)
		return 0;
	place->vtime += at - place->since;
	place->since = at;
	struct record *record = record_of(p, place);
	if (is_ready && record && record->holds)
		add(p->scx.slice ? &tally.deposed : &tally.held, 1);
	/* With a slice left it would stay in its processor's own queue, out of reach, while another class runs there. */
	if (is_ready)
		set_slice(p, 0);
	spin_lock(&group->lock);
	u32 slot = place->slot & 63;
	group->vtime[slot] = place->vtime;
	group->running &= ~bit(slot);
	if (place->spun && is_ready)
		group->spinning |= bit(slot);
	else
		notice_worked(group, slot);
	number = group->number++;
	spin_unlock(&group->lock);
	tell(place->group, number, at, place->spun && is_ready ? EVENT_NOTHING : EVENT_WORKED, slot, 0, 0);
	return 0;
}

/*
 * A thread spins (sched_yield), or a vCPU does (KVM's pause-loop exit: then `to` is KVM's own guess). A kick, or a
 * guest's own request, names a vCPU for another reason than a spin, and gets it.
 */
SEC("struct_ops/yield")
bool yield(u64 *ctx)
{
	struct task_struct *from = (void *)ctx[0];
	struct task_struct *to = (void *)ctx[1];
	struct place *place = place_of(from);
	struct group *group = place ? group_of(place) : 0;
	struct spin spin = {};
	u32 cpu = scx_bpf_task_cpu(from), thread = 0;
	u64 number;

	if (!group) {
		set_slice(from, 0);
		return 0;
	}
	u32 *chosen = map_lookup(&next, &cpu);
	if (!chosen)
		return 0;
	u32 in_user = place->in_user;
	place->in_user = 0;
	/* It has released within its extension. */
	if (!to && place->extended) {
		place->extended = 0;
		add(&tally.returned, 1);
	}
	/* Who yields wants no extension. */
	if (to && place->requests) {
		place->requests = 0;
		place->graced = 1;
		*chosen = to->pid;
		set_slice(from, 0);
		return 1;
	}
	struct record *record = record_of(from, place);
	if (record) {
		spin.holder = slot_of(place->group, record->holder);
		for (u32 i = 0; i < 4; i++)
			spin.next[i] = slot_of(place->group, record->next[i]);
	}
	spin.at = now_ns();
	spin.slot = place->slot & 63;
	spin.pcpus = scx_bpf_nr_cpu_ids();
	if (settings.modes)
		spin.in_user = (users_of(place->group) & ~bit(spin.slot)) | (u64)(in_user & 1) << spin.slot;
	if (!spin.pcpus)
		return 0;
	spin_lock(&group->lock);
	look(group, &spin, vtime_now + settings.lead_ns);
	decide(group, &spin, settings.policy, settings.cap);
	number = group->number++;
	if (spin.verdict == VERDICT_TO)
		thread = group->threads[spin.other & 63];
	spin_unlock(&group->lock);
	tell_skipped(&spin, tally.skipped);
	tell(place->group, number, spin.at, EVENT_SPIN, spin.slot, spin.other, &spin);
	u64 why = hidden(spin.why);
	if (spin.verdict == VERDICT_TO && why < CHOSEN_COUNT)
		add(&tally.to[why], 1);
	if (spin.verdict == VERDICT_PLAIN && why < MISSED_COUNT)
		add(&tally.plain[why], 1);
	if (spin.verdict == VERDICT_STAY) {
		if (why < MISSED_COUNT)
			add(&tally.stay[why], 1);
		/* KVM would try others if this said no; the slice goes on. */
		return 1;
	}
	*chosen = thread;
	place->spun = 1;
	place->graced = 1;
	set_slice(from, 0);
	return 1;
}

SEC("struct_ops/init_task")
s32 init_task(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];

	task_storage(&places, p, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	return 0;
}

/* Gives the thread a slot of its process's group. If there is none left, it is scheduled without a policy. */
SEC("struct_ops/enable")
int enable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct place *place = task_storage(&places, p, 0, 0);
	u32 process = p->tgid, thread = p->pid;
	bool sleeps = !p->on_rq;

	if (!place)
		return 0;
	for (u32 key = 0; key < GROUPS; key++) {
		u32 at = key;
		struct group *group = map_lookup(&groups, &at);
		if (!group)
			return 0;
		spin_lock(&group->lock);
		bool fits = group->process == process || !group->taken;
		if (fits && ~group->taken) {
			u32 slot = lowest(~group->taken) & 63;
			group->process = process;
			group->taken |= bit(slot);
			group->used |= bit(slot);
			group->running &= ~bit(slot);
			/* Who sleeps is not told to be asleep. */
			group->halted = sleeps ? group->halted | bit(slot) : group->halted & ~bit(slot);
			group->spinning &= ~bit(slot);
			group->threads[slot] = thread;
			group->machines[slot] = 0;
			group->vtime[slot] = vtime_now;
			place->slot = slot;
			place->group = key;
			place->is_vcpu = 0;
			place->managed = 1;
			place->vtime = vtime_now;
			spin_unlock(&group->lock);
			return 0;
		}
		spin_unlock(&group->lock);
	}
	return 0;
}

SEC("struct_ops/disable")
int disable(u64 *ctx)
{
	struct task_struct *p = (void *)ctx[0];
	struct place *place = place_of(p);
	struct group *group = place ? group_of(place) : 0;

	if (!group)
		return 0;
	place->managed = 0;
	spin_lock(&group->lock);
	group->taken &= ~bit(place->slot);
	group->threads[place->slot & 63] = 0;
	spin_unlock(&group->lock);
	return 0;
}

SEC("struct_ops.s/init")
s32 init(u64 *ctx)
{
	return scx_bpf_create_dsq(QUEUE, -1);
}

SEC("struct_ops/exit")
int has_exited(u64 *ctx)
{
	struct scx_exit_info *info = (void *)ctx[0];

	read_string(exited.reason, sizeof(exited.reason), info->reason);
	read_string(exited.message, sizeof(exited.message), info->msg);
	exited.kind = info->kind;
	return 0;
}

SEC(".struct_ops.link")
struct sched_ext_ops overlock = {
	.select_cpu = (void *)select_cpu,
	.enqueue = (void *)enqueue,
	.dispatch = (void *)dispatch,
	.tick = (void *)tick,
	.runnable = (void *)runnable,
	.running = (void *)running,
	.stopping = (void *)stopping,
	.quiescent = (void *)quiescent,
	.yield = (void *)yield,
	.init_task = (void *)init_task,
	.enable = (void *)enable,
	.disable = (void *)disable,
	.init = (void *)init,
	.exit = (void *)has_exited,
	.flags = SCX_OPS_SWITCH_PARTIAL,
	.timeout_ms = 30000,
	.name = "overlock",
};
