package ratelimit_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/policy/ratelimit"
	"github.com/reprise-go/reprise/state"
)

// A limited server refuses requests once the limit of a window is used up, and reports how many
// requests are left.
type limited struct {
	limit  int
	window time.Duration

	mu      sync.Mutex
	began   time.Time
	served  []time.Time
	refused []time.Time
}

func (s *limited) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.began.IsZero() {
		s.began = now
	}
	used := 0
	for _, at := range s.served {
		if now.Sub(at) < s.window {
			used++
		}
	}
	granted := used < s.limit
	if granted {
		s.served, used = append(s.served, now), used+1
	} else {
		s.refused = append(s.refused, now)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("RateLimit-Policy", fmt.Sprintf(`"requests";q=%d;w=%v`, s.limit, s.window.Seconds()))
	w.Header().Set("RateLimit", fmt.Sprintf(`"requests";r=%d;t=%v`, s.limit-used, s.window.Seconds()))
	if !granted {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`)
		return
	}
	_, _ = io.WriteString(w, `{"id":"1","model":"m","choices":[{"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`)
}

// The test uses real HTTP and a short window. After the first window, no request is refused.
func TestNothingIsRefusedOverHTTP(t *testing.T) {
	server := &limited{limit: 40, window: time.Second}
	srv := httptest.NewServer(server)
	defer srv.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	l := ratelimit.New(ratelimit.Options{Name: "service"})
	llm := openai.New("m", openai.WithBaseURL(srv.URL+"/v1"), openai.WithAPIKey("key"),
		openai.WithHTTPClient(&http.Client{Transport: l.Transport(transport)}),
		actors.WithInterceptors(l.Interceptor()), actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited}))
	const agents, calls = 50, 4
	var all sync.WaitGroup
	for range agents {
		all.Go(func() {
			st := state.New()
			for range calls {
				_, err := llm.Call(st.Context(t.Context()), question)
				assert.NoError(t, err)
			}
			assert.NoError(t, st.Close())
		})
	}
	all.Wait()
	require.Len(t, server.served, agents*calls)
	for _, at := range server.refused {
		assert.Less(t, at.Sub(server.began), server.window, "refused after the first window")
	}
}
