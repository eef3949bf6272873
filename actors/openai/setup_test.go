package openai_test

import (
	"encoding/json"
	"net/http"
	"testing"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

const secret = "sk-proj-0123456789abcdef"

var (
	question = actors.Request{Messages: []actors.Message{actors.User("How are you?")}}
	atOnce   = actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay})
)

// newClient returns a client with its own connections.
func newClient(t *testing.T, url string) *goopenai.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return newClientOn(&http.Client{Transport: transport}, url)
}

func newClientOn(client *http.Client, url string) *goopenai.Client {
	config := goopenai.DefaultConfig(secret)
	config.BaseURL, config.HTTPClient = url, client
	return goopenai.NewClientWithConfig(config)
}

// setup starts a server and a run, and returns an LLM that uses both.
func setup(t *testing.T, steps []openaitest.Step, opts ...actors.Option) (*openaitest.Server, *state.ExecutionState, actors.LLM) {
	srv := openaitest.New(t, steps...)
	st := state.New()
	t.Cleanup(func() { st.Close() })
	return srv, st, llmAt(t, srv.URL(), opts...)
}

// llmAt returns an LLM for the service at url, with its own connections.
func llmAt(t *testing.T, url string, opts ...actors.Option) actors.LLM {
	return modelAt(t, url).LLM(opts...)
}

func modelAt(t *testing.T, url string) openai.Model {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return openai.Model{Name: "gpt-4o-mini", APIKey: secret, BaseURL: url, HTTPClient: &http.Client{Transport: transport}}
}

// records returns the records of calls with the given status.
func records(t testing.TB, st *state.ExecutionState, status record.Status) []record.Record {
	var out []record.Record
	for _, rec := range testkit.Records(t, st) {
		if rec.Kind.IsCall() && rec.Status == status {
			out = append(out, rec)
		}
	}
	return out
}

// roundTripper answers requests without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// anyObject is a schema for the tools in the tests.
type anyObject struct{}

func (anyObject) JSON() json.RawMessage          { return json.RawMessage(`{"type":"object"}`) }
func (anyObject) Validate(json.RawMessage) error { return nil }
