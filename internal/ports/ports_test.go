package ports_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/ports"
)

func TestPortsAreFreeAndDifferent(t *testing.T) {
	first, err := ports.Free(30)
	require.NoError(t, err)
	second, err := ports.Free(30)
	require.NoError(t, err)
	seen := map[int]bool{}
	for _, port := range append(first, second...) {
		assert.False(t, seen[port], "%d comes twice", port)
		seen[port] = true
		assert.Less(t, port, 32768, "the system assigns ephemeral ports from 32768 on")
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", port))
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Close() })
	}
}

func TestPortInUseIsNotFree(t *testing.T) {
	for taken := 0; ; taken++ {
		free, err := ports.Free(1)
		if err != nil {
			assert.Positive(t, taken)
			assert.ErrorContains(t, err, "0 are free; want 1")
			assert.ErrorContains(t, err, "address already in use")
			return
		}
		l, err := net.Listen("tcp", fmt.Sprint("127.0.0.1:", free[0]))
		require.NoError(t, err, "the port is in use")
		t.Cleanup(func() { _ = l.Close() })
	}
}
