// SPDX-License-Identifier: MIT OR Apache-2.0
// The holder shares its processor with a neighbour that never sleeps.
#include "truth.h"

static void section(void) { burn(10000000); }

int main(void) {
    pthread_t busy;
    waiter_cpu = 1;
    pthread_create(&busy, NULL, neighbour, (void *)0);
    pin(0);
    experiment(20, section);
}
