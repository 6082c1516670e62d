/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Uses the library of resolver.c. */
extern int (*resolved_table)(void);
int locks_are_free(void);

int main(void)
{
	return resolved_table() == 42 && locks_are_free() ? 0 : 1;
}
