/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 *   user            says whether the process has more rights than the user that started it
 *   user change     becomes the user nobody, and ends
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "change") == 0)
		return setuid(65534) != 0;
	puts(getauxval(AT_SECURE) ? "more rights" : "the same rights");
	return 0;
}
