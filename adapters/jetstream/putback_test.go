package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A server syncs each stream separately. After a loss of power, the end of one stream may be
// several seconds older than the ends of the others.
func TestStoreHealsAfterAStreamWasPutBack(t *testing.T) {
	t.Parallel()
	for _, stream := range []string{"RP_reprise", "RPI_reprise", "RQ_reprise"} {
		t.Run(stream, func(t *testing.T) {
			p := newPutBack(t, stream)
			p.begin(0, 6)
			p.copy()
			p.begin(6, 12)
			for range 3 {
				p.site.ended("r7")
			}
			p.back()
			p.begin(12, 15)
			p.check(15)
			p.end()
		})
	}
}

// TestMessageThatIsNotedAfterTheServerWasRestartedIsCompared simulates a server that is restarted
// after it has acknowledged a message and before the writer notes the message, and that has lost
// the message. The runs of the process may also be lost, so they are opened again.
func TestMessageThatIsNotedAfterTheServerWasRestartedIsCompared(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	s := open(t, conn, jetstream.Options{Lease: longLease})
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	js, err := njs.New(conn)
	require.NoError(t, err)
	records, err := js.Stream(t.Context(), "RP_reprise")
	require.NoError(t, err)
	last, err := records.GetLastMsgForSubject(t.Context(), "rp.reprise.r.run")
	require.NoError(t, err)

	jetstream.NoteWritten(t.Context(), s, last.Sequence, last.Header.Get("Rp-Id"), "the server before")
	require.NoError(t, j.Append(storetest.Records(2, 1)...), "the message is there")
	require.NoError(t, j.Sync(t.Context(), 2))
	jetstream.NoteWritten(t.Context(), s, last.Sequence, "lost", "the server before")
	<-j.Lost()
}

// A putBack restores an old copy of a stream's files.
type putBack struct {
	t         *testing.T
	settings  serverSettings
	server    *process.Process
	workers   []*process.Process
	site      *site
	dir, then string // the directory of the stream's files, and that of their copy
}

func newPutBack(t *testing.T, stream string) *putBack {
	p := &putBack{t: t, settings: oneServer(t), then: filepath.Join(t.TempDir(), "then")}
	var url string
	p.server, _, url = startServer(t, p.settings)
	p.dir = filepath.Join(p.settings.Dir, "jetstream", "$G", "streams", stream)
	p.site = newSite(t, url, jetstream.Options{Lease: lease})
	for range 2 {
		p.workers = append(p.workers, p.site.worker("quiet"))
	}
	return p
}

func (p *putBack) begin(from, to int) {
	for i := from; i < to; i++ {
		p.site.start(fmt.Sprint("r", i), 3)
	}
}

// copy copies the files of the stream.
func (p *putBack) copy() {
	p.server.Kill()
	require.NoError(p.t, os.CopyFS(p.then, os.DirFS(p.dir)))
	p.server, _, _ = startServer(p.t, p.settings)
}

// back kills the server and restores the copied files.
func (p *putBack) back() {
	p.server.Kill()
	require.NoError(p.t, os.RemoveAll(p.dir))
	require.NoError(p.t, os.CopyFS(p.dir, os.DirFS(p.then)))
	p.server, _, _ = startServer(p.t, p.settings)
}

// check waits until each stored run has ended, and until List shows exactly these runs, in their
// current state.
func (p *putBack) check(runs int) {
	store := p.site.client.Store()
	stored := p.stored(runs)
	for _, id := range stored {
		p.site.ended(id)
	}
	p.t.Logf("%d of %d runs are stored", len(stored), runs)
	slices.Sort(stored)
	require.Eventually(p.t, func() bool {
		page, err := store.List(p.t.Context(), snapshot.Filter{})
		if err != nil {
			return false
		}
		var listed []string
		for i := range page.Runs {
			info, err := store.Info(p.t.Context(), page.Runs[i].RunID)
			if err != nil || info.Status != page.Runs[i].Status {
				return false
			}
			listed = append(listed, info.RunID)
		}
		slices.Sort(listed)
		return slices.Equal(stored, listed)
	}, patience, 50*time.Millisecond)
}

// stored returns the runs that exist.
func (p *putBack) stored(runs int) (stored []string) {
	for i := range runs {
		id := fmt.Sprint("r", i)
		p.site.patiently("look at run "+id, func(ctx context.Context) error {
			_, err := p.site.client.Info(ctx, id)
			if err == nil {
				stored = append(stored, id)
			} else if errors.Is(err, snapshot.ErrNotFound) {
				err = nil
			}
			return err
		})
	}
	return stored
}

func (p *putBack) end() {
	for _, w := range p.workers {
		w.Stop()
	}
	p.server.Stop()
	assert.NotEmpty(p.t, p.site.ledger())
}

func TestRunWhoseOpeningIsMissingIsCorrupt(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	s := open(t, conn, jetstream.Options{Lease: longLease})
	j := begin(t, s, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	js, err := njs.New(conn)
	require.NoError(t, err)
	records, err := js.Stream(t.Context(), "RP_reprise")
	require.NoError(t, err)
	last, err := records.GetLastMsgForSubject(t.Context(), "rp.reprise.r.run")
	require.NoError(t, err)
	require.NoError(t, records.Purge(t.Context(), njs.WithPurgeSubject("rp.reprise.r.run"), njs.WithPurgeSequence(last.Sequence)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, err = s.Info(ctx, "run")
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
}
