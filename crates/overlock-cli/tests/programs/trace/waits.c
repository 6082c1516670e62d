// SPDX-License-Identifier: MIT OR Apache-2.0
// One thread waits, in a function of a known name, and another one ends that, in rounds. The program keeps its own
// record of how long the waits were, and prints it. Each line of the table below is a program of its own.
#include "truth.h"
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { ROUNDS = 12, NAP_NS = 30000000 };
#define PLACE static __attribute__((noinline)) void
#define SLOW static __attribute__((noinline, optimize("O0"))) void

static int ends[2], files[2], queue;
static pthread_t waiting, helper;
static pid_t child;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t both;
static sem_t semaphore;
static atomic_int word;
static int is_told;
static volatile long sink;

static void nothing(void) {}
static void writes(void) { if (write(ends[1], &(uint64_t){1}, 8) != 8) exit(3); }
static void reads(int from) { uint64_t bytes; if (read(from, &bytes, 8) != 8) exit(3); }
static void frees(void) { atomic_store(&word, 0); }
static void takes(void) { atomic_store(&word, 1); }

static void lock_mutex(void) { pthread_mutex_lock(&lock); }
static void unlock_mutex(void) { pthread_mutex_unlock(&lock); }
PLACE at_mutex(void) { lock_mutex(); unlock_mutex(); }
PLACE at_timed(void) {
    pthread_mutex_timedlock(&lock, &(struct timespec){.tv_sec = 1L << 40});
    unlock_mutex();
}
static pthread_mutex_t heir;
static void makes_heir(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&heir, &attributes);
}
static void lock_heir(void) { pthread_mutex_lock(&heir); }
static void unlock_heir(void) { pthread_mutex_unlock(&heir); }
PLACE at_heir(void) { lock_heir(); unlock_heir(); }
static void lock_stdout(void) { flockfile(stdout); }
static void unlock_stdout(void) { funlockfile(stdout); }
PLACE at_stdout(void) { puts("{}"); __asm__ volatile(""); }
PLACE my_lock(void) { pthread_mutex_lock(&lock); __asm__ volatile(""); }
PLACE at_wrapper(void) { my_lock(); unlock_mutex(); }
static void lock_to_write(void) { pthread_rwlock_wrlock(&rwlock); }
static void lock_to_read(void) { pthread_rwlock_rdlock(&rwlock); }
static void unlock(void) { pthread_rwlock_unlock(&rwlock); }
PLACE at_reader(void) { lock_to_read(); unlock(); }
PLACE at_writer(void) { lock_to_write(); unlock(); }
PLACE at_condition(void) {
    pthread_mutex_lock(&lock);
    while (!is_told) pthread_cond_wait(&condition, &lock);
    is_told = 0;
    pthread_mutex_unlock(&lock);
}
static void tells(void) {
    pthread_mutex_lock(&lock);
    is_told = 1;
    pthread_mutex_unlock(&lock);
    pthread_cond_signal(&condition);
}
PLACE at_semaphore(void) { sem_wait(&semaphore); }
static void posts(void) { sem_post(&semaphore); }
PLACE at_barrier(void) { pthread_barrier_wait(&both); }
static void comes(void) { pthread_barrier_wait(&both); }
static void *reads_one(void *unused) { reads(ends[0]); return unused; }
static void starts(void) { pthread_create(&helper, NULL, reads_one, NULL); }
PLACE at_join(void) { pthread_join(helper, NULL); }
static long futex(int op, int value) { return syscall(SYS_futex, &word, op | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0); }
static void takes_raw(void) { atomic_store(&word, 2); }
PLACE at_futex(void) { while (atomic_load(&word) == 2) futex(FUTEX_WAIT, 2); }
static void frees_raw(void) { frees(); futex(FUTEX_WAKE, 1); }

