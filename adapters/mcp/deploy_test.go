package mcp_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A payment is a program that ends only when it runs for the second time, after its first worker
// was stopped.
type payment struct {
	begun chan struct{} // closed when the program runs for the first time
	store snapshot.Store
}

// worker returns the URL of a worker's server. stop ends the runner but not the server, which still
// holds its requests.
func (p *payment) worker(t *testing.T, o mcp.ServerOptions) (url string, r *runner.Runner, stop func()) {
	t.Helper()
	r, err := runner.New(p.store, runner.Options{Grace: -1, SweepEvery: 300 * time.Millisecond})
	require.NoError(t, err)
	runner.Register(r, decorators.Agent("pay", "", func(ctx context.Context, _ struct{}) (string, error) {
		return core.Step(ctx, "pay", func(ctx context.Context) (string, error) {
			select {
			case <-p.begun:
				return "paid", nil
			default:
			}
			close(p.begun)
			<-ctx.Done()
			return "", context.Cause(ctx)
		})
	}))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = r.Serve(ctx) // returns its context's error
	}()
	stop = func() { cancel(); <-ended }
	t.Cleanup(stop)
	server := httptest.NewServer(mcp.NewHandler(r, o))
	t.Cleanup(server.Close)
	return server.URL, r, stop
}

// held sends a call that the server holds, and returns a channel for its result.
func held(t *testing.T, s *sdk.ClientSession, name string, arguments any) <-chan *sdk.CallToolResult {
	t.Helper()
	result := make(chan *sdk.CallToolResult, 1)
	go func() {
		r, err := s.CallTool(t.Context(), &sdk.CallToolParams{Name: name, Arguments: arguments})
		assert.NoError(t, err)
		result <- r
	}()
	return result
}

// A worker is stopped, for example by a deployment, and the run continues on the worker that holds
// the client's request.
func TestAHeldCallReturnsTheResultOfARunThatContinuesOnAnotherWorker(t *testing.T) {
	p := &payment{begun: make(chan struct{}), store: memstore.New()}
	url, _, stop := p.worker(t, mcp.ServerOptions{HoldFor: time.Millisecond})
	id := runIn(t, textOf(t, callTool(t, connected(t, overHTTP(url), older, nil), "pay", struct{}{})))
	<-p.begun

	url, r, _ := p.worker(t, mcp.ServerOptions{})
	require.Eventually(t, func() bool { return r.Ready(t.Context()) == nil }, 10*time.Second, 5*time.Millisecond)
	result := held(t, connected(t, overHTTP(url), older, nil), "run_wait", map[string]any{"run": id})
	stop()
	got := <-result
	assert.Equal(t, "paid", textOf(t, got))
	assert.False(t, got.IsError)
}

// The worker that holds the request is itself stopped. It must not hold the request until the run
// has continued elsewhere, because the process waits for the request before it ends.
func TestACallThatIsHeldByAWorkerThatStopsIsNotAFailure(t *testing.T) {
	p := &payment{begun: make(chan struct{}), store: memstore.New()}
	url, _, stop := p.worker(t, mcp.ServerOptions{})
	result := held(t, connected(t, overHTTP(url), older, nil), "pay", struct{}{})
	<-p.begun
	stopped := time.Now()
	stop()
	got := <-result
	assert.Less(t, time.Since(stopped), 20*time.Second, "not as long as HoldFor")
	said := textOf(t, got)
	assert.False(t, got.IsError, said)
	assert.Contains(t, said, "is still running. Call run_wait")

	url, _, _ = p.worker(t, mcp.ServerOptions{})
	got = callTool(t, connected(t, overHTTP(url), older, nil), "run_wait", map[string]any{"run": runIn(t, said)})
	assert.Equal(t, "paid", textOf(t, got))
}

func TestACallIsATaskIfItsWorkerStopsWithinTaskAfter(t *testing.T) {
	p := &payment{begun: make(chan struct{}), store: memstore.New()}
	url, _, stop := p.worker(t, mcp.ServerOptions{TaskAfter: 30 * time.Second})
	go func() {
		<-p.begun
		stop()
	}()
	made, failed := wire{url: url}.send(t, "tools/call", `{"name":"pay","arguments":{}}`)
	require.Nil(t, failed)
	assert.Equal(t, "task", made["resultType"])
	assert.Equal(t, "working", made["status"])

	got, failed := wire{url: url}.send(t, "tasks/get", `{"taskId":"`+made["taskId"].(string)+`"}`)
	require.Nil(t, failed)
	assert.Equal(t, "working", got["status"])
	assert.Equal(t, "the run was interrupted (shutdown); it continues by itself", got["statusMessage"])
}
