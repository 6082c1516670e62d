/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/* What KVM tells: the numbers of vCPUs, their requests, who interrupts whom, and who was in user mode. */
#pragma once

/* The number of a vCPU, by which others interrupt it. What it asked for on its last exit is done. */
SEC("?tp_btf/kvm_entry")
int vcpu_enters(u64 *ctx)
{
	struct kvm_vcpu *vcpu = (void *)ctx[0];
	struct place *place = place_of(current_task());
	struct group *group = place ? group_of(place) : 0;

	if (!group || !vcpu)
		return 0;
	place->requests = 0;
	if (place->is_vcpu)
		return 0;
	u32 number = vcpu->vcpu_id;
	if (number < SLOTS)
		group->vcpus[number] = place->slot + 1;
	group->machines[place->slot & 63] = (u64)vcpu;
	place->is_vcpu = 1;
	return 0;
}

/* KVM_HC_KICK_CPU and KVM_HC_SCHED_YIELD: what yields next is no spin. */
SEC("?tp_btf/kvm_hypercall")
int vcpu_calls(u64 *ctx)
{
	struct place *place = place_of(current_task());

	if (place && (ctx[0] == 5 || ctx[0] == 11))
		place->requests = 1;
	return 0;
}

/* An interrupt for one vCPU: fixed delivery, physical destination, no shorthand. */
SEC("?tp_btf/kvm_apic_ipi")
int vcpu_interrupts(u64 *ctx)
{
	u32 command = ctx[0], number = ctx[1];
	struct place *place = place_of(current_task());
	struct group *group = place ? group_of(place) : 0;
	u64 event, at = now_ns();

	if (!group || command & 0xc0f00 || number >= SLOTS || !group->vcpus[number])
		return 0;
	u32 to = group->vcpus[number] - 1, from = place->slot;
	if (to == from)
		return 0;
	spin_lock(&group->lock);
	notice_ipi(group, from, to, at);
	event = group->number++;
	spin_unlock(&group->lock);
	tell(place->group, event, at, EVENT_IPI, from, to, 0);
	return 0;
}

/* A pause-loop exit, before KVM looks for its own guess: whether the spinner is in the guest's kernel. */
SEC("?fentry/kvm_vcpu_on_spin")
int vcpu_spins(u64 *ctx)
{
	struct place *place = place_of(current_task());

	if (place)
		place->in_user = !(ctx[1] & 1);
	return 0;
}

/*
 * The slots whose vCPU was preempted in user mode: KVM's own test. It notes the mode only of a vCPU that loses its
 * processor. The vCPU may be gone; then this is what else is in its memory, and a hint.
 */
__attribute__((noinline)) u64 users_of(u32 key)
{
	struct group *group = map_lookup(&groups, &key);
	u64 users = 0;

	if (!group)
		return 0;
	for (u32 n = 0; n < SLOTS; n++) {
		struct kvm_vcpu *vcpu = (void *)group->machines[n];
		u8 preempted = 0, in_kernel = 1;
		if (!vcpu)
			continue;
		read_kernel(&preempted, 1, &vcpu->preempted);
		read_kernel(&in_kernel, 1, &vcpu->arch.preempted_in_kernel);
		users |= (preempted & (in_kernel ^ 1) & 1ULL) << n;
	}
	return users;
}
