package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestStoreInAClusterKeepsTheRulesOfSharedStores(t *testing.T) {
	t.Parallel()
	g := startGroup(t) // in separate processes, since several servers in one process have data races
	g.await()
	n := 0
	storetest.RunShared(t, func(t *testing.T) func() snapshot.Store {
		n++
		o := jetstream.Options{Name: fmt.Sprint("s", n), Lease: longLease, Replicas: 3}
		return func() snapshot.Store { return open(t, jstest.Connect(t, g.url()), o) }
	})
}

// A group is one server or a cluster of three, each in its own process.
type group struct {
	t        *testing.T
	settings []serverSettings
	servers  []*process.Process
	commands []*exec.Cmd
	ways     [3][]*proxy // from each server to the others
}

// startOne starts a group of one server.
func startOne(t *testing.T) *group {
	g := &group{t: t, settings: []serverSettings{oneServer(t)}, servers: make([]*process.Process, 1), commands: make([]*exec.Cmd, 1)}
	g.start(0)
	return g
}

func startGroup(t *testing.T) *group {
	g := &group{t: t}
	ports := freePorts(t, 6)
	for i := range 3 {
		set := serverSettings{Name: fmt.Sprint("server-", i), Port: ports[i], Dir: t.TempDir(), Cluster: ports[3+i]}
		for _, to := range []int{(i + 1) % 3, (i + 2) % 3} {
			way := newProxy(t, fmt.Sprint("nats://127.0.0.1:", ports[3+to]))
			g.ways[i] = append(g.ways[i], way)
			set.Routes = append(set.Routes, way.url())
		}
		g.settings = append(g.settings, set)
		g.servers, g.commands = append(g.servers, nil), append(g.commands, nil)
		g.start(i)
	}
	return g
}

func (g *group) start(i int) { g.servers[i], g.commands[i], _ = startServer(g.t, g.settings[i]) }

// all returns the numbers of the servers.
func (g *group) all() (all []int) {
	for i := range g.servers {
		all = append(all, i)
	}
	return all
}

func (g *group) kill(servers ...int) {
	for _, i := range servers {
		g.servers[i].Kill()
	}
}

// revive starts the given servers at the same time, since they need each other.
func (g *group) revive(servers ...int) {
	g.t.Helper()
	for _, i := range servers {
		g.commands[i] = serverCommand(g.t, g.settings[i])
		g.servers[i] = process.Start(g.t, g.commands[i])
	}
	for _, i := range servers {
		_, ok := g.servers[i].Line()
		require.True(g.t, ok)
	}
}

// url returns the URLs of all servers.
func (g *group) url() string {
	var urls []string
	for i := range g.servers {
		urls = append(urls, g.urlOf(i))
	}
	return strings.Join(urls, ",")
}

func (g *group) urlOf(i int) string { return fmt.Sprint("nats://127.0.0.1:", g.settings[i].Port) }

// part cuts off a server from the others, or reconnects it.
func (g *group) part(i int, cut bool) {
	g.ways[i][0].Set(cut, false)
	g.ways[i][1].Set(cut, false)
	g.ways[(i+1)%3][1].Set(cut, false)
	g.ways[(i+2)%3][0].Set(cut, false)
}

// await waits until streams can be created in the cluster.
func (g *group) await() {
	js, err := njs.New(jstest.Connect(g.t, g.url()))
	require.NoError(g.t, err)
	require.Eventually(g.t, func() bool {
		ctx, cancel := context.WithTimeout(g.t.Context(), time.Second)
		defer cancel()
		_, err := js.CreateOrUpdateStream(ctx, njs.StreamConfig{Name: "READY", Replicas: 3})
		return err == nil
	}, patience, 50*time.Millisecond)
}

// leaderOf returns the server that leads the stream of records.
func (g *group) leaderOf(conn *nats.Conn) int { return g.awaitAnother(conn, -1) }

