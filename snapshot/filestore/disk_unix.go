//go:build unix

package filestore

import "syscall"

// noWait makes open return at once for a pipe. The Go runtime does not use its poller for a file
// opened with this flag.
const noWait = syscall.O_NONBLOCK

// noFollow makes open fail for a link and return at once for a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
