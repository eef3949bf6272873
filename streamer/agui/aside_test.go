package agui_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// silent returns an assistant whose model does not answer before its context ends.
func silent(model string) conversation.Agent {
	return actors.NewAgent("assistant", actors.NewLLM(model, func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		<-ctx.Done()
		return actors.Response{}, context.Cause(ctx)
	}))
}

// beginTurn begins a turn with a silent assistant, and stops the service once the model is called.
func beginTurn(t *testing.T, store snapshot.Store) {
	t.Helper()
	url, stop := serve(t, store, silent("old"))
	resp, err := http.Post(url+"agui/assistant", "application/json", strings.NewReader(say("a", "hello")))
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	for rec, err := range store.Follow(t.Context(), "a-0001", snapshot.Cursor{}) {
		require.NoError(t, err)
		if rec.Kind == record.KindLLM && rec.Status == record.StatusStarted {
			break
		}
	}
	stop()
	_, _ = io.Copy(io.Discard, resp.Body)
}

// untilStop waits until the run is interrupted for the given reason.
func untilStop(t *testing.T, store snapshot.Store, reason record.InterruptReason) {
	t.Helper()
	for event, err := range store.Watch(t.Context(), snapshot.WatchOptions{RunID: "a-0001"}) {
		require.NoError(t, err)
		if event.Info.Status == snapshot.StatusInterrupted && event.Info.Stop.Reason == reason {
			break
		}
	}
}

// checkPages checks that the pages that connect are told why the turn does not continue.
func checkPages(t *testing.T, url, reason, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"agui/assistant/connect", strings.NewReader(input("a", "")))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	events, err := read(t, resp.Body, func(event) bool { return true })
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	checkEnd(t, events, reason, text)

	req, err = http.NewRequestWithContext(ctx, http.MethodGet, url+"chat/assistant/a/stream", http.NoBody)
	require.NoError(t, err)
	resp, err = http.DefaultClient.Do(req)
	require.NoError(t, err)
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, 1, strings.Count(string(data), `{"type":"error","errorText":"interrupted (`+reason+`): `+text), "%s", data)
}

func checkEnd(t *testing.T, events []event, reason, text string) {
	t.Helper()
	last := events[len(events)-1]
	assert.Equal(t, "RUN_ERROR", last.Type)
	assert.Equal(t, reason, last.Code)
	assert.Contains(t, last.Message, "interrupted ("+reason+"): "+text)
}

func TestPageIsToldThatItsTurnDiffersFromTheProgram(t *testing.T) {
	store := memstore.New()
	beginTurn(t, store)
	url, _ := serve(t, store, silent("new"))
	untilStop(t, store, record.InterruptDiverge)
	checkPages(t, url, "divergence", "run a-0001: the program differs from its records: call 1 of assistant: recorded assistant/old")
}

// A crash loop leaves no record.
func TestPageIsToldThatItsTurnCrashedAgainAndAgain(t *testing.T) {
	store := memstore.New()
	beginTurn(t, store)
	crashed := func(i *snapshot.Info) error {
		i.Stop, i.Restarts, i.Version = snapshot.Stop{Reason: record.InterruptCrash}, 100, "2" // a version that only other workers have
		return nil
	}
	_, err := store.Update(t.Context(), "a-0001", crashed)
	require.NoError(t, err)
	url, stop := serve(t, store, silent("old"))
	resp, err := http.Post(url+"agui/assistant/connect", "application/json", strings.NewReader(input("a", "")))
	require.NoError(t, err)
	timeout := time.AfterFunc(20*time.Second, func() { _ = resp.Body.Close() })
	defer timeout.Stop()
	_, err = read(t, resp.Body, func(e event) bool { return e.Type != "MESSAGES_SNAPSHOT" })
	require.NoError(t, err)
	_, err = store.Update(t.Context(), "a-0001", func(i *snapshot.Info) error { // as another worker does
		i.Stop = snapshot.Stop{Reason: record.InterruptCrashLoop, Message: "the process ended 6 times"}
		return nil
	})
	require.NoError(t, err)
	events, err := read(t, resp.Body, func(event) bool { return true })
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	checkEnd(t, events, "crash_loop", "the process ended 6 times")
	checkPages(t, url, "crash_loop", "the process ended 6 times")
	stop()

	_, err = store.Update(t.Context(), "a-0001", func(i *snapshot.Info) error {
		i.Stop, i.Version = snapshot.Stop{Reason: record.InterruptCrash}, "1"
		return nil
	})
	require.NoError(t, err)
	url, _ = serve(t, store, silent("old"))
	untilStop(t, store, record.InterruptCrashLoop)
	checkPages(t, url, "crash_loop", "the process ended 101 times in a row without an outcome; in progress: ")
}
