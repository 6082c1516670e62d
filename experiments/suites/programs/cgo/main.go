// Goroutines that call C, whose mutex and condition variable are pthread's; prints the sums.
package main

/*
#include <pthread.h>
static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
static long count, turns;
static void add(void) {
	pthread_mutex_lock(&m);
	count++;
	pthread_cond_broadcast(&c);
	pthread_mutex_unlock(&m);
}
static long until(long least) {
	pthread_mutex_lock(&m);
	while (count < least)
		pthread_cond_wait(&c, &m);
	turns++;
	long seen = count;
	pthread_mutex_unlock(&m);
	return seen;
}
static long read_turns(void) { return turns; }
*/
import "C"

import (
	"fmt"
	"net"
	"os/exec"
	"os/user"
	"runtime"
	"sync"
)

func main() {
	var wait sync.WaitGroup
	for n := 0; n < 64; n++ {
		wait.Add(2)
		go func() {
			defer wait.Done()
			for i := 0; i < 500; i++ {
				C.add()
				if i%100 == 0 {
					runtime.GC()
				}
			}
		}()
		go func() { defer wait.Done(); C.until(C.long(n * 500)) }()
	}
	wait.Wait()
	out, err := exec.Command("echo", "child").Output()
	me, _ := user.Current()
	at, _ := net.LookupHost("localhost")
	fmt.Println(C.until(32000), C.read_turns(), string(out), err, me.Uid != "", len(at) > 0)
}
