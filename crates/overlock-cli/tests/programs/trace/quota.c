// SPDX-License-Identifier: MIT OR Apache-2.0
// The holder's group has a quota of processor time that its section exceeds. Arguments: the group's
// file of processes, and its statistics.
#include "truth.h"

static const char *statistics;

// Returns for how long the group was stopped: in version 1 in ns, in version 2 in us.
static int64_t stopped(void) {
    char line[128];
    long value = 0;
    FILE *file = fopen(statistics, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "throttled_time %ld", &value) == 1) break;
        if (sscanf(line, "throttled_usec %ld", &value) == 1) {
            value *= 1000;
            break;
        }
    }
    if (file) fclose(file);
    return value;
}

static void section(void) {
    int64_t start = stopped();
    burn(60000000);
    throttled += stopped() - start;
}

int main(int argc, char **argv) {
    FILE *group = argc > 2 ? fopen(argv[1], "w") : NULL;
    if (!group || fprintf(group, "%d", getpid()) < 0 || fclose(group)) return 3;
    statistics = argv[2];
    experiment(8, section);
}
