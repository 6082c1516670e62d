// SPDX-License-Identifier: MIT OR Apache-2.0
// Many threads wait at one place, in a function of a known name. What else they do there says whether they wait for
// work, for a token, or for each other. Each line of the table below is a program of its own.
#include "truth.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>

enum { THREADS = 6, ROUNDS = 100 };
#define MS 1000000L
#define PLACE static __attribute__((noinline)) void

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, more = PTHREAD_COND_INITIALIZER;
static int ends[2], files;
static volatile long sink;

static void fails(int is_wrong) { if (is_wrong) { perror("crowds"); exit(3); } }

// Tokens in a pipe, as of make's job server, which threads sleep with.
PLACE at_token(void) { char token; fails(read(ends[0], &token, 1) != 1); }
PLACE gives(void) { fails(write(ends[1], "", 1) != 1); }
static void opens_tokens(void) { fails(pipe(ends)); gives(); gives(); }
static void *jobs(void *unused) {
    for (int i = 0; i < ROUNDS / 2; i++) { at_token(); nap(3 * MS); gives(); }
    return unused;
}

// Work through a pipe, which one thread gives to all others.
PLACE at_work(void) { char work; fails(read(ends[0], &work, 1) != 1); }
static void opens_work(void) { fails(pipe(ends)); }
static void *works(void *unused) {
    for (int i = 0; i < ROUNDS / 2; i++) { at_work(); burn(MS / 10); }
    return unused;
}
static void gives_work(void) { for (int i = 0; i < ROUNDS / 2 * THREADS; i++) { nap(MS); gives(); } }

// A collector stops all others, which compute, by a signal.
static sem_t stopped, goes_on;
static pthread_t threads[THREADS];
static sigset_t only_goes_on;
static int is_by_semaphore;
PLACE at_stop(void) {
    if (is_by_semaphore) sem_wait(&goes_on);
    else sigsuspend(&only_goes_on);
}
static void stops(int unused) {
    int error = errno;
    (void)unused;
    sem_post(&stopped);
    at_stop();
    sem_post(&stopped);
    errno = error;
}
static void nothing_to_do(int signal) { (void)signal; }
static void opens_stops(void) {
    struct sigaction action = {.sa_handler = stops, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    fails(sigaction(SIGUSR1, &action, NULL));
    action.sa_handler = nothing_to_do;
    fails(sigaction(SIGUSR2, &action, NULL));
    sigfillset(&only_goes_on);
    sigdelset(&only_goes_on, SIGUSR2);
    sem_init(&stopped, 0, 0);
    sem_init(&goes_on, 0, 0);
}
static void opens_stops_by_semaphore(void) { opens_stops(); is_by_semaphore = 1; }
static void *computes(void *unused) { while (!is_over) sink++; return unused; }
PLACE collects(void) { nap(20 * MS); }
static void stops_the_world(void) {
    for (int i = 0; i < ROUNDS / 5; i++) {
        nap(20 * MS);
        for (int one = 0; one < THREADS; one++) pthread_kill(threads[one], SIGUSR1);
        for (int one = 0; one < THREADS; one++) sem_wait(&stopped);
        collects();
        for (int one = 0; one < THREADS; one++)
            if (is_by_semaphore) sem_post(&goes_on);
            else pthread_kill(threads[one], SIGUSR2);
        for (int one = 0; one < THREADS; one++) sem_wait(&stopped);
    }
    is_over = 1;
}

// Commits: one of the threads syncs the log for all, and the others wait.
static long asked_for, synced;
static int is_syncing;
static void syncs(void) { nap(2 * MS); }
PLACE at_commit(void) {
    pthread_mutex_lock(&lock);
    long mine = ++asked_for;
    while (synced < mine) {
        if (is_syncing) { pthread_cond_wait(&condition, &lock); continue; }
        is_syncing = 1;
        long until = asked_for;
        pthread_mutex_unlock(&lock);
        syncs();
        pthread_mutex_lock(&lock);
        is_syncing = 0;
        synced = until;
        pthread_cond_broadcast(&condition);
    }
    pthread_mutex_unlock(&lock);
}
static void *commits(void *unused) { for (int i = 0; i < ROUNDS * 4; i++) at_commit(); return unused; }

// The same with a thread of its own that syncs.
PLACE at_commit_of_other(void) {
    pthread_mutex_lock(&lock);
    long mine = ++asked_for;
    pthread_cond_signal(&more);
    while (synced < mine) pthread_cond_wait(&condition, &lock);
    pthread_mutex_unlock(&lock);
}
static void *commits_by_other(void *unused) {
    for (int i = 0; i < ROUNDS * 4; i++) at_commit_of_other();
    return unused;
}
static void syncs_for_all(void) {
    pthread_mutex_lock(&lock);
    while (synced < ROUNDS * 4 * THREADS) {
        while (synced == asked_for) pthread_cond_wait(&more, &lock);
        long until = asked_for;
        pthread_mutex_unlock(&lock);
        syncs();
        pthread_mutex_lock(&lock);
        synced = until;
        pthread_cond_broadcast(&condition);
    }
    pthread_mutex_unlock(&lock);
}

// A crowd that is woken for each task.
static int tasks, left = ROUNDS * 20;
PLACE at_task(void) {
    pthread_mutex_lock(&lock);
    while (!tasks && left) pthread_cond_wait(&condition, &lock);
    if (tasks) { tasks--; left--; }
    pthread_mutex_unlock(&lock);
    burn(MS / 5);
}
static void *does_tasks(void *unused) { while (left) at_task(); return unused; }
static void gives_tasks(void) {
    while (left) {
        nap(MS / 4);
        pthread_mutex_lock(&lock);
        if (tasks < left) tasks++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&lock);
    }
    pthread_cond_broadcast(&condition);
}

