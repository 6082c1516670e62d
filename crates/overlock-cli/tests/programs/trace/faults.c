// SPDX-License-Identifier: MIT OR Apache-2.0
// The holder touches pages of a file that are not in memory.
#include "truth.h"

#include <fcntl.h>
#include <sys/mman.h>

enum { PAGES = 256, PAGE = 4096 };
static int file;

static void section(void) {
    posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    volatile char *pages = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
    if (pages == MAP_FAILED) exit(3);
    madvise((void *)pages, PAGES * PAGE, MADV_RANDOM);
    for (int i = 0; i < PAGES; i++) (void)pages[i * 97 % PAGES * PAGE];
    munmap((void *)pages, PAGES * PAGE);
}

int main(int argc, char **argv) {
    static char page[PAGE];
    if (argc < 2 || (file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600)) < 0) return 3;
    for (int i = 0; i < PAGES; i++) {
        if (write(file, page, PAGE) != PAGE) return 3;
    }
    fsync(file);
    experiment(20, section);
    unlink(argv[1]);
}
