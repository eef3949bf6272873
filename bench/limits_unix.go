//go:build unix

package main

import (
	"fmt"
	"syscall"
	"time"
)

// cpuTime returns the user and system CPU time of this process, or zero if it is unknown.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// checkFileLimit returns an error if the process cannot open n files. Go has already
// raised the limit as far as possible.
func checkFileLimit(n int) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	if uint64(limit.Cur) < uint64(n) {
		return fmt.Errorf("%d open files are needed, but only %d are allowed: see ulimit -Hn", n, limit.Cur)
	}
	return nil
}
