/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 *   user            says whether the process has more rights than the user that started it
 */
#include <stdio.h>
#include <sys/auxv.h>

int main(void)
{
	puts(getauxval(AT_SECURE) ? "more rights" : "the same rights");
	return 0;
}
