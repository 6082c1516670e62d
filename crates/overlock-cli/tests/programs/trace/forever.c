// SPDX-License-Identifier: MIT OR Apache-2.0
// Waits for a lock, without end.
#include "truth.h"

static void section(void) { nap(5000000); }

int main(void) { experiment(1000000, section); }
