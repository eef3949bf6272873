package ratelimit_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/ratelimit"
)

// A service is a transport that refuses requests which exceed its limits.
type service struct {
	requests, tokens float64 // per window; 0 for no limit
	window           time.Duration
	algorithm        string        // "fixed", "sliding" or "bucket"
	style            string        // style of the headers: "openai", "draft", "anthropic"
	takes            time.Duration // time for each answer
	each             int           // tokens of each answer

	mu      sync.Mutex
	began   time.Time
	granted []grant
	refused []time.Time
}

type grant struct {
	at     time.Time
	tokens float64
}

// used returns what currently counts as used, and when all of it will be released.
func (s *service) used(now time.Time) (requests, tokens float64, reset time.Duration) {
	since := now.Add(-s.window)
	switch s.algorithm {
	case "fixed":
		since = s.began.Add(now.Sub(s.began).Truncate(s.window)).Add(-1)
		reset = since.Add(1 + s.window).Sub(now)
	case "bucket":
		var at time.Time
		for _, g := range s.granted {
			back := g.at.Sub(at).Seconds() / s.window.Seconds()
			requests = max(0, requests-s.requests*back) + 1
			tokens = max(0, tokens-s.tokens*back) + g.tokens
			at = g.at
		}
		back := now.Sub(at).Seconds() / s.window.Seconds()
		requests, tokens = max(0, requests-s.requests*back), max(0, tokens-s.tokens*back)
		if s.requests > 0 {
			reset = time.Duration(requests / s.requests * float64(s.window))
		}
		if s.tokens > 0 {
			reset = max(reset, time.Duration(tokens/s.tokens*float64(s.window)))
		}
		return requests, tokens, reset
	}
	for _, g := range s.granted {
		if g.at.After(since) {
			requests, tokens = requests+1, tokens+g.tokens
			if s.algorithm == "sliding" {
				reset = g.at.Add(s.window).Sub(now)
			}
		}
	}
	return requests, tokens, reset
}

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	resp := s.admit(time.Now())
	if err := testkit.Pause(req.Context(), s.takes); err != nil {
		return nil, err
	}
	return resp, nil
}

func (s *service) admit(now time.Time) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() {
		s.began = now
	}
	requests, tokens, _ := s.used(now)
	resp := &http.Response{StatusCode: http.StatusOK, Header: make(http.Header), Body: io.NopCloser(strings.NewReader("yes"))}
	const rounding = 1e-9
	if s.requests > 0 && requests+1 > s.requests+rounding || s.tokens > 0 && tokens+float64(s.each) > s.tokens+rounding {
		s.refused = append(s.refused, now)
		resp.StatusCode = http.StatusTooManyRequests
	} else {
		s.granted = append(s.granted, grant{now, float64(s.each)})
	}
	requests, tokens, reset := s.used(now)
	left := func(limit, used float64) int { return int(max(0, math.Floor(limit-used+rounding))) }
	set := func(name string, limit, used float64) {
		switch s.style {
		case "openai":
			resp.Header.Set("x-ratelimit-limit-"+name, fmt.Sprint(limit))
			resp.Header.Set("x-ratelimit-remaining-"+name, fmt.Sprint(left(limit, used)))
			resp.Header.Set("x-ratelimit-reset-"+name, reset.String())
		case "anthropic":
			resp.Header.Set("anthropic-ratelimit-"+name+"-limit", fmt.Sprint(limit))
			resp.Header.Set("anthropic-ratelimit-"+name+"-remaining", fmt.Sprint(left(limit, used)))
			resp.Header.Set("anthropic-ratelimit-"+name+"-reset", now.Add(reset).Format(time.RFC3339Nano))
		case "draft":
			resp.Header.Add("RateLimit-Policy", fmt.Sprintf(`%q;q=%v;w=%v`, name, limit, s.window.Seconds()))
			resp.Header.Add("RateLimit", fmt.Sprintf(`%q;r=%d;t=%v`, name, left(limit, used), math.Ceil(reset.Seconds())))
		}
	}
	if s.requests > 0 {
		set("requests", s.requests, requests)
	}
	if s.tokens > 0 {
		set("tokens", s.tokens, tokens)
	}
	return resp
}

// llm returns a model that calls the service.
func (s *service) llm(l *ratelimit.Limiter, opts ...actors.Option) actors.LLM {
	client := &http.Client{Transport: l.Transport(s)}
	opts = append([]actors.Option{actors.WithInterceptors(l.Interceptor())}, opts...)
	return actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://model", nil)
		if err != nil {
			return actors.Response{}, err
		}
		resp, err := client.Do(req)
		if err != nil {
			return actors.Response{}, err
		}
		defer resp.Body.Close()
		if err := httperror.Check(resp); err != nil {
			return actors.Response{}, err
		}
		return actors.Response{Message: actors.Assistant("yes"), Usage: core.Usage{InputTokens: s.each}}, nil
	}, opts...)
}

// refusedAfter returns how many requests were refused after the first window.
func (s *service) refusedAfter(t *testing.T) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.NotEmpty(t, s.granted)
	for _, at := range s.refused {
		if at.Sub(s.began) >= s.window {
			n++
		}
	}
	return n
}
