// x/time/rate in the row of libraries: a map of limiters behind a mutex.
//
//	rivals KEYS SECONDS
//
// All keys once, then keys in a random order for some seconds. Prints CPU time
// of the process per decision (the garbage collector's too) and resident bytes
// per key.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/time/rate"
)

var (
	mu       sync.Mutex
	limiters = map[string]*rate.Limiter{}
)

func take(key string) {
	mu.Lock()
	limiter, ok := limiters[key]
	if !ok {
		limiter = rate.NewLimiter(rate.Limit(10000.0/86400), 1000000)
		limiters[key] = limiter
	}
	mu.Unlock()
	if !limiter.Allow() {
		panic("denied")
	}
}

func cpu() float64 {
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return float64(usage.Utime.Nano()+usage.Stime.Nano()) / 1e9
}

func resident() float64 {
	runtime.GC()
	text, _ := os.ReadFile("/proc/self/statm")
	pages, _ := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	return pages * float64(os.Getpagesize())
}

func main() {
	count, _ := strconv.Atoi(os.Args[1])
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	keys := make([]string, count)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%07d", i)
	}
	before := resident()
	for _, key := range keys {
		take(key)
	}
	bytes := (resident() - before) / float64(count)
	began, wall := cpu(), time.Now()
	x, done := uint64(88172645463325252), 0
	for time.Since(wall).Seconds() < seconds {
		for i := 0; i < 4096; i++ {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
			take(keys[x%uint64(count)])
		}
		done += 4096
	}
	fmt.Printf("{\"ns\": %.1f, \"bytes\": %.1f, \"decisions\": %d, \"seconds\": %.4f}\n",
		(cpu()-began)*1e9/float64(done), bytes, done, time.Since(wall).Seconds())
}
