package jetstream_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
)

// TestClusterHealsAfterAStreamWasPutBackOnOneServer expects that nothing is lost, since the other
// servers have everything.
func TestClusterHealsAfterAStreamWasPutBackOnOneServer(t *testing.T) {
	t.Parallel()
	p := newGroupPutBack(t)
	p.begin(0, 4)
	one := []int{p.group.leaderOf(p.site.conn)}
	p.group.kill(one...)
	p.keep(one)
	p.revive(one)
	p.begin(4, 8)
	p.site.ended("r5")
	p.group.kill(one...)
	p.restore(one)
	p.revive(one)
	p.begin(8, 10)
	require.Len(t, p.stored(10), 10, "the other servers have the runs")
	p.check(10)
	p.end()
}

// TestClusterHealsAfterAStreamWasPutBackOnAllServers puts a stream back on all servers, as after a
// loss of power on all of them. With REPRISE_LONG, this is done for each of the streams in turn.
func TestClusterHealsAfterAStreamWasPutBackOnAllServers(t *testing.T) {
	t.Parallel()
	streams := []string{"RP_reprise"}
	if os.Getenv("REPRISE_LONG") != "" {
		streams = append(streams, "RPI_reprise", "RQ_reprise")
	}
	for _, stream := range streams {
		t.Run(stream, func(t *testing.T) {
			p := newGroupPutBack(t)
			p.stream = stream
			all := p.group.all()
			p.begin(0, 4)
			p.group.kill(all...)
			p.keep(all)
			p.revive(all)
			p.begin(4, 8)
			p.site.ended("r5")
			p.group.kill(all...)
			p.restore(all)
			p.revive(all)
			p.begin(8, 10)
			p.check(10)
			p.end()
		})
	}
}

// A groupPutBack restores old files of a stream on the servers of a cluster.
type groupPutBack struct {
	putBack
	group  *group
	stream string
	kept   string
}

func newGroupPutBack(t *testing.T) *groupPutBack {
	p := &groupPutBack{putBack: putBack{t: t}, group: startGroup(t), stream: "RP_reprise", kept: t.TempDir()}
	p.group.await()
	p.site = newSite(t, p.group.url(), jetstream.Options{Lease: lease, Replicas: 3})
	for range 2 {
		p.workers = append(p.workers, p.site.worker("quiet"))
	}
	return p
}

// revive starts the given servers and waits for a leader.
func (p *groupPutBack) revive(servers []int) {
	p.t.Helper()
	p.group.revive(servers...)
	p.group.leaderOf(p.site.conn)
}

// dirs returns the directories that a server has for the stream and for the stream's log.
func (p *groupPutBack) dirs(server int) []string {
	root := filepath.Join(p.group.settings[server].Dir, "jetstream")
	return []string{filepath.Join(root, "$G", "streams", p.stream), filepath.Join(root, "$SYS", "_js_", p.log(server))}
}

// log returns the name of the stream's log. The first time, it asks the server, which must be
// running, and stores the name.
func (p *groupPutBack) log(server int) string {
	p.t.Helper()
	name, err := os.ReadFile(filepath.Join(p.kept, "log"))
	if err == nil {
		return string(name)
	}
	var answer struct {
		Cluster struct {
			Log string `json:"raft_group"`
		} `json:"cluster"`
	}
	require.Eventually(p.t, func() bool {
		m, err := p.site.conn.Request("$JS.API.STREAM.INFO."+p.stream, nil, time.Second)
		return err == nil && json.Unmarshal(m.Data, &answer) == nil && answer.Cluster.Log != ""
	}, patience, 50*time.Millisecond, "of server %d", server)
	require.NoError(p.t, os.WriteFile(filepath.Join(p.kept, "log"), []byte(answer.Cluster.Log), 0o600))
	return answer.Cluster.Log
}

// begin starts runs and determines the name of the log.
func (p *groupPutBack) begin(from, to int) {
	p.putBack.begin(from, to)
	p.log(0)
}

func (p *groupPutBack) copyOf(server, i int) string {
	return filepath.Join(p.kept, fmt.Sprint(server, "-", i))
}

// keep copies the files of servers that are not running.
func (p *groupPutBack) keep(servers []int) {
	p.t.Helper()
	for _, server := range servers {
		for i, dir := range p.dirs(server) {
			require.NoError(p.t, os.CopyFS(p.copyOf(server, i), os.DirFS(dir)))
		}
	}
}

func (p *groupPutBack) restore(servers []int) {
	p.t.Helper()
	for _, server := range servers {
		for i, dir := range p.dirs(server) {
			require.NoError(p.t, os.RemoveAll(dir))
			require.NoError(p.t, os.CopyFS(dir, os.DirFS(p.copyOf(server, i))))
		}
	}
}

func (p *groupPutBack) end() {
	for _, w := range p.workers {
		w.Stop()
	}
	require.NotEmpty(p.t, p.site.ledger())
}
