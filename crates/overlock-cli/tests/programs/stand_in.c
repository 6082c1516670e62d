/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A library that stands in for the preload library: it changes no lock, and counts what the test wants. The first
 * process of a run takes a place in the shared memory, and stores the counters that the variable STAND_IN_COUNTS names,
 * as PLACE=COUNT pairs of byte offset and value; without it, that a thread waited once. With STAND_IN_ABSENT it takes
 * none.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void put(char *place, unsigned long offset, unsigned long long value)
{
	*(uint64_t *)(place + offset) = value;
}

__attribute__((constructor)) static void join(void)
{
	const char *named = getenv("OVERLOCK_TALLY"), *lock = getenv("OVERLOCK_LOCK"), *counts;
	char *tally, *place, name[64] = "STAND_IN_COUNTS_";
	unsigned int index;
	int offset = 0;

	if (named == NULL || getenv("STAND_IN_ABSENT") != NULL)
		return;
	tally = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(named), 0);
	if (tally == MAP_FAILED)
		return;
	index = atomic_fetch_add((atomic_uint *)(tally + CLAIMED), 1);
	place = tally + PLACES + (size_t)index * PLACE_SIZE;
	*(uint32_t *)place = (uint32_t)getpid();
	if (index != 0)
		return;
	if (lock != NULL)
		for (char *at = strncat(name, lock, 32); *at != 0; at++)
			*at = *at == '-' ? '_' : *at;
	counts = getenv(name) != NULL ? getenv(name) : getenv("STAND_IN_COUNTS");
	if (counts == NULL)
		put(place, CONTENDED, 1);
	for (unsigned long at; counts != NULL && *counts != 0; counts += offset) {
		unsigned long long value;

		if (sscanf(counts, " %lu=%llu%n", &at, &value, &offset) != 2)
			return;
		put(place, at, value);
	}
}
