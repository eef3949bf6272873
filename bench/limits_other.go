//go:build !unix

package main

import "time"

// cpuTime is what this process has used of the processors, with what the
// system did for it; zero where that is not known.
func cpuTime() time.Duration { return 0 }

// enoughFiles says why a process cannot have so many files open.
func enoughFiles(int) error { return nil }
