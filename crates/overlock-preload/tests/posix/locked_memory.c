/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Prints how much memory the process has in KiB, all of which mlockall would lock. */
#include <stdio.h>

int main(void)
{
	char line[200];
	FILE *status = fopen("/proc/self/status", "r");
	long size;

	while (status != NULL && fgets(line, sizeof line, status))
		if (sscanf(line, "VmSize: %ld", &size) == 1)
			printf("%ld\n", size);
	return 0;
}
