package agui_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
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

// An event is an event from a stream, with the fields that the tests read.
type event struct {
	Type      string            `json:"type"`
	ThreadID  string            `json:"threadId"`
	RunID     string            `json:"runId"`
	MessageID string            `json:"messageId"`
	Parent    string            `json:"parentMessageId"`
	Delta     string            `json:"delta"`
	Content   string            `json:"content"`
	Messages  []json.RawMessage `json:"messages"`
	Message   string            `json:"message"`
	Code      string            `json:"code"`
	Value     json.RawMessage   `json:"value"`
	Outcome   struct {
		Type       string `json:"type"`
		Interrupts []struct {
			ID, Reason, ToolCallID string
		} `json:"interrupts"`
	} `json:"outcome"`
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

// post posts the body and returns the events of the response.
func post(t testing.TB, url, body string) []event {
	t.Helper()
	events, err := try(t, http.MethodPost, url, body)
	require.NoError(t, err)
	return events
}

func try(t testing.TB, method, url, body string) ([]event, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	return read(t, resp.Body, func(event) bool { return true })
}

// read reads a stream until it ends or more returns false. The error is that of the connection.
func read(t testing.TB, body io.Reader, more func(event) bool) (all []event, err error) {
	t.Helper()
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var c event
		require.NoError(t, json.Unmarshal([]byte(data), &c), data)
		if all = append(all, c); !more(c) {
			return all, nil
		}
	}
	return all, lines.Err()
}

// types returns the types of the events, leaving out those that continue a text.
func types(events []event) (all []string) {
	for _, e := range events {
		if !strings.HasSuffix(e.Type, "_CONTENT") {
			all = append(all, e.Type)
		}
	}
	return all
}

// shown returns the text in the events.
func shown(events []event) (text string) {
	for _, e := range events {
		switch e.Type {
		case "TEXT_MESSAGE_CONTENT":
			text += e.Delta
		case "MESSAGES_SNAPSHOT":
			text = ""
		}
	}
	return text
}

// A shownMessage is a message as a client has it.
type shownMessage struct {
	ID      string `json:"id"`
	Role    string `json:"role"`
	Content string `json:"content"`
}

// fold returns a client's messages after it has received events. Like @ag-ui/client, it keeps the
// positions of the messages, and keeps the client's thoughts if a snapshot has none.
func fold(t testing.TB, all []shownMessage, events []event) []shownMessage {
	t.Helper()
	find := func(id string) int {
		return slices.IndexFunc(all, func(m shownMessage) bool { return m.ID == id })
	}
	begin := func(m shownMessage) {
		if find(m.ID) < 0 {
			all = append(all, m)
		}
	}
	for _, e := range events {
		switch e.Type {
		case "TEXT_MESSAGE_START", "TOOL_CALL_START":
			begin(shownMessage{ID: cmp.Or(e.MessageID, e.Parent), Role: "assistant"})
		case "REASONING_MESSAGE_START":
			begin(shownMessage{ID: e.MessageID, Role: "reasoning"})
		case "TOOL_CALL_RESULT":
			begin(shownMessage{ID: e.MessageID, Role: "tool", Content: e.Content})
		case "TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT":
			all[find(e.MessageID)].Content += e.Delta
		case "MESSAGES_SNAPSHOT":
			all = merge(t, all, e.Messages)
		}
	}
	return all
}

func merge(t testing.TB, before []shownMessage, raw []json.RawMessage) (all []shownMessage) {
	t.Helper()
	snapshot, hasThoughts := make([]shownMessage, len(raw)), false
	for i := range raw {
		require.NoError(t, json.Unmarshal(raw[i], &snapshot[i]))
		hasThoughts = hasThoughts || snapshot[i].Role == "reasoning"
	}
	has := func(all []shownMessage, id string) int {
		return slices.IndexFunc(all, func(m shownMessage) bool { return m.ID == id })
	}
	for _, m := range before {
		if i := has(snapshot, m.ID); i >= 0 {
			all = append(all, snapshot[i])
		} else if m.Role == "reasoning" && !hasThoughts {
			all = append(all, m)
		}
	}
	for _, m := range snapshot {
		if has(all, m.ID) < 0 {
			all = append(all, m)
		}
	}
	return all
}

// input returns a RunAgentInput with the given additional fields and messages.
func input(thread, fields string, messages ...string) string {
	return fmt.Sprintf(`{"threadId":%q,"runId":"run-1","protocolVersion":"1.0","state":{},"tools":[],"context":[],"forwardedProps":{},%s"messages":[%s]}`, thread, fields, strings.Join(messages, ","))
}

func user(text string) string {
	return fmt.Sprintf(`{"id":"m-%s","role":"user","content":%q}`, text, text)
}

func say(thread, text string) string { return input(thread, "", user(text)) }

var errBusy = core.Retryable(errors.New("busy"))

// talking returns an assistant that repeats its prompt. Some prompts have an additional effect:
// "retry" fails once, "think" calls a tool and then thinks, "book" books with approval, "ask" asks
// a question, and "wait" waits in the middle of the answer.
func talking(waits <-chan struct{}) conversation.Agent {
	book := decorators.Tool("book", "", func(context.Context, struct{}) (string, error) { return "booked", nil }, actors.WithApproval())
	look := decorators.Tool("look", "", func(context.Context, struct{}) (string, error) { return "seen", nil })
	ask := decorators.Tool("ask", "", func(ctx context.Context, _ struct{}) (string, error) { return core.Await[string](ctx, "Where to?") })
	model := actors.NewLLM("model", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		last := req.Messages[len(req.Messages)-1]
		emit := func(text string) { live.Emit(ctx, live.Delta{Part: live.PartText, Text: text}) }
		switch text := last.Text; {
		case last.Role != actors.RoleUser && req.Messages[len(req.Messages)-3].Text == "think":
			return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, Reasoning: "Hm.", Text: "It is " + text}}, nil
		case last.Role != actors.RoleUser:
			return actors.Response{Message: actors.Assistant("It is " + text)}, nil
		case text == "book", text == "ask":
			return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "c", Name: text, Arguments: "{}"}}}}, nil
		case text == "think":
			return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, Text: "I look", ToolCalls: []actors.ToolCall{{ID: "c", Name: "look", Arguments: "{}"}}}}, nil
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
	return actors.NewAgent("assistant", model, actors.WithTools(look, book, ask))
}

func begin(t testing.TB) (url string) {
	url, _ = serve(t, memstore.New(), talking(nil))
	return url + "agui/assistant"
}
