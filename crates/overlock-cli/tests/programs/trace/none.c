// SPDX-License-Identifier: MIT OR Apache-2.0
// Threads that take a lock each, and never another's.
#include "truth.h"

static void *own(void *unused) {
    pthread_mutex_t mine = PTHREAD_MUTEX_INITIALIZER;
    for (int i = 0; i < 500; i++) {
        pthread_mutex_lock(&mine);
        burn(100000);
        pthread_mutex_unlock(&mine);
    }
    return unused;
}

int main(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, own, NULL);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    printf("{\"kind\":\"truth\"}\n");
}
