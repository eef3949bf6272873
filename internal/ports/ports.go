package ports

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// The ports starting at lowest are divided into ranges of perProcess ports, and each process uses
// one range. All ranges are below 32768, because Linux, macOS and Windows assign ephemeral ports
// only from 32768 up.
const (
	lowest     = 10_000
	ranges     = 300
	perProcess = 64
)

// tried counts the ports that this process has tried. It is global because ports
// belong to the process.
var tried atomic.Int64

// Free returns n ports, at most 64, on which nothing listens on 127.0.0.1. The system does not
// assign these ports to other programs, even while their server is down. A port is returned again
// only after the 63 other ports of the process have been tried. Free is safe for concurrent use.
func Free(n int) ([]int, error) {
	first := lowest + os.Getpid()%ranges*perProcess
	var free []int
	var refused error
	for range perProcess {
		if len(free) == n {
			return free, nil
		}
		port := first + int((tried.Add(1)-1)%perProcess)
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
		return nil, fmt.Errorf("ports: in %d to %d, %d are free; want %d: %w", first, first+perProcess-1, len(free), n, refused)
	}
	return free, nil
}
