// SPDX-License-Identifier: MIT OR Apache-2.0
// A process that the C library does not know to be new waits, and its parent does. Then a thread leaves a wait by a
// jump, and ends.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sem_t semaphore;
static sigjmp_buf back;
static atomic_int is_ready, is_out;

static struct timespec soon(void) {
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += 200000000;
    at.tv_sec += at.tv_nsec / 1000000000;
    at.tv_nsec %= 1000000000;
    return at;
}

static __attribute__((noinline)) void in_parent(void) {
    struct timespec at = soon();
    sem_timedwait(&semaphore, &at);
}

static __attribute__((noinline)) void in_child(void) {
    struct timespec at = soon();
    sem_timedwait(&semaphore, &at);
}

static void jumps(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static __attribute__((noinline)) void sleeps(void) {
    for (;;) sem_wait(&semaphore);
}

// What the wait has left on the stack is gone.
static __attribute__((noinline)) void overwrites(void) {
    char bytes[4096];
    memset(bytes, 0x55, sizeof bytes);
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

static void *leaves(void *unused) {
    if (sigsetjmp(back, 1) == 0) {
        is_ready = 1;
        sleeps();
    }
    overwrites();
    is_out = 1;
    pthread_exit(unused);
}

int main(void) {
    pthread_t thread;
    struct sigaction action = {.sa_handler = jumps};
    sem_init(&semaphore, 0, 0);
    in_parent();
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, 0);
    if (child == 0) {
        in_child();
        _exit(0);
    }
    in_parent();
    int status;
    waitpid(child, &status, 0);
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, leaves, NULL);
    while (!is_ready) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    // It jumps out of its wait if it has come that far, and of what is before that otherwise.
    for (int i = 0; i < 50; i++) nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    return is_out && WIFEXITED(status) ? 0 : 1;
}
