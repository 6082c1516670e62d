/* SPDX-License-Identifier: MIT OR GPL-2.0 */
/*
 * What the scheduler needs of the kernel: some fields of its types, whose places the loader finds in the running
 * kernel's BTF, and some of its functions. Sources: Documentation/scheduler/sched-ext.rst and Documentation/bpf of
 * Linux 7.2, and the BTF of Debian's.
 */
#pragma once

#include <linux/bpf.h>

typedef __u8 u8;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;
#include <stdbool.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define KSYM extern __attribute__((section(".ksyms")))
#define WEAK __attribute__((weak))
#define UINT(name, val) int(*name)[val]
#define TYPE(name, val) typeof(val) *name

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_ext_entity {
	u64 slice;
	u32 flags;
};

struct task_struct {
	s32 pid;
	s32 tgid;
	u32 on_rq;
	struct sched_ext_entity scx;
};

enum scx_exit_kind { SCX_EXIT_NONE };

struct scx_exit_info {
	enum scx_exit_kind kind;
	const char *reason;
	char *msg;
};

struct kvm_vcpu_arch {
	bool preempted_in_kernel;
};

struct kvm_vcpu {
	s32 vcpu_id;
	bool preempted;
	struct kvm_vcpu_arch arch;
};

#pragma clang attribute pop

struct cpumask;
struct scx_init_task_args;

/* The operations that this scheduler has. The loader finds each by its name. */
struct sched_ext_ops {
	s32 (*select_cpu)(struct task_struct *p, s32 cpu, u64 flags);
	void (*enqueue)(struct task_struct *p, u64 flags);
	void (*dispatch)(s32 cpu, struct task_struct *prev);
	void (*tick)(struct task_struct *p);
	void (*runnable)(struct task_struct *p, u64 flags);
	void (*running)(struct task_struct *p);
	void (*stopping)(struct task_struct *p, bool runnable);
	void (*quiescent)(struct task_struct *p, u64 flags);
	bool (*yield)(struct task_struct *from, struct task_struct *to);
	s32 (*init_task)(struct task_struct *p, struct scx_init_task_args *args);
	void (*enable)(struct task_struct *p);
	void (*disable)(struct task_struct *p);
	s32 (*init)(void);
	void (*exit)(struct scx_exit_info *info);
	u64 flags;
	u32 timeout_ms;
	char name[128];
};

struct bpf_iter_scx_dsq {
	u64 opaque[6];
} __attribute__((aligned(8)));

#define SCX_OPS_SWITCH_PARTIAL (1ULL << 3)
#define SCX_DSQ_LOCAL ((1ULL << 63) | 2)
#define SCX_DEQ_SLEEP 1ULL
#define SCX_TASK_QUEUED 1

KSYM s32 scx_bpf_create_dsq(u64 dsq, s32 node);
KSYM s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev, u64 flags, bool *is_idle);
KSYM void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq, u64 slice, u64 flags);
KSYM void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq, u64 slice, u64 vtime, u64 flags);
KSYM bool scx_bpf_dsq_move_to_local(u64 dsq);
KSYM bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it__iter, struct task_struct *p, u64 dsq, u64 flags);
KSYM int bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq, u64 flags);
KSYM struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it);
KSYM void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it);
KSYM s32 scx_bpf_task_cpu(const struct task_struct *p);
KSYM u32 scx_bpf_nr_cpu_ids(void);
KSYM bool scx_bpf_task_set_slice(struct task_struct *p, u64 slice) WEAK;

static void *(*const map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static u64 (*const now_ns)(void) = (void *)BPF_FUNC_ktime_get_ns;
static void *(*const ring_reserve)(void *ring, u64 size, u64 flags) = (void *)BPF_FUNC_ringbuf_reserve;
static void (*const ring_submit)(void *data, u64 flags) = (void *)BPF_FUNC_ringbuf_submit;
static void (*const spin_lock)(struct bpf_spin_lock *lock) = (void *)BPF_FUNC_spin_lock;
static void (*const spin_unlock)(struct bpf_spin_lock *lock) = (void *)BPF_FUNC_spin_unlock;
static void *(*const task_storage)(void *map, struct task_struct *task, void *value, u64 flags) =
	(void *)BPF_FUNC_task_storage_get;
static struct task_struct *(*const current_task)(void) = (void *)BPF_FUNC_get_current_task_btf;
static long (*const read_kernel)(void *to, u32 size, const void *from) = (void *)BPF_FUNC_probe_read_kernel;
static long (*const read_string)(void *to, u32 size, const void *from) = (void *)BPF_FUNC_probe_read_kernel_str;
