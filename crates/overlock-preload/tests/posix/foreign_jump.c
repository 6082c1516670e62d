/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A C library that disguises each jump buffer in another way, as far as the library under test can see. */
#include <setjmp.h>
#include <string.h>

int _setjmp(jmp_buf buffer)
{
	static unsigned char disguise;

	memset(buffer, disguise += 37, sizeof(jmp_buf));
	return 0;
}