static void opens_pipe(void) { if (pipe(ends)) exit(3); }
static void opens_sockets(void) { if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends)) exit(3); }
static void opens_eventfd(void) { ends[0] = ends[1] = eventfd(0, 0); }
PLACE at_read(void) { reads(ends[0]); }
PLACE at_receive(void) { uint64_t bytes; if (recv(ends[0], &bytes, 8, 0) != 8) exit(3); }
PLACE at_poll(void) { poll(&(struct pollfd){ends[0], POLLIN, 0}, 1, -1); reads(ends[0]); }
PLACE at_select(void) {
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    select(ends[0] + 1, &set, NULL, NULL, NULL);
    reads(ends[0]);
}
static void opens_epoll(void) {
    opens_pipe();
    queue = epoll_create1(0);
    epoll_ctl(queue, EPOLL_CTL_ADD, ends[0], &(struct epoll_event){.events = EPOLLIN});
}
PLACE at_epoll(void) { struct epoll_event event; epoll_wait(queue, &event, 1, -1); reads(ends[0]); }
static void opens_files(void) {
    for (int i = 0; i < 2; i++) {
        char path[64];
        snprintf(path, sizeof path, "/tmp/overlock-waits-%d", getpid());
        files[i] = open(path, O_RDWR | O_CREAT, 0600);
        if (i == 1) unlink(path);
    }
}
static void flock_file(void) { flock(files[0], LOCK_EX); }
static void unflock_file(void) { flock(files[0], LOCK_UN); }
PLACE at_flock(void) { flock(files[1], LOCK_EX); flock(files[1], LOCK_UN); }
static void range(int file, int how, short type) { fcntl(file, how, &(struct flock){.l_type = type}); }
static void lock_range(void) { range(files[0], F_OFD_SETLK, F_WRLCK); }
static void unlock_range(void) { range(files[0], F_OFD_SETLK, F_UNLCK); }
PLACE at_fcntl(void) {
    fcntl(files[1], F_OFD_SETLKW, &(struct flock){.l_type = F_WRLCK});
    range(files[1], F_OFD_SETLK, F_UNLCK);
}
static void opens_semaphore(void) { queue = semget(IPC_PRIVATE, 1, 0600); }
static void adds(void) { semop(queue, &(struct sembuf){0, 1, 0}, 1); }
PLACE at_semop(void) { semop(queue, &(struct sembuf){0, -1, 0}, 1); }
static void removes_semaphore(void) { semctl(queue, 0, IPC_RMID); }
struct message { long type; char text[8]; };
static void opens_messages(void) { queue = msgget(IPC_PRIVATE, 0600); }
static void sends(void) { msgsnd(queue, &(struct message){1, "x"}, 8, 0); }
PLACE at_message(void) { struct message message; msgrcv(queue, &message, 8, 0, 0); }
static void removes_messages(void) { msgctl(queue, IPC_RMID, NULL); }
static void blocks_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}
static void signals(void) { pthread_kill(waiting, SIGUSR1); }
PLACE at_signal(void) {
    sigset_t set;
    int signal;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigwait(&set, &signal);
}
static void forks(void) {
    child = fork();
    if (child == 0) { nap(NAP_NS); _exit(0); }
}
PLACE at_child(void) { waitpid(child, NULL, 0); }
PLACE at_sleep(void) { nap(NAP_NS); }

PLACE at_pause(void) { while (atomic_load(&word)) __builtin_ia32_pause(); }
PLACE at_looks(void) { while (atomic_load_explicit(&word, memory_order_relaxed)) {} }
// The pause is far from the loop's head, behind the return.
PLACE at_branch(void) {
    for (long rounds = 0; __builtin_expect(atomic_load(&word), 0); rounds++) {
        __builtin_ia32_pause();
        if (__builtin_expect(rounds == 1L << 40, 0)) sink = rounds;
    }
}
// With a frame, whose variables are below RBP.
SLOW at_frame(void) { while (__atomic_exchange_n((int *)&word, 1, __ATOMIC_ACQUIRE)) {} }
// It counts between two attempts.
PLACE at_backoff(void) {
    for (int n = 1; atomic_exchange(&word, 1); n = n < 4096 ? n * 2 : n)
        for (int i = 0; i < n; i++) __asm__ volatile("");
}
PLACE at_yield(void) { while (atomic_load(&word)) sched_yield(); }
// It works: a limit in memory, and counts.
PLACE at_count(void) {
    static volatile long limit = 40000000;
    for (long i = 0; i < limit; i++) {}
}

