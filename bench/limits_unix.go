//go:build unix

package main

import (
	"fmt"
	"syscall"
	"time"
)

// cpuTime is what this process has used of the processors, with what the
// system did for it; zero where that is not known.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// enoughFiles says why a process cannot have so many files open. Go has
// already raised the limit as far as it may.
func enoughFiles(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if uint64(limit.Cur) < uint64(n) {
		return fmt.Errorf("it needs %d open files, and %d are allowed: see ulimit -Hn", n, limit.Cur)
	}
	return nil
}