// awaitAnother waits until a server other than the given one leads the stream of records, and
// returns it.
func (g *group) awaitAnother(conn *nats.Conn, than int) int {
	js, err := njs.New(conn)
	require.NoError(g.t, err)
	leader := than
	require.Eventually(g.t, func() bool {
		ctx, cancel := context.WithTimeout(g.t.Context(), time.Second)
		defer cancel()
		stream, err := js.Stream(ctx, "RP_reprise")
		if err != nil || stream.CachedInfo().Cluster == nil {
			return false
		}
		_, err = fmt.Sscanf(stream.CachedInfo().Cluster.Leader, "server-%d", &leader)
		return err == nil && leader != than
	}, patience, 20*time.Millisecond)
	return leader
}

// TestClusterThatLosesItsLeaderLosesNothing kills the leader of the stream of records while runs
// are in progress, and stops another server until there is a new leader. A follower of each run and
// a client of a dashboard must see every record once. With REPRISE_LONG there are more runs.
func TestClusterThatLosesItsLeaderLosesNothing(t *testing.T) {
	t.Parallel()
	g := startGroup(t)
	g.await()
	s := newSite(t, g.url(), jetstream.Options{Lease: lease, Replicas: 3})
	workers := []*process.Process{s.worker(""), s.worker("")}
	runs := 12
	if os.Getenv("REPRISE_LONG") != "" {
		runs = 40
	}
	node := dashboard(t, g.url())
	events := make([][]string, runs)
	var following, shown sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for i := range runs {
		id := fmt.Sprint("r", i)
		s.start(id, 5)
		following.Go(func() { s.follow(ctx, id) })
		shown.Go(func() { events[i] = eventsOf(ctx, t, node, id) })
		switch i {
		case runs / 4:
			leader := g.leaderOf(s.conn)
			g.servers[leader].Kill()
			g.awaitAnother(s.conn, leader)
			g.start(leader)
		case runs / 2:
			leader := g.leaderOf(s.conn)
			others := jstest.Connect(t, g.urlOf((leader+1)%3)+","+g.urlOf((leader+2)%3)) // a client of all three may wait for the stopped server
			require.NoError(t, g.commands[leader].Process.Signal(syscall.SIGSTOP))
			g.awaitAnother(others, leader)
			require.NoError(t, g.commands[leader].Process.Signal(syscall.SIGCONT))
		}
	}
	for i := range runs {
		s.check(fmt.Sprint("r", i), 5, 0)
	}
	following.Wait()
	shown.Wait()
	for i := range runs {
		id := fmt.Sprint("r", i)
		assert.Equal(t, s.eventIDs(id), events[i], "run %s, on the dashboard", id)
	}
	for _, w := range workers {
		w.Stop()
	}
}

