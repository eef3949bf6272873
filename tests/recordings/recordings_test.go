package recordings_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
)

// A player is a transport that answers requests with a recording.
type player struct {
	*recording
	body []byte
}

func (p player) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: p.status, Status: fmt.Sprint(p.status), Header: p.header.Clone(),
		Body: io.NopCloser(bytes.NewReader(p.body)), Request: req,
	}, nil
}

// play calls a model, which replies with the first length bytes of the recording. streamed is the
// text in the deltas.
func (r *recording) play(ctx context.Context, length int) (resp actors.Response, streamed string, err error) {
	model := openai.Model{
		Name: "m", BaseURL: "https://" + r.service + "/v1", APIKey: "sk-0123456789", API: openai.Chat,
		HTTPClient: &http.Client{Transport: player{r, r.body[:length]}},
	}
	if r.api == "responses" {
		model.API = openai.Responses
	}
	if r.isStream() {
		ctx = live.Watch(ctx, func(d live.Delta) {
			if d.Part == live.PartText {
				streamed += d.Text
			}
		})
	}
	req := actors.Request{Messages: []actors.Message{actors.User("How are you?")}}
	resp, err = model.LLM(actors.WithRetry(core.RetryConfig{MaxAttempts: 1})).Call(ctx, req)
	return resp, streamed, err
}

// misread describes the first difference between the decoded result and the reply. It
// returns "" if there is none.
func (r *recording) misread(ctx context.Context) string {
	want := r.said()
	resp, streamed, err := r.play(ctx, len(r.body))
	switch failure := (*openai.Error)(nil); {
	case errors.As(err, new(*core.PanicError)):
		return err.Error()
	case want.failed && err == nil && resp.Finish == actors.FinishMalformedCall && strings.Contains(string(r.body), "tool_use_failed"):
		return "" // the agent reports this failure to the model
	case want.failed && err != nil && want.message == "" && r.status < 400:
		return "" // the reply is empty
	case want.failed && !errors.As(err, &failure):
		return fmt.Sprintf("a failure was read as %v, %v", resp, err)
	case want.failed && r.status >= 400 && failure.Status != r.status:
		return fmt.Sprintf("the status is %d: %v", failure.Status, err)
	case want.failed && !strings.Contains(failure.Message, want.message[:min(len(want.message), 100)]):
		return fmt.Sprintf("the message is not %q: %v", want.message, err)
	case want.failed:
		return ""
	case err != nil:
		return err.Error()
	}
	if got := resp.Message.Text + resp.Message.Commentary; got != want.text {
		return fmt.Sprintf("the text is %q, want %q", got, want.text)
	}
	if r.isStream() && streamed != want.text {
		return fmt.Sprintf("the streamed text is %q, want %q", streamed, want.text)
	}
	if problem := misreadCalls(resp.Message.ToolCalls, want.calls); problem != "" {
		return problem
	}
	if resp.FinishReason != want.finish {
		return fmt.Sprintf("the finish reason is %q, want %q", resp.FinishReason, want.finish)
	}
	if got := (usage{resp.Usage.InputTokens, resp.Usage.OutputTokens}); got != want.usage {
		return fmt.Sprintf("the usage is %v, want %v", got, want.usage)
	}
	return ""
}

func misreadCalls(got []actors.ToolCall, want []call) string {
	if len(got) != len(want) {
		return fmt.Sprintf("the calls are %v, want %v", got, want)
	}
	for i, g := range got {
		if w := want[i]; g.Name != w.name || g.Arguments != w.arguments || w.id != "" && g.ID != w.id {
			return fmt.Sprintf("call %d is %v, want %v", i+1, g, w)
		}
	}
	return ""
}

// cuts returns the positions at which a stream is cut: several positions, and that before its last
// event.
func (r *recording) cuts() []int {
	n := len(r.body)
	return []int{n / 5, n / 2, n * 9 / 10, max(0, bytes.LastIndex(bytes.TrimSpace(r.body), []byte("data:")))}
}

// takenForWhole returns a description of how a stream that was cut off was accepted as a different
// answer, or "" if it was not. A stream may be accepted after a cut if the rest of it adds nothing
// to the answer.
func (r *recording) takenForWhole(ctx context.Context) string {
	want := r.said()
	for _, length := range r.cuts() {
		resp, _, err := r.play(ctx, length)
		switch {
		case errors.As(err, new(*core.PanicError)):
			return err.Error()
		case err != nil:
		case resp.Message.Text+resp.Message.Commentary != want.text, misreadCalls(resp.Message.ToolCalls, want.calls) != "", want.failed:
			return fmt.Sprintf("cut at %d of %d bytes, the stream was accepted as %q %v", length, len(r.body), resp.Message.Text, resp.Message.ToolCalls)
		}
	}
	return ""
}

// A row contains counts of a service's recordings.
type row struct{ replies, streams, calls, failures, misread int }

func TestRecordedRepliesAreReadCorrectly(t *testing.T) {
	table := make(map[string]*row)
	for _, r := range recordings(t) {
		name := r.service + " " + r.api
		if table[name] == nil {
			table[name] = new(row)
		}
		entry, want := table[name], r.said()
		entry.replies++
		problem := r.misread(t.Context())
		if r.isStream() {
			entry.streams++
			if problem == "" {
				problem = r.takenForWhole(t.Context())
			}
		}
		if want.failed {
			entry.failures++
		}
		if len(want.calls) > 0 {
			entry.calls++
		}
		if problem != "" {
			entry.misread++
			assert.Fail(t, problem, r.file)
		}
	}
	var total row
	lines := []string{fmt.Sprintf("%-52s %8s %8s %8s %8s %8s", "service", "replies", "streams", "calls", "failures", "misread")}
	for _, name := range slices.Sorted(maps.Keys(table)) {
		e := table[name]
		lines = append(lines, e.line(name))
		total = row{total.replies + e.replies, total.streams + e.streams, total.calls + e.calls, total.failures + e.failures, total.misread + e.misread}
	}
	t.Log("\n" + strings.Join(append(lines, total.line("all")), "\n"))
	require.Greater(t, total.replies, 2000/every, "the modules have recordings")
}

func (r *row) line(name string) string {
	return fmt.Sprintf("%-52s %8d %8d %8d %8d %8d", name, r.replies, r.streams, r.calls, r.failures, r.misread)
}
