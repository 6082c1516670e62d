// SPDX-License-Identifier: MIT OR Apache-2.0

// Goroutines wait for a mutex of Go's runtime. Because of C it is linked dynamically.
package main

import "C"
import (
	"sync"
	"time"
)

func main() {
	var lock sync.Mutex
	var group sync.WaitGroup
	lock.Lock()
	for i := 0; i < 4; i++ {
		group.Add(1)
		go func() {
			lock.Lock()
			lock.Unlock()
			group.Done()
		}()
	}
	time.Sleep(20 * time.Millisecond)
	lock.Unlock()
	group.Wait()
}