// TestLeaderLostDuringAStart kills the leader of the stream of records while a run is being
// started, at a different moment each time. The start is repeated until it is acknowledged, and
// only one run is created. With REPRISE_LONG there are more starts.
func TestLeaderLostDuringAStart(t *testing.T) {
	t.Parallel()
	g := startGroup(t)
	g.await()
	s := newSite(t, g.url(), jetstream.Options{Lease: lease, Replicas: 3})
	worker := s.worker("quiet")
	times := 2
	if os.Getenv("REPRISE_LONG") != "" {
		times = 20
	}
	for i := range times {
		id := fmt.Sprint("r", i)
		leader := g.leaderOf(s.conn)
		began := s.conn.Stats().OutMsgs
		started := make(chan struct{})
		go func() {
			defer close(started)
			s.start(id, 3)
		}()
		require.Eventually(t, func() bool { return s.conn.Stats().OutMsgs > began+uint64(i%8) || isClosed(started) }, patience, time.Microsecond)
		g.servers[leader].Kill()
		<-started
		g.start(leader)
		s.check(id, 3, 0)
	}
	page, err := s.client.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	assert.Len(t, page.Runs, times)
	assert.Len(t, s.ledger(), 3*times)
	worker.Stop()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// TestMessageThatWaitsForAMajorityIsNotMistakenForAnother sends a message again while the leader
// waits for the other servers, which are stopped for a while.
func TestMessageThatWaitsForAMajorityIsNotMistakenForAnother(t *testing.T) {
	t.Parallel()
	g := startGroup(t)
	g.await()
	conn := jstest.Connect(t, g.url())
	o := jetstream.Options{Lease: longLease, Replicas: 3}
	open(t, conn, o) // creates the streams
	leader := g.leaderOf(conn)
	others := []*exec.Cmd{g.commands[(leader+1)%3], g.commands[(leader+2)%3]}
	direct := jstest.Connect(t, g.urlOf(leader)) // the other servers will not answer
	s := open(t, direct, o)
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	for _, other := range others {
		require.NoError(t, other.Process.Signal(syscall.SIGSTOP))
	}
	answers := direct.Stats().InMsgs
	require.NoError(t, j.Append(storetest.Records(2, 1)...))
	synced := make(chan error, 1)
	go func() { synced <- j.Sync(t.Context(), 2) }()
	require.Eventually(t, func() bool { return direct.Stats().InMsgs >= answers+3 || len(synced) > 0 }, patience, 10*time.Millisecond)
	for _, other := range others {
		require.NoError(t, other.Process.Signal(syscall.SIGCONT))
	}
	require.NoError(t, <-synced)
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	run, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	assert.Equal(t, 2, run.Len())
}

// TestMinorityOfAClusterWritesNothing cuts off the server that leads the stream of records from the
// others, together with a worker that is in the middle of a step. The others continue.
func TestMinorityOfAClusterWritesNothing(t *testing.T) {
	t.Parallel()
	g := startGroup(t)
	g.await()
	all := newSite(t, g.url(), jetstream.Options{Lease: lease, Replicas: 3}) // creates the streams
	leader := g.leaderOf(all.conn)
	s := newSite(t, g.urlOf((leader+1)%3)+","+g.urlOf((leader+2)%3), jetstream.Options{Lease: lease, Replicas: 3})
	between := newProxy(t, g.urlOf(leader))
	s.checkAbsence(s.workerCommand("hold after", between.url()), between,
		func() { g.part(leader, true) },
		func() { g.part(leader, false) })
}

// follow follows a run to its end, and checks that no record is missing or repeated.
func (s *site) follow(ctx context.Context, id string) {
	for cursor := (snapshot.Cursor{}); ; {
		for rec, err := range s.client.Store().Follow(ctx, id, cursor) {
			if errors.Is(err, snapshot.ErrUnavailable) {
				break // follow the run again, from the cursor
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

// TestOpenWaitsForALeader calls Open while the server has no majority. Open returns when the other
// servers are back.
func TestOpenWaitsForALeader(t *testing.T) {
	t.Parallel()
	g := startGroup(t)
	g.await()
	conn := jstest.Connect(t, g.urlOf(0))
	for _, other := range g.commands[1:] {
		require.NoError(t, other.Process.Signal(syscall.SIGSTOP))
	}
	js, err := njs.New(conn)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := js.AccountInfo(ctx)
		return err != nil
	}, patience, 10*time.Millisecond, "the server has noticed that it is alone")
	type result struct {
		store *jetstream.Store
		err   error
	}
	opened := make(chan result, 1)
	asked := conn.Stats().OutMsgs
	go func() {
		s, err := jetstream.Open(t.Context(), conn, jetstream.Options{Lease: lease, Replicas: 3})
		opened <- result{s, err}
	}()
	require.Eventually(t, func() bool { return conn.Stats().OutMsgs >= asked+3 || len(opened) > 0 }, patience, 10*time.Millisecond)
	for _, other := range g.commands[1:] {
		require.NoError(t, other.Process.Signal(syscall.SIGCONT))
	}
	r := <-opened
	require.NoError(t, r.err)
	_, err = jetstream.OpenQueue(t.Context(), r.store)
	require.NoError(t, err)
	require.NoError(t, r.store.Close())
}
