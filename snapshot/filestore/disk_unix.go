//go:build unix

package filestore

import "syscall"

// noFollow has open fail for a link, and return at once for a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
