package agui_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/agui"
	"github.com/reprise-go/reprise/streamer/stored"
)

// longThread creates thread a with the given number of turns of 400 KB each.
func longThread(t *testing.T, url string, turns int) {
	t.Helper()
	for i := range turns {
		events := post(t, url+"agui/assistant", say("a", fmt.Sprint(i)))
		require.Equal(t, "RUN_FINISHED", events[len(events)-1].Type)
	}
}

func verbose() conversation.Agent {
	model := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant(strings.Repeat("word ", 80_000))}, nil
	})
	return actors.NewAgent("assistant", model)
}

// storedThreads are threads that can only be read.
type storedThreads struct {
	streamer.Threads
	store snapshot.Store
}

func (storedThreads) FirstRun(thread string) string { return thread + "-0001" }

func (s storedThreads) Turns(ctx context.Context, thread string, limit int) ([]streamer.ThreadTurn, error) {
	states, err := conversation.Read(ctx, s.store, thread, limit)
	turns := make([]streamer.ThreadTurn, len(states))
	for i, state := range states {
		turns[i] = streamer.ThreadTurn{Turn: state.Number, RunID: state.RunID, Status: string(state.Status), Text: state.Text, ID: state.Message}
	}
	return turns, err
}

// The write timeout applies to each piece that is sent. A page on a slow line that keeps reading
// receives the whole thread, even if this takes much longer than the timeout.
func TestPageOnASlowLineReceivesALongThread(t *testing.T) {
	store := memstore.New()
	url, stop := serve(t, store, verbose())
	longThread(t, url, 16)
	stop()
	const timeout = time.Second
	dash, err := streamer.New(stored.New(store), streamer.Options{WriteTimeout: timeout})
	require.NoError(t, err)
	r, err := runner.New(store, runner.Options{})
	require.NoError(t, err)
	h, err := agui.New(dash, agui.Options{Threads: storedThreads{store: store}, Control: service.NewControl(r), Program: "assistant"})
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(h)
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		assert.NoError(t, conn.(*net.TCPConn).SetWriteBuffer(64<<10)) // the kernel's buffer size for a slow line
		return ctx
	}
	server.Start()
	defer server.Close()
	defer h.Close()
	defer func() { assert.NoError(t, dash.Close(context.WithoutCancel(t.Context()))) }()

	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			err = conn.(*net.TCPConn).SetReadBuffer(128 << 10)
		}
		return conn, err
	}}}
	resp, err := client.Post(server.URL+"/connect", "application/json", strings.NewReader(input("a", "")))
	require.NoError(t, err)
	defer resp.Body.Close()
	read, begun := int64(0), time.Now()
	for err == nil {
		var n int64
		n, err = io.CopyN(io.Discard, resp.Body, 32<<10)
		read += n
		<-time.After(15 * time.Millisecond)
	}
	require.ErrorIs(t, err, io.EOF)
	assert.Greater(t, read, int64(6_400_000))
	assert.Greater(t, time.Since(begun), 2*timeout)
}

func TestServiceEndsWithoutAnErrorAlthoughAPageDoesNotRead(t *testing.T) {
	url, stop := serve(t, memstore.New(), verbose())
	longThread(t, url, 24)
	conn, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
	require.NoError(t, err)
	defer conn.Close()
	require.NoError(t, conn.(*net.TCPConn).SetReadBuffer(4<<10))
	body := input("a", "")
	_, err = fmt.Fprintf(conn, "POST /agui/assistant/connect HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1)) // the response has begun
	require.NoError(t, err)
	stop()
}
