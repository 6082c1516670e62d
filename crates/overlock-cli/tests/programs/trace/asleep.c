// SPDX-License-Identifier: MIT OR Apache-2.0
// The holder sleeps for a time.
#include "truth.h"

static void section(void) { nap(20000000); }

int main(void) { experiment(20, section); }