static const struct experiment {
    const char *name;
    void (*opens)(void), (*begins)(void), (*waits)(void), (*ends)(void), (*closes)(void);
} all[] = {
    {"mutex", nothing, lock_mutex, at_mutex, unlock_mutex, nothing},
    {"timed", nothing, lock_mutex, at_timed, unlock_mutex, nothing},
    {"heir", makes_heir, lock_heir, at_heir, unlock_heir, nothing},
    {"stdout", nothing, lock_stdout, at_stdout, unlock_stdout, nothing},
    {"wrapper", nothing, lock_mutex, at_wrapper, unlock_mutex, nothing},
    {"reader", nothing, lock_to_write, at_reader, unlock, nothing},
    {"writer", nothing, lock_to_read, at_writer, unlock, nothing},
    {"condition", nothing, nothing, at_condition, tells, nothing},
    {"semaphore", nothing, nothing, at_semaphore, posts, nothing},
    {"barrier", nothing, nothing, at_barrier, comes, nothing},
    {"join", opens_pipe, starts, at_join, writes, nothing},
    {"futex", nothing, takes_raw, at_futex, frees_raw, nothing},
    {"pipe", opens_pipe, nothing, at_read, writes, nothing},
    {"eventfd", opens_eventfd, nothing, at_read, writes, nothing},
    {"socket", opens_sockets, nothing, at_receive, writes, nothing},
    {"poll", opens_pipe, nothing, at_poll, writes, nothing},
    {"select", opens_pipe, nothing, at_select, writes, nothing},
    {"epoll", opens_epoll, nothing, at_epoll, writes, nothing},
    {"flock", opens_files, flock_file, at_flock, unflock_file, nothing},
    {"fcntl", opens_files, lock_range, at_fcntl, unlock_range, nothing},
    {"semop", opens_semaphore, nothing, at_semop, adds, removes_semaphore},
    {"message", opens_messages, nothing, at_message, sends, removes_messages},
    {"signal", blocks_signal, nothing, at_signal, signals, nothing},
    {"child", nothing, forks, at_child, nothing, nothing},
    {"sleep", nothing, nothing, at_sleep, nothing, nothing},
    {"pause", nothing, takes, at_pause, frees, nothing},
    {"looks", nothing, takes, at_looks, frees, nothing},
    {"branch", nothing, takes, at_branch, frees, nothing},
    {"frame", nothing, takes, at_frame, frees, nothing},
    {"backoff", nothing, takes, at_backoff, frees, nothing},
    {"yield", nothing, takes, at_yield, frees, nothing},
    {"count", nothing, nothing, at_count, nothing, nothing},
};

static const struct experiment *one;
static int64_t longest, used;

static void *waits_for_it(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        sem_wait(&asked);
        int64_t without = delay(), start = now(), spent = cpu();
        one->waits();
        int64_t length = now() - start;
        used += cpu() - spent;
        delayed += delay() - without;
        waited += length;
        if (length > longest) longest = length;
        sem_post(&answered);
    }
    return unused;
}

int main(int count, char **names) {
    for (const struct experiment *at = all; at < all + sizeof all / sizeof *all; at++)
        if (count > 1 && strcmp(names[1], at->name) == 0) one = at;
    if (one == NULL) return 2;
    sem_init(&asked, 0, 0);
    sem_init(&answered, 0, 0);
    sem_init(&semaphore, 0, 0);
    pthread_barrier_init(&both, NULL, 2);
    one->opens();
    pthread_create(&waiting, NULL, waits_for_it, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        one->begins();
        sem_post(&asked);
        nap(NAP_NS);
        one->ends();
        sem_wait(&answered);
    }
    pthread_join(waiting, NULL);
    one->closes();
    printf("{\"kind\":\"truth\",\"waited\":%ld,\"delayed\":%ld,\"longest\":%ld,\"used\":%ld,\"cpu\":%ld}\n",
           (long)waited, (long)delayed, (long)longest, (long)used, (long)clock_ns(CLOCK_PROCESS_CPUTIME_ID));
}
