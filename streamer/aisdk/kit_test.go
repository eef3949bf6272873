package aisdk_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/runner/service"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A chunk is a chunk from a stream, with the fields that the tests read.
type chunk struct {
	Type       string          `json:"type"`
	MessageID  string          `json:"messageId"`
	Delta      string          `json:"delta"`
	ToolCallID string          `json:"toolCallId"`
	ApprovalID string          `json:"approvalId"`
	ErrorText  string          `json:"errorText"`
	Output     json.RawMessage `json:"output"`
	Data       json.RawMessage `json:"data"`
}

// serve serves the assistant on a store until stop is called or the test ends.
func serve(t testing.TB, store snapshot.Store, assistant conversation.Agent) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ready, served := make(chan string, 1), make(chan error, 1)
	go func() {
		o := service.Options{Store: store, Addr: "127.0.0.1:0", Ready: func(url string) { ready <- url }}
		o.Runner.Grace = -1
		served <- service.Serve(ctx, o, func(r *runner.Runner) error {
			runner.Register(r, conversation.NewProgram(r.Store(), assistant))
			return nil
		})
	}()
	ended := false
	stop = func() {
		if !ended {
			ended = true
			cancel()
			require.NoError(t, <-served)
		}
	}
	t.Cleanup(stop)
	select {
	case url = <-ready:
	case err := <-served:
		ended = true
		require.NoError(t, err)
	}
	return url, stop
}

// post posts the body and returns the chunks of the response.
func post(t testing.TB, url, body string) []chunk {
	t.Helper()
	chunks, err := try(t, http.MethodPost, url, body)
	require.NoError(t, err)
	return chunks
}

func try(t testing.TB, method, url, body string) ([]chunk, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "v1", resp.Header.Get("X-Vercel-Ai-Ui-Message-Stream"))
	return read(t, resp.Body, func(chunk) bool { return true })
}

// read reads a stream until it ends or more returns false. The error is that of the connection.
func read(t testing.TB, body io.Reader, more func(chunk) bool) (all []chunk, err error) {
	t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var c chunk
		require.NoError(t, json.Unmarshal([]byte(data), &c), data)
		if all = append(all, c); !more(c) {
			return all, nil
		}
	}
	return all, lines.Err()
}

// types returns the types of the chunks, except those that continue a text.
func types(chunks []chunk) (all []string) {
	for _, c := range chunks {
		if !strings.HasSuffix(c.Type, "-delta") {
			all = append(all, c.Type)
		}
	}
	return all
}

// shown returns the text in the chunks.
func shown(chunks []chunk) (text string) {
	for _, c := range chunks {
		switch c.Type {
		case "text-delta":
			text += c.Delta
		case "reset-step":
			text = ""
		}
	}
	return text
}

func say(id, text string) string {
	return fmt.Sprintf(`{"id":%q,"trigger":"submit-message","messages":[{"id":"m-%s","role":"user","parts":[{"type":"text","text":%q}]}]}`, id, text, text)
}

var errBusy = core.Retryable(errors.New("busy"))

// talking returns an assistant that repeats its prompt. Some prompts have an additional effect:
// "retry" fails once, "book" books with approval, "ask" asks a question, and "wait" waits in the
// middle of the answer.
func talking(waits <-chan struct{}) conversation.Agent {
	book := decorators.Tool("book", "", func(context.Context, struct{}) (string, error) { return "booked", nil }, actors.WithApproval())
	ask := decorators.Tool("ask", "", func(ctx context.Context, _ struct{}) (string, error) { return core.Await[string](ctx, "Where to?") })
	model := actors.NewLLM("model", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		emit := func(text string) { live.Emit(ctx, live.Delta{Part: live.PartText, Text: text}) }
		switch text := last.Text; {
		case last.Role != actors.RoleUser:
			return actors.Response{Message: actors.Assistant("It is " + text)}, nil
		case text == "book", text == "ask":
			return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "c", Name: text, Arguments: "{}"}}}}, nil
		case text == "retry" && core.ScopeOf(ctx).Attempt() == 0:
			emit("half")
			select {
			case <-waits:
			case <-ctx.Done():
			}
			return actors.Response{}, errBusy
		case text == "fail":
			return actors.Response{}, core.Permanent(errors.New("out of ink"))
		case text == "wait":
			emit("You said ")
			select {
			case <-waits:
			case <-ctx.Done():
				return actors.Response{}, context.Cause(ctx)
			}
			emit(text)
		}
		return actors.Response{Message: actors.Assistant("You said " + last.Text)}, nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}))
	return actors.NewAgent("assistant", model, actors.WithTools(book, ask))
}

func begin(t testing.TB) (url string) {
	url, _ = serve(t, memstore.New(), talking(nil))
	return url + "chat/assistant"
}