// A pool whose idle threads wait for one condition, and are woken one by one.
PLACE at_idle(void) {
    static char bytes[1 << 16];
    pthread_mutex_lock(&lock);
    while (!tasks && left) pthread_cond_wait(&condition, &lock);
    if (tasks) { tasks--; left--; }
    if (!left) pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&lock);
    fails(pread(files, bytes, sizeof bytes, 0) < 0);
}
static void opens_file(void) { files = open("/proc/self/exe", O_RDONLY); fails(files < 0); }
static void *idles(void *unused) { while (left) at_idle(); return unused; }
static void submits(void) {
    for (int i = 0; i < ROUNDS * 20; i++) {
        nap(MS / 4);
        pthread_mutex_lock(&lock);
        tasks++;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&lock);
    }
}

// All threads wait for connections to one socket, each in a set of its own, and one of them has each connection.
static int listens;
static struct sockaddr_in here = {.sin_family = AF_INET};
PLACE at_connection(int set) {
    struct epoll_event event;
    fails(epoll_wait(set, &event, 1, 100) < 0);
    int one = accept4(listens, NULL, NULL, SOCK_NONBLOCK);
    if (one >= 0) { burn(MS / 5); close(one); }
}
static void opens_listener(void) {
    socklen_t length = sizeof here;
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listens = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    fails(bind(listens, (struct sockaddr *)&here, length) || listen(listens, 64));
    fails(getsockname(listens, (struct sockaddr *)&here, &length));
}
static void *serves(void *unused) {
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(0);
    fails(epoll_ctl(set, EPOLL_CTL_ADD, listens, &event));
    while (!is_over) at_connection(set);
    return unused;
}
static void connects(void) {
    for (int i = 0; i < ROUNDS * 10; i++) {
        int one = socket(AF_INET, SOCK_STREAM, 0);
        fails(connect(one, (struct sockaddr *)&here, sizeof here));
        close(one);
        nap(MS);
    }
    is_over = 1;
}

// A lock by the system call that waits for one of several words, whose holder sleeps.
static atomic_int taken, alert;
PLACE at_one_of_two(void) {
    struct futex_waitv words[] = {
        {.val = 0, .uaddr = (uintptr_t)&alert, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
        {.val = 2, .uaddr = (uintptr_t)&taken, .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG},
    };
    while (atomic_exchange(&taken, 2)) syscall(SYS_futex_waitv, words, 2, 0, NULL, 0);
}
static void *takes_one_of_two(void *unused) {
    for (int i = 0; i < ROUNDS; i++) {
        at_one_of_two();
        nap(2 * MS);
        atomic_store(&taken, 0);
        syscall(SYS_futex, &taken, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
    }
    return unused;
}

// More threads than the one processor that they may use.
static void keeps_to_one(void) { pin(0); }
static void *burns(void *unused) { burn(ROUNDS * 2 * MS); return unused; }

// Chains: the threads wait for one that waits for a third. Writers wait for room, which a thread flushes that waits for
// the files that another one deletes (as in pebble#1124).
static pthread_cond_t cleaned = PTHREAD_COND_INITIALIZER;
static long flushes, cleanings, wanted;
static void starts(void *(*thread)(void *), const char *name) {
    pthread_t one;
    fails(pthread_create(&one, NULL, thread, NULL) || pthread_setname_np(one, name));
}
PLACE deletes(void) { nap(5 * MS); }
static void *cleans(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) {
        while (cleanings == wanted) pthread_cond_wait(&more, &lock);
        pthread_mutex_unlock(&lock);
        deletes();
        pthread_mutex_lock(&lock);
        cleanings++;
        pthread_cond_signal(&cleaned);
    }
    return unused;
}
PLACE at_cleaning(void) {
    wanted++;
    pthread_cond_signal(&more);
    while (cleanings < wanted) pthread_cond_wait(&cleaned, &lock);
}
static void *flushes_all(void *unused) {
    pthread_mutex_lock(&lock);
    for (;;) {
        at_cleaning();
        flushes++;
        pthread_cond_broadcast(&condition);
        pthread_mutex_unlock(&lock);
        burn(MS / 10);
        pthread_mutex_lock(&lock);
    }
    return unused;
}
static void opens_flushes(void) { starts(cleans, "cleaner"); starts(flushes_all, "flusher"); }
PLACE at_room(void) {
    pthread_mutex_lock(&lock);
    for (long last = flushes; last == flushes;) pthread_cond_wait(&condition, &lock);
    pthread_mutex_unlock(&lock);
}
static void *writes(void *unused) { for (int i = 0; i < ROUNDS; i++) at_room(); return unused; }

// Clients connect, for which a thread has their mutex while it waits for the network; another one looks at the mutex
// again and again (as in paho.mqtt.c#1125).
PLACE at_network(void) { char byte; fails(recv(ends[0], &byte, 1, 0) != 1); }
static void *answers(void *unused) { for (;;) { nap(8 * MS); fails(write(ends[1], "", 1) != 1); } return unused; }
static void *sends(void *unused) {
    for (;;) { pthread_mutex_lock(&lock); at_network(); pthread_mutex_unlock(&lock); burn(MS / 10); }
    return unused;
}
PLACE at_trylock(void) { if (pthread_mutex_trylock(&lock) == 0) pthread_mutex_unlock(&lock); nap(MS); }
static void *polls(void *unused) { for (;;) at_trylock(); return unused; }
static void opens_network(void) {
    fails(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    starts(answers, "network");
    starts(sends, "sender");
    starts(polls, "poller");
}
PLACE at_connect(void) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); }
static void *clients(void *unused) {
    for (int i = 0; i < ROUNDS / 5; i++) { at_connect(); burn(MS / 10); }
    return unused;
}

