/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A machine of KVM's whose vCPUs never end. Each letter of the first word is one: `k` pauses in the kernel, `p` pauses
 * in user mode, `u` computes in user mode. Source: Documentation/virt/kvm/api.rst.
 */
#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

/* Two loops: with `pause`, and without. */
static const unsigned char code[] = { 0xf3, 0x90, 0xeb, 0xfc, 0xeb, 0xfe };

static int must(int result)
{
	if (result < 0)
		exit(1);
	return result;
}

static struct kvm_segment segment(int selector, int type, int level)
{
	return (struct kvm_segment){ .limit = ~0u, .selector = selector | level, .type = type, .present = 1, .dpl = level,
				     .db = 1, .s = 1, .g = 1 };
}

static void *runs(void *vcpu)
{
	while (must(ioctl((long)vcpu, KVM_RUN, 0)) >= 0)
		;
	return 0;
}

int main(int argc, char **argv)
{
	int vm = must(ioctl(must(open("/dev/kvm", O_RDWR)), KVM_CREATE_VM, 0));
	void *memory = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = { .memory_size = 4096, .userspace_addr = (unsigned long)memory };

	if (argc < 2 || memory == MAP_FAILED)
		return 1;
	memcpy(memory, code, sizeof(code));
	must(ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region));
	for (long n = 0; argv[1][n]; n++) {
		long vcpu = must(ioctl(vm, KVM_CREATE_VCPU, n));
		int level = argv[1][n] == 'k' ? 0 : 3;
		struct kvm_regs registers = { .rip = argv[1][n] == 'u' ? 4 : 0, .rflags = 2 };
		struct kvm_sregs special;
		pthread_t thread;
		must(ioctl(vcpu, KVM_GET_SREGS, &special));
		special.cs = segment(8, 0xb, level);
		special.ds = special.es = special.fs = special.gs = special.ss = segment(16, 3, level);
		special.cr0 = 0x11;
		must(ioctl(vcpu, KVM_SET_SREGS, &special));
		must(ioctl(vcpu, KVM_SET_REGS, &registers));
		must(-pthread_create(&thread, 0, runs, (void *)vcpu));
	}
	pause();
}
