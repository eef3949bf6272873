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

// newClient is a client with connections of its own.
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

// setup starts a server and a run, and makes the LLM that asks the one in the
// other.
func setup(t *testing.T, steps []openaitest.Step, opts ...actors.Option) (*openaitest.Server, *state.ExecutionState, actors.LLM) {
	srv := openaitest.New(t, steps...)
	st := state.New()
	t.Cleanup(func() { st.Close() })
	return srv, st, llmAt(t, srv.URL(), opts...)
}

// llmAt asks the service at url, with connections of its own.
func llmAt(t *testing.T, url string, opts ...actors.Option) actors.LLM {
	return modelAt(t, url).LLM(opts...)
}

func modelAt(t *testing.T, url string) openai.Model {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return openai.Model{Name: "gpt-4o-mini", APIKey: secret, BaseURL: url, HTTPClient: &http.Client{Transport: transport}}
}

// records are those of calls with that status.
func records(t testing.TB, st *state.ExecutionState, status record.Status) []record.Record {
	var out []record.Record
	for _, rec := range testkit.Records(t, st) {
		if rec.Kind.IsCall() && rec.Status == status {
			out = append(out, rec)
		}
	}
	return out
}

// roundTripper answers without a network.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// anyObject is a schema for the tools of tests.
type anyObject struct{}

func (anyObject) JSON() json.RawMessage          { return json.RawMessage(`{"type":"object"}`) }
func (anyObject) Validate(json.RawMessage) error { return nil }
