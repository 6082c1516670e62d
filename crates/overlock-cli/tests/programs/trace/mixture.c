// SPDX-License-Identifier: MIT OR Apache-2.0
// The holder's section is long, and then it sleeps for a time.
#include "truth.h"

static void section(void) {
    burn(10000000);
    nap(10000000);
}

int main(void) { experiment(20, section); }
