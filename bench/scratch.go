package main

import (
	"os"
	"sync"
)

// scratch is the directory for all files that contestants write.
var scratch struct {
	sync.Mutex
	dir string
}

// tempDir creates a directory in scratch.
func tempDir() (string, error) {
	scratch.Lock()
	defer scratch.Unlock()
	if scratch.dir == "" {
		dir, err := os.MkdirTemp("", "reprise-bench-")
		if err != nil {
			return "", err
		}
		placeApart(dir)
		scratch.dir = dir
	}
	return os.MkdirTemp(scratch.dir, "")
}

// removeScratch removes scratch.
func removeScratch() {
	scratch.Lock()
	defer scratch.Unlock()
	if scratch.dir != "" {
		_ = os.RemoveAll(scratch.dir)
		scratch.dir = ""
	}
}

// broken returns the instance of a contestant that could not be started: each
// call returns err.
func broken(err error) instance {
	return instance{call: func() (int, error) { return 0, err }}
}
