package jstest

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/reprise-go/reprise/internal/ports"
)

// A Cluster is three servers that replicate their streams.
type Cluster struct {
	t       testing.TB
	Servers []*Server
}

// StartCluster starts a cluster of three servers and returns when it has a leader.
func StartCluster(t testing.TB, options ...Option) *Cluster {
	t.Helper()
	const size = 3
	routePorts := freePorts(t, size)
	routes := make([]*url.URL, size)
	for i, port := range routePorts {
		routes[i] = &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)}
	}
	c := &Cluster{t: t}
	dir := t.TempDir()
	for i, port := range routePorts {
		o := optionsIn(t, dir, fmt.Sprintf("jstest-%d", i+1), options)
		o.Cluster = server.ClusterOpts{Name: "jstest", Host: "127.0.0.1", Port: port}
		o.Routes = routes
		c.Servers = append(c.Servers, start(t, o))
	}
	c.await("the cluster has a leader", func() bool {
		leaders, current := 0, 0
		for _, s := range c.Servers {
			if s.server.JetStreamIsLeader() {
				leaders++
			}
			if s.server.JetStreamIsCurrent() {
				current++
			}
		}
		return leaders == 1 && current == size
	})
	return c
}

// freePorts returns n ports that are currently free.
func freePorts(t testing.TB, n int) []int {
	t.Helper()
	free, err := ports.Free(n)
	if err != nil {
		t.Fatalf("jstest: %v", err)
	}
	return free
}

// URL returns the URL for clients, which names all servers.
func (c *Cluster) URL() string {
	all := make([]string, len(c.Servers))
	for i, s := range c.Servers {
		all[i] = s.URL()
	}
	return strings.Join(all, ",")
}

// Connect connects to any of the servers. The connection is closed at the end of the test.
func (c *Cluster) Connect(options ...nats.Option) *nats.Conn {
	c.t.Helper()
	return Connect(c.t, c.URL(), options...)
}

// Leader waits until a stream has a leader, and returns the leader.
func (c *Cluster) Leader(stream string) *Server {
	c.t.Helper()
	var leader *Server
	c.await("the stream "+stream+" has a leader", func() bool {
		for _, s := range c.Servers {
			if s.server != nil && s.server.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				leader = s
				return true
			}
		}
		return false
	})
	return leader
}

// await polls until isSo returns true, since the servers do not signal changes.
func (c *Cluster) await(what string, isSo func() bool) {
	c.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(readyTimeout); !isSo(); {
		select {
		case <-tick.C:
		case <-limit:
			c.t.Fatalf("jstest: not true after %v: %s", readyTimeout, what)
		}
	}
}
