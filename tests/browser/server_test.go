package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/ports"
	"github.com/reprise-go/reprise/streamer"
)

// site is a server with a dashboard. It can be stopped and started again on the
// same port.
type site struct {
	t    *testing.T
	addr string
	dash *streamer.Handler
	stop func()
}

// newSite serves a dashboard. If wrap is not nil, it is the user's middleware
// around the dashboard.
func newSite(t *testing.T, source streamer.Source, options streamer.Options, wrap func(http.Handler) http.Handler) *site {
	t.Helper()
	free, err := ports.Free(1)
	require.NoError(t, err)
	s := &site{t: t, addr: fmt.Sprint("127.0.0.1:", free[0])}
	s.start(source, options, wrap)
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *site) start(source streamer.Source, options streamer.Options, wrap func(http.Handler) http.Handler) {
	s.t.Helper()
	if options.Reconnect == 0 {
		options.Reconnect = 50 * time.Millisecond
	}
	dash, err := streamer.New(source, options)
	require.NoError(s.t, err)
	listener, err := new(net.ListenConfig).Listen(s.t.Context(), "tcp", s.addr)
	require.NoError(s.t, err)
	var handler http.Handler = dash
	if wrap != nil {
		handler = wrap(dash)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	s.dash = dash
	s.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = dash.Close(ctx)
		_ = server.Close()
		<-served
	})
}

func (s *site) url() string { return "http://" + s.addr + "/" }

// control records the requests from the page, and returns err for each of them.
type control struct {
	mu        sync.Mutex
	err       error
	asked     []string
	interrupt func(runID, message string) // called for an interrupt, if not nil
	cancel    func(runID, message string)
	answer    func(runID, question string, value json.RawMessage)
}

func (c *control) Interrupt(_ context.Context, runID string, stop streamer.Stop) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, "interrupt "+runID+": "+stop.Message)
	if c.err == nil && c.interrupt != nil {
		c.interrupt(runID, stop.Message)
	}
	return c.err
}

func (c *control) Cancel(_ context.Context, runID string, stop streamer.Stop) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, "cancel "+runID+": "+stop.Message)
	if c.err == nil && c.cancel != nil {
		c.cancel(runID, stop.Message)
	}
	return c.err
}

func (c *control) Signal(context.Context, string, streamer.Signal) error { return nil }

func (c *control) Answer(_ context.Context, runID, questionID, _ string, value json.RawMessage) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, "answer "+runID+" "+questionID+": "+string(value))
	if c.err == nil && c.answer != nil {
		c.answer(runID, questionID, value)
	}
	return c.err
}

func (c *control) failWith(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

func (c *control) requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.asked...)
}
