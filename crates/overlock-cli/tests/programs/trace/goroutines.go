// SPDX-License-Identifier: MIT OR Apache-2.0
// Goroutines that take one mutex for a while each ("contend"), or sleep for most of the time.
package main

import (
	"os"
	"sync"
	"time"
)

var lock sync.Mutex

func works(until time.Duration) {
	for start := time.Now(); time.Since(start) < until; {
	}
}

func main() {
	var all sync.WaitGroup
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func() {
			for round := 0; round < 40; round++ {
				if os.Args[1] == "contend" {
					lock.Lock()
					works(time.Millisecond)
					lock.Unlock()
				} else {
					time.Sleep(10 * time.Millisecond)
				}
			}
			all.Done()
		}()
	}
	all.Wait()
}
