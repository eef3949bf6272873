package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/jetstream"
	"github.com/reprise-go/reprise/jetstream/jstest"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestStoreInAClusterKeepsTheRulesOfSharedStores(t *testing.T) {
	t.Parallel()
	cluster := jstest.StartCluster(t)
	n := 0
	storetest.RunShared(t, func(t *testing.T) func() snapshot.Store {
		n++
		o := jetstream.Options{Name: fmt.Sprint("s", n), Lease: 3 * time.Second, Replicas: 3}
		return func() snapshot.Store { return open(t, cluster.Connect(), o) }
	})
}

// A group is three servers in processes of their own.
type group struct {
	t        *testing.T
	settings []serverSettings
	servers  []*process.Process
	commands []*exec.Cmd
}

func startGroup(t *testing.T) *group {
	g := &group{t: t}
	ports := freePorts(t, 6)
	for i := range 3 {
		g.settings = append(g.settings, serverSettings{
			Name: fmt.Sprint("server-", i), Port: ports[i], Dir: t.TempDir(),
			Cluster: []int{ports[3+i], ports[3+(i+1)%3], ports[3+(i+2)%3]},
		})
		g.servers, g.commands = append(g.servers, nil), append(g.commands, nil)
		g.start(i)
	}
	return g
}

func freePorts(t *testing.T, n int) (ports []int) {
	var all []net.Listener
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		all, ports = append(all, l), append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	for _, l := range all {
		require.NoError(t, l.Close())
	}
	return ports
}

func (g *group) start(i int) { g.servers[i], g.commands[i], _ = startServer(g.t, g.settings[i]) }

func (g *group) url() string {
	var all []string
	for _, s := range g.settings {
		all = append(all, fmt.Sprint("nats://127.0.0.1:", s.Port))
	}
	return strings.Join(all, ",")
}

// await waits for a cluster in which streams can be made.
func (g *group) await() {
	js, err := njs.New(jstest.Connect(g.t, g.url()))
	require.NoError(g.t, err)
	require.Eventually(g.t, func() bool {
		ctx, cancel := context.WithTimeout(g.t.Context(), time.Second)
		defer cancel()
		_, err := js.CreateOrUpdateStream(ctx, njs.StreamConfig{Name: "READY", Replicas: 3})
		return err == nil
	}, time.Minute, 50*time.Millisecond)
}

// leader is the server that leads the records.
func (g *group) leader(s *site) int {
	js, err := njs.New(s.conn)
	require.NoError(g.t, err)
	leader := -1
	require.Eventually(g.t, func() bool {
		stream, err := js.Stream(g.t.Context(), "RP_reprise")
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		_, err = fmt.Sscanf(stream.CachedInfo().Cluster.Leader, "server-%d", &leader)
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	return leader
}

// TestClusterThatLosesItsLeaderLosesNothing: the leader of the records is killed
// while runs work, and another is stopped for longer than an election takes. A
// follower of each run sees every record once.
func TestClusterThatLosesItsLeaderLosesNothing(t *testing.T) {
	t.Parallel()
	g := startGroup(t)
	g.await()
	s := newSite(t, g.url(), 3)
	workers := []*process.Process{s.worker(""), s.worker("")}
	const runs = 20
	var following sync.WaitGroup
	var going *time.Timer
	defer func() { going.Stop() }()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for i := range runs {
		id := fmt.Sprint("r", i)
		s.start(id, 5)
		following.Go(func() { s.follow(ctx, id) })
		switch i {
		case runs / 4:
			leader := g.leader(s)
			g.servers[leader].Kill()
			g.start(leader)
		case runs / 2:
			leader := g.leader(s)
			require.NoError(t, g.commands[leader].Process.Signal(syscall.SIGSTOP))
			going = time.AfterFunc(5*time.Second, func() { _ = g.commands[leader].Process.Signal(syscall.SIGCONT) })
		}
	}
	for i := range runs {
		s.check(fmt.Sprint("r", i), 5, 0)
	}
	following.Wait()
	for _, w := range workers {
		w.Stop()
	}
}

// follow follows a run to its end, without gap or duplicate.
func (s *site) follow(ctx context.Context, id string) {
	for cursor := (snapshot.Cursor{}); ; {
		for rec, err := range s.client.Store().Follow(ctx, id, cursor) {
			if errors.Is(err, snapshot.ErrUnavailable) {
				break // and again, from the cursor
			}
			if !assert.NoError(s.t, err, "run %s, after record %d", id, cursor.Seq) || !assert.Equal(s.t, cursor.Seq+1, rec.Seq, "run %s", id) {
				return
			}
			cursor = snapshot.Cursor{Generation: rec.Generation, Seq: rec.Seq}
			if rec.Kind.IsCall() && rec.Name == "work" && rec.IsOutcome() {
				return
			}
		}
	}
}
