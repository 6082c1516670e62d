/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Calls of libc by their oldest version, so that a library built with a new glibc does not need a new one for them.
 * It can still need that for the unwinder of the building machine, which is linked in (README.md says what that
 * means).
 *
 * The linker redirects every reference to `name`, including Rust's, to `__wrap_name` (build.rs). Before glibc 2.34
 * some of these are in separate libraries, which a program without threads need not load: the references are weak,
 * and a missing function is never called. A dependency on those libraries would make every program load them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define FIRST "GLIBC_2.2.5"
#define SECOND "GLIBC_2.3.3"
#elif defined(__aarch64__)
#define FIRST "GLIBC_2.17"
#define SECOND "GLIBC_2.17"
#endif

/*
 * old_NAME is one version of NAME. Where that is in a separate library, LLVM's linker refuses to name a version without
 * a dependency on it: then it is the only version, which needs no name.
 */
#if __GLIBC_PREREQ(2, 34)
#define OLD(name)
#define VERSION(name, version) __asm__(".symver old_" #name ", " #name "@" version);
#else
#define OLD(name) __asm__("__real_" #name)
#define VERSION(name, version)
#endif

/* Defines __wrap_NAME as a call of one version of NAME, or, where that is missing, as `otherwise`. */
#define WRAP(result, name, version, parameters, arguments, otherwise)     \
	extern result old_##name parameters OLD(name) __attribute__((weak)); \
	VERSION(name, version)                                            \
	result __wrap_##name parameters;                                  \
	result __wrap_##name parameters                                   \
	{                                                                 \
		return old_##name != NULL ? old_##name arguments : otherwise; \
	}

/*
 * Before glibc 2.34, a way into the dynamic linker for libc itself. A program that does not load the public library may
 * still need the functions that our own calls wrap.
 */
extern void *__libc_dlopen_mode(const char *name, int mode) __attribute__((weak));
extern void *__libc_dlsym(void *object, const char *name) __attribute__((weak));

static void *from_libdl(const char *name)
{
	/* RTLD_NOW, and a bit that identifies libc as the caller. */
	void *libdl = __libc_dlopen_mode != NULL ? __libc_dlopen_mode("libdl.so.2", (int)0x80000002) : NULL;

	return libdl != NULL ? __libc_dlsym(libdl, name) : NULL;
}

static void *late_dlsym(void *object, const char *name)
{
	void *(*found)(void *, const char *) = from_libdl("dlsym");

	return found != NULL ? found(object, name) : NULL;
}

static void *late_dlvsym(void *object, const char *name, const char *version)
{
	void *(*found)(void *, const char *, const char *) = from_libdl("dlvsym");

	return found != NULL ? found(object, name, version) : NULL;
}

WRAP(void *, dlsym, FIRST, (void *object, const char *name), (object, name), late_dlsym(object, name))
WRAP(void *, dlvsym, FIRST, (void *object, const char *name, const char *version), (object, name, version),
     late_dlvsym(object, name, version))
WRAP(int, dladdr, FIRST, (const void *address, void *info), (address, info), 0)
WRAP(char *, dlerror, FIRST, (void), (), NULL)
WRAP(int, pthread_condattr_setpshared, FIRST, (pthread_condattr_t *attributes, int shared), (attributes, shared),
     ENOSYS)
WRAP(int, pthread_condattr_setclock, SECOND, (pthread_condattr_t *attributes, clockid_t clock), (attributes, clock),
     ENOSYS)
WRAP(int, pthread_key_create, FIRST, (pthread_key_t *key, void (*end)(void *)), (key, end), ENOSYS)
WRAP(int, pthread_key_delete, FIRST, (pthread_key_t key), (key), ENOSYS)
WRAP(void *, pthread_getspecific, FIRST, (pthread_key_t key), (key), NULL)
WRAP(int, pthread_setspecific, FIRST, (pthread_key_t key, const void *value), (key, value), ENOSYS)
WRAP(void, __pthread_register_cancel, SECOND, (__pthread_unwind_buf_t *frame), (frame), (void)0)
WRAP(void, __pthread_unregister_cancel, SECOND, (__pthread_unwind_buf_t *frame), (frame), (void)0)
WRAP(void, __pthread_unwind_next, SECOND, (__pthread_unwind_buf_t *frame), (frame), abort())

/* Before glibc 2.33 these were not functions of libc at all. Rust's library uses them for its backtraces. */
int __wrap_fstat64(int file, void *about);
int __wrap_fstat64(int file, void *about)
{
	return (int)syscall(SYS_fstat, file, about);
}

int __wrap_stat64(const char *path, void *about);
int __wrap_stat64(const char *path, void *about)
{
	return (int)syscall(SYS_newfstatat, AT_FDCWD, path, about, 0);
}
