package testkit

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Cutter forwards connections to a server, and cuts each connection after a random number of
// bytes. It closes half of the connections after the data was sent, and resets the others.
type Cutter struct {
	listener net.Listener
	target   atomic.Pointer[string]
	most     int64 // maximum number of bytes per connection
	cuts     atomic.Int64
	wanted   int64 // number of connections to cut; further ones are not cut
	done     sync.WaitGroup
}

// NewCutter returns a cutter for the server at address. The cutter listens on loopback until the
// test ends.
func NewCutter(t testing.TB, address string, wanted, most int64) *Cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &Cutter{listener: l, wanted: wanted, most: most}
	c.Aim(address)
	c.done.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.done.Wait()
	})
	return c
}

// Aim makes the cutter forward new connections to another server.
func (c *Cutter) Aim(address string) { c.target.Store(&address) }

// URL returns the URL at which the cutter listens.
func (c *Cutter) URL() string { return "http://" + c.listener.Addr().String() }

// Cuts returns the number of connections that were cut.
func (c *Cutter) Cuts() int64 { return c.cuts.Load() }

func (c *Cutter) accept() {
	rng := rand.New(rand.NewPCG(7, 7))
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		limit, reset := rng.Int64N(c.most), rng.IntN(2) == 0
		c.done.Go(func() { c.pass(conn.(*net.TCPConn), limit, reset) })
	}
}

func (c *Cutter) pass(client *net.TCPConn, limit int64, reset bool) {
	defer func() { _ = client.Close() }()
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", *c.target.Load())
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var sent sync.WaitGroup
	sent.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	defer sent.Wait()
	if c.cuts.Load() >= c.wanted {
		_, _ = io.Copy(client, server)
	} else if n, _ := io.CopyN(client, server, limit); n == limit {
		c.cuts.Add(1)
	}
	if reset {
		_ = client.SetLinger(0)
	}
	_ = client.Close()
}
