/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Programs and libraries that ask for a version of a call by name (thread sanitizer, libfaketime) get the same call
 * as those that were linked to it: two implementations that take turns on one object would not exclude each other.
 */
#include "posix.h"

#include <dlfcn.h>
#include <threads.h>

struct call {
	const char *name, *version;
};

static const struct call calls[] = {
#if defined(__x86_64__)
	{ "pthread_mutex_lock", "GLIBC_2.2.5" },      { "pthread_mutex_unlock", "GLIBC_2.2.5" },
	{ "pthread_mutex_destroy", "GLIBC_2.2.5" },   { "pthread_mutex_trylock", "GLIBC_2.2.5" },
	{ "pthread_mutex_timedlock", "GLIBC_2.2.5" }, { "pthread_mutex_clocklock", "GLIBC_2.30" },
	{ "__pthread_mutex_lock", "GLIBC_2.2.5" },    { "__pthread_mutex_unlock", "GLIBC_2.2.5" },
	{ "__pthread_mutex_trylock", "GLIBC_2.2.5" }, { "__pthread_mutex_destroy", "GLIBC_2.2.5" },
	{ "pthread_cond_wait", "GLIBC_2.3.2" },	      { "pthread_cond_timedwait", "GLIBC_2.3.2" },
	{ "pthread_cond_clockwait", "GLIBC_2.30" },   { "pthread_cond_signal", "GLIBC_2.3.2" },
	{ "pthread_cond_broadcast", "GLIBC_2.3.2" },  { "pthread_cond_destroy", "GLIBC_2.3.2" },
	{ "pthread_cond_wait", "GLIBC_2.2.5" },	      { "pthread_cond_timedwait", "GLIBC_2.2.5" },
	{ "pthread_cond_signal", "GLIBC_2.2.5" },     { "pthread_cond_broadcast", "GLIBC_2.2.5" },
	{ "pthread_cond_destroy", "GLIBC_2.2.5" },    { "pthread_cond_init", "GLIBC_2.2.5" },
	{ "pthread_spin_lock", "GLIBC_2.2.5" },	      { "pthread_spin_trylock", "GLIBC_2.2.5" },
	{ "pthread_spin_unlock", "GLIBC_2.2.5" },
#elif defined(__aarch64__)
	{ "pthread_mutex_lock", "GLIBC_2.17" },	     { "pthread_mutex_unlock", "GLIBC_2.17" },
	{ "pthread_mutex_destroy", "GLIBC_2.17" },   { "pthread_mutex_trylock", "GLIBC_2.17" },
	{ "pthread_mutex_timedlock", "GLIBC_2.17" }, { "pthread_mutex_clocklock", "GLIBC_2.30" },
	{ "pthread_cond_wait", "GLIBC_2.17" },	     { "pthread_cond_timedwait", "GLIBC_2.17" },
	{ "pthread_cond_clockwait", "GLIBC_2.30" },  { "pthread_cond_signal", "GLIBC_2.17" },
	{ "pthread_cond_broadcast", "GLIBC_2.17" },  { "pthread_cond_destroy", "GLIBC_2.17" },
	{ "pthread_spin_lock", "GLIBC_2.17" },	     { "pthread_spin_trylock", "GLIBC_2.17" },
	{ "pthread_spin_unlock", "GLIBC_2.17" },
#endif
};

static const char *object_of(void *address)
{
	Dl_info info;

	CHECK(dladdr(address, &info) != 0);
	return info.dli_fname;
}

/* Whether it is the preloaded library's, if there is one. */
static int is_ours(void *address)
{
	return !is_overlock() || (address != NULL && strstr(object_of(address), "overlock") != NULL);
}

CASE(every_version_is_of_one_library)
{
	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		void *versioned = dlvsym(RTLD_DEFAULT, calls[i].name, calls[i].version);
		void *plain = dlsym(RTLD_DEFAULT, calls[i].name);

		CHECK(versioned != NULL);
		/* A linker can't choose every version. */
		if (plain == NULL)
			continue;
		/* The initialisation is libc's, except for the oldest layout. */
		if (strcmp(calls[i].name, "pthread_cond_init") == 0)
			CHECK(is_ours(versioned));
		else if (strcmp(object_of(versioned), object_of(plain)) != 0)
			fail(calls[i].name, (int)i, calls[i].version);
	}
}

#define CALL(name) { #name, (void *)name }

/*
 * C11's calls have no default version in the library, for the sake of libraries that have these names for locks of
 * their own (own_threads.c). A program that was linked to any version of glibc's gets the library's.
 */
CASE(c11s_calls_are_of_one_library_by_version)
{
	const struct {
		const char *name;
		void *linked;
	} c11[] = {
		CALL(mtx_lock),	   CALL(mtx_trylock),	CALL(mtx_timedlock), CALL(mtx_unlock),	  CALL(mtx_destroy),
		CALL(cnd_wait),	   CALL(cnd_timedwait), CALL(cnd_signal),    CALL(cnd_broadcast), CALL(cnd_destroy),
	};

	for (size_t i = 0; i < sizeof c11 / sizeof *c11; i++) {
		CHECK(is_ours(c11[i].linked));
		CHECK(is_ours(dlvsym(RTLD_DEFAULT, c11[i].name, "GLIBC_2.28")));
		CHECK(is_ours(dlvsym(RTLD_DEFAULT, c11[i].name, "GLIBC_2.34")));
	}
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int ready;

static void *make_ready(void *argument)
{
	EQ(pthread_mutex_lock(&mutex), 0);
	ready = 1;
	EQ(pthread_cond_signal(&cond), 0);
	EQ(pthread_mutex_unlock(&mutex), 0);
	return argument;
}

/* Waits like a library that has looked its calls up. */
CASE(versioned_wait_meets_linked_signal)
{
	int (*wait)(pthread_cond_t *, pthread_mutex_t *);
	pthread_t thread;

	*(void **)&wait = dlvsym(RTLD_DEFAULT, "pthread_cond_wait", "GLIBC_2.3.2");
	if (wait == NULL)
		*(void **)&wait = dlvsym(RTLD_DEFAULT, "pthread_cond_wait", "GLIBC_2.17");
	CHECK(wait != NULL);
	for (int round = 0; round < 200; round++) {
		ready = 0;
		EQ(pthread_mutex_lock(&mutex), 0);
		thread = start(make_ready, NULL);
		while (!ready)
			EQ(wait(&cond, &mutex), 0);
		EQ(pthread_mutex_trylock(&mutex), EBUSY);
		EQ(pthread_mutex_unlock(&mutex), 0);
		join(thread);
	}
}
