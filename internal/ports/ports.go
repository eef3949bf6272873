package ports

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// A process has perProcess ports of its own, from one of the ranges that begin
// at lowest. All ranges are below 32768: Linux, macOS and Windows give ports from
// there on to those who ask for any, and to connections.
const (
	lowest     = 10_000
	ranges     = 300
	perProcess = 64
)

// given counts the ports that this process has looked at. It is the state of the
// process, as its ports are.
var given atomic.Int64

// Free returns n ports, 64 at most, that nobody listens to on 127.0.0.1. The
// system gives none of them to anybody else while its server is away. A port is
// returned again after 64 others. It is for many goroutines.
func Free(n int) ([]int, error) {
	first := lowest + os.Getpid()%ranges*perProcess
	var free []int
	var refused error
	for range perProcess {
		if len(free) == n {
			return free, nil
		}
		port := first + int((given.Add(1)-1)%perProcess)
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		if err != nil {
			refused = errors.Join(refused, err)
			continue
		}
		if err := l.Close(); err != nil {
			return nil, err
		}
		free = append(free, port)
	}
	if len(free) < n {
		return nil, fmt.Errorf("ports: of %d to %d, %d are free; want %d: %w", first, first+perProcess-1, len(free), n, refused)
	}
	return free, nil
}
