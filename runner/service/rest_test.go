package service

import (
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/streamer"
)

// A service uses less than a kilobyte of memory for each idle thread, most of it for the store's
// index. REPRISE_THREADS sets the number of threads, and TMPDIR the directory for the store.
func TestThreadsAtRestCostLittleMemory(t *testing.T) {
	threads := 200
	if text := os.Getenv("REPRISE_THREADS"); text != "" {
		var err error
		threads, err = strconv.Atoi(text)
		require.NoError(t, err, "REPRISE_THREADS")
	}
	dir := t.TempDir()
	began := time.Now()
	speakInEach(t, dir, threads)
	t.Logf("%d threads have had a turn in %v", threads, time.Since(began).Round(time.Millisecond))
	empty, _ := restingHeap(t, t.TempDir(), math.MaxInt)
	most := empty + 1<<10*threads + 1<<20
	full, turns := restingHeap(t, dir, most)
	t.Logf("%d bytes of memory per thread", (full-empty)/threads)
	assert.LessOrEqual(t, full, most)
	assert.Len(t, turns, 2, "an idle thread can be continued")
}

// speakInEach stores the given number of threads, each with one turn. It runs only the turn of the
// first thread, and copies it to the others.
func speakInEach(t *testing.T, dir string, threads int) {
	t.Helper()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	url, stop := served(t, Options{Store: store, Thread: "assistant"}, registerAssistant)
	turn, err := (&streamer.Client{URL: url}).Send(t.Context(), "thread-0", streamer.ThreadMessage{Text: "hello"})
	require.NoError(t, err)
	until(t, url, turn.RunID, "run_completed")
	stop()
	first, err := store.Load(t.Context(), turn.RunID)
	require.NoError(t, err)
	require.Equal(t, snapshot.StatusCompleted, first.Status)
	var making sync.WaitGroup
	for worker := range 16 {
		making.Go(func() {
			for n := 1 + worker; n < threads; n += 16 {
				_, err := store.Create(t.Context(), inThread(t, first, fmt.Sprint("thread-", n)))
				assert.NoError(t, err)
			}
		})
	}
	making.Wait()
	require.NoError(t, store.Close())
}

// inThread returns a copy of a turn of thread-0 as a turn of another thread.
func inThread(t *testing.T, first *snapshot.Run, thread string) *snapshot.Run {
	renamed := strings.NewReplacer("thread-0", thread)
	info := first.Info.Clone()
	info.RunID = renamed.Replace(info.RunID)
	for i, tag := range info.Metadata.Tags {
		info.Metadata.Tags[i] = renamed.Replace(tag)
	}
	for key, value := range info.Metadata.Custom {
		info.Metadata.Custom[key] = renamed.Replace(value)
	}
	run, err := snapshot.NewRun(info, first.Records())
	assert.NoError(t, err)
	return run
}

func registerAssistant(r *runner.Runner) error {
	runner.Register(r, conversation.NewProgram(r.Store(), assistant(new(atomic.Int64))))
	return nil
}

// restingHeap returns the memory of a service that has read its directory. If that is more than most
// bytes, it waits ten seconds for the service to come to rest. It then sends a message to a thread,
// and returns the turns of the thread.
func restingHeap(t *testing.T, dir string, most int) (bytes int, turns []streamer.ThreadTurn) {
	t.Helper()
	before := heap()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	url, stop := served(t, Options{Store: store, Thread: "assistant"}, registerAssistant)
	for {
		if status, _ := do(t, http.MethodGet, url+"readyz", ""); status == http.StatusOK {
			break
		}
	}
	client := &streamer.Client{URL: url}
	_, err = client.Runs(t.Context(), 1) // reads the index
	require.NoError(t, err)
	http.DefaultClient.CloseIdleConnections()
	bytes = heap() - before
	for late := time.After(10 * time.Second); bytes > most; bytes = heap() - before {
		select {
		case <-time.After(10 * time.Millisecond):
			continue
		case <-late:
		}
		break
	}
	turn, err := client.Send(t.Context(), "thread-7", streamer.ThreadMessage{Text: "again"})
	require.NoError(t, err)
	until(t, url, turn.RunID, "run_completed")
	turns, err = client.Thread(t.Context(), "thread-7")
	require.NoError(t, err)
	stop()
	require.NoError(t, store.Close())
	return bytes, turns
}

// heap returns the number of heap bytes in use after a garbage collection.
func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
