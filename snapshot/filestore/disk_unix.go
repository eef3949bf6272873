//go:build unix

package filestore

import "syscall"

// noWait has open return at once for a pipe. Of a file that is opened so, the
// runtime does not ask the system whether it could be waited for.
const noWait = syscall.O_NONBLOCK

// noFollow has open fail for a link, and return at once for a pipe.
const noFollow = syscall.O_NOFOLLOW | syscall.O_NONBLOCK
