package openaitest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sashabaranov/go-openai"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/openai/openaitest"
)

const hello = `{"model":"gpt-4o","messages":[{"role":"user","content":"Hello"}]}`

// A fakeT stands for a test that is expected to fail.
type fakeT struct {
	mu       sync.Mutex
	errors   []string
	cleanups []func()
}

func (f *fakeT) Helper() {}

func (f *fakeT) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errors = append(f.errors, fmt.Sprintf(format, args...))
}

func (f *fakeT) Cleanup(fn func()) { f.cleanups = append(f.cleanups, fn) }

func (f *fakeT) end() {
	for _, fn := range f.cleanups {
		fn()
	}
}

func (f *fakeT) reported() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.errors...)
}

// newClient returns a client with its own connections.
func newClient(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// goOpenAI returns a go-openai client for srv.
func goOpenAI(t *testing.T, srv *openaitest.Server) *openai.Client {
	config := openai.DefaultConfig("secret")
	config.BaseURL = srv.URL()
	config.HTTPClient = newClient(t)
	return openai.NewClientWithConfig(config)
}

func ask(t *testing.T, srv *openaitest.Server, messages ...openai.ChatCompletionMessage) (openai.ChatCompletionResponse, error) {
	if len(messages) == 0 {
		messages = []openai.ChatCompletionMessage{{Role: "user", Content: "Hello"}}
	}
	return goOpenAI(t, srv).CreateChatCompletion(t.Context(), openai.ChatCompletionRequest{Model: "gpt-4o", Messages: messages})
}

// post sends body unchanged.
func post(ctx context.Context, client *http.Client, srv *openaitest.Server, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, srv.URL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}

// answer posts body and returns the status, header and body of the answer.
func answer(t *testing.T, srv *openaitest.Server, body string) (int, http.Header, string) {
	t.Helper()
	res, err := post(t.Context(), newClient(t), srv, body)
	require.NoError(t, err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, res.Header, string(got)
}

// errorBody returns the error in the body of an answer.
func errorBody(t *testing.T, body string) (e struct{ Message, Type, Code string }) {
	t.Helper()
	var wire struct {
		Error *struct{ Message, Type, Code string }
	}
	require.NoError(t, json.Unmarshal([]byte(body), &wire))
	require.NotNil(t, wire.Error)
	return *wire.Error
}