// Threads of a cycle wait for the mutex of a nice thread, which has no processor (as in SOEM#193).
static void *is_nice(void *unused) {
    fails(nice(19) != 19);
    for (;;) {
        pthread_mutex_lock(&lock);
        sem_post(&stopped);
        burn(2 * MS);
        pthread_mutex_unlock(&lock);
        nap(MS / 10);
    }
    return unused;
}
static void opens_cycle(void) {
    pin(0);
    sem_init(&stopped, 0, 0);
    starts(is_nice, "nice one");
    sem_wait(&stopped);
    starts(neighbour, "busy");
}
PLACE at_cycle(void) { pthread_mutex_lock(&lock); pthread_mutex_unlock(&lock); nap(MS); }
static void *cycles(void *unused) { for (int i = 0; i < ROUNDS / 10; i++) at_cycle(); return unused; }

// Threads read what another one hands on from an eventfd, for which a third computes.
static int counts[2];
PLACE derives(void) { burn(5 * MS); }
static void *computes_all(void *unused) {
    uint64_t one = 1;
    for (;;) { derives(); fails(write(counts[0], &one, sizeof one) != sizeof one); }
    return unused;
}
PLACE at_count(void) { uint64_t count; fails(read(counts[0], &count, sizeof count) != sizeof count); }
static void *hands_on(void *unused) {
    for (;;) { at_count(); for (int i = 0; i < THREADS; i++) gives(); }
    return unused;
}
static void opens_pipeline(void) {
    opens_work();
    counts[0] = eventfd(0, 0);
    starts(computes_all, "deriver");
    starts(hands_on, "stage");
}
static void *reads_all(void *unused) { for (int i = 0; i < ROUNDS; i++) at_work(); return unused; }

// Threads stand in line for the lock of a file, at two places; the one that has it sleeps.
PLACE parses(void) { nap(2 * MS); }
PLACE at_first(int file) { flock(file, LOCK_EX); }
PLACE at_second(int file) { flock(file, LOCK_EX); }
static void opens_line(void) { files = memfd_create("files", 0); }
static void *stands_in_line(void *unused) {
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", files);
    int file = open(path, O_RDONLY);
    fails(file < 0);
    for (int i = 0; i < ROUNDS / 2; i++) {
        i % 2 ? at_first(file) : at_second(file);
        parses();
        flock(file, LOCK_UN);
    }
    return unused;
}

static void nothing(void) {}
static const struct crowd {
    const char *name;
    void (*opens)(void);
    void *(*threads)(void *);
    void (*meanwhile)(void);
} all[] = {
    {"tokens", opens_tokens, jobs, nothing},
    {"work", opens_work, works, gives_work},
    {"stops", opens_stops, computes, stops_the_world},
    {"semaphore", opens_stops_by_semaphore, computes, stops_the_world},
    {"commits", nothing, commits, nothing},
    {"writer", nothing, commits_by_other, syncs_for_all},
    {"herd", nothing, does_tasks, gives_tasks},
    {"pool", opens_file, idles, submits},
    {"epoll", opens_listener, serves, connects},
    {"waitv", nothing, takes_one_of_two, nothing},
    {"pinned", keeps_to_one, burns, nothing},
    {"flushes", opens_flushes, writes, nothing},
    {"connects", opens_network, clients, nothing},
    {"cycle", opens_cycle, cycles, nothing},
    {"pipeline", opens_pipeline, reads_all, nothing},
    {"line", opens_line, stands_in_line, nothing},
};

int main(int count, char **names) {
    const struct crowd *one = NULL;
    for (const struct crowd *at = all; at < all + sizeof all / sizeof *all; at++)
        if (count > 1 && strcmp(names[1], at->name) == 0) one = at;
    if (one == NULL) return 2;
    one->opens();
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, one->threads, NULL);
    one->meanwhile();
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}
