package openai_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// seen collects deltas and joins their text by attempt and part.
type seen struct {
	mu    sync.Mutex
	parts map[string]string
	all   []live.Delta
}

func (s *seen) watch(d live.Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		s.parts = map[string]string{}
	}
	s.parts[fmt.Sprintf("%v@%d", d.Part, d.Attempt)] += d.Name + d.Text
	s.all = append(s.all, d)
}

func (s *seen) part(part live.Part, attempt int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts[fmt.Sprintf("%v@%d", part, attempt)]
}

// onWires runs the test for each of the APIs, both with the package's own client and with a client
// passed by the user.
func onWires(t *testing.T, test func(t *testing.T, model func(srv *openaitest.Server) openai.Model)) {
	for _, api := range []openai.API{openai.Chat, openai.Responses} {
		for _, external := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/foreign=%v", api, external), func(t *testing.T) {
				test(t, func(srv *openaitest.Server) openai.Model {
					model := modelAt(t, srv.URL())
					if external {
						model = openai.Model{Name: model.Name, Client: newClient(t, srv.URL())}
					}
					model.API = api
					return model
				})
			})
		}
	}
}

func TestAStreamGivesTheSameAnswerAsAReply(t *testing.T) {
	onWires(t, func(t *testing.T, model func(*openaitest.Server) openai.Model) {
		steps := []openaitest.Step{
			openaitest.Text("It is 4 °C in Oslo.").WithReasoning("Hm, hm.").WithUsage(12, 5),
			openaitest.ToolCalls(openaitest.Call("f", `{"city":"Tromsø"}`), openaitest.Call("g", nil)).WithText("Let me look."),
			openaitest.Text("").WithRefusal("I cannot do that."),
			openaitest.Text("Once upon a").WithFinishReason("length"),
			openaitest.Text("Well,").WithFinishReason("content_filter"),
		}
		srv := openaitest.New(t, append(steps, steps...)...)
		llm := model(srv).LLM()
		var plain []actors.Response
		for range steps {
			got, err := llm.Call(t.Context(), question)
			require.NoError(t, err)
			plain = append(plain, got)
		}
		for i := range steps {
			var s seen
			got, err := llm.Call(live.Watch(t.Context(), s.watch), question)
			require.NoError(t, err)
			want := plain[i]
			got.ID, want.ID = "", ""
			got.Message.Opaque, want.Message.Opaque = nil, nil
			for j := range got.Message.ToolCalls {
				got.Message.ToolCalls[j].ID = want.Message.ToolCalls[j].ID
			}
			require.Equal(t, want, got)
			require.Equal(t, want.Message.Text, s.part(live.PartText, 0))
			require.Equal(t, want.Message.Reasoning, s.part(live.PartReasoning, 0))
			calls := ""
			for _, call := range want.Message.ToolCalls {
				calls += call.Name + call.Arguments
			}
			require.Equal(t, calls, s.part(live.PartToolCall, 0))
			require.Equal(t, live.PartBegin, s.all[0].Part)
			require.Equal(t, live.PartEnd, s.all[len(s.all)-1].Part)
			require.True(t, srv.Requests()[len(steps)+i].Stream)
		}
	})
}

const (
	chunk  = `data: {"id":"c","model":"m","choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}` + "\n\n"
	finish = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	done   = "data: [DONE]\n\n"
)

func piece(text string) string { return fmt.Sprintf(chunk, text) }

// However a stream ends, the result is the complete text or an error, never a truncated
// success.
func TestAStreamIsWholeOrAnError(t *testing.T) {
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\n"
	two := piece("Fi") + piece("ne.")
	for _, tc := range []struct {
		name, body string
		fails      string       // part of the error; empty if the call succeeds
		class      record.Class // class of the error
	}{
		{"as it should", two + finish + usage + done, "", 0},
		{"without [DONE]", two + finish + usage, "", 0},
		{"without usage", two + finish, "", 0},
		{"with [DONE] and no finish reason", two + done, "", 0},
		{"no end of the last line", two + strings.TrimSpace(finish), "", 0},
		{"the last line is text too", piece("Fi") + strings.TrimSpace(`data: {"choices":[{"delta":{"content":"ne."},"finish_reason":"stop"}]}`), "", 0},
		{"comments", ": hello\n\n" + piece("Fi") + strings.Repeat(": keep-alive\n\n", 1000) + piece("ne.") + finish + ": bye\n" + done, "", 0},
		{"event and id fields", "event: message\nid: 1\nretry: 5\n" + two + finish + done, "", 0},
		{"carriage returns", strings.ReplaceAll(two+finish+done, "\n", "\r"), "", 0},
		{"both", strings.ReplaceAll(two+finish+done, "\n", "\r\n"), "", 0},
		{"data over two lines", "data:{\"choices\":[{\"delta\":\ndata: {\"content\":\"Fine.\"}}]}\n\n" + finish, "", 0},
		{"no empty lines", strings.ReplaceAll(two+finish+done, "\n\n", "\n"), "", 0},
		{"other choices", `data: {"choices":[{"index":1,"delta":{"content":"no"},"finish_reason":"stop"}]}` + "\n\n" + two + finish, "", 0},
		{"one reply", `{"choices":[{"message":{"content":"Fine."},"finish_reason":"stop"}]}`, "", 0},
		{"a message instead of a delta", `data: {"choices":[{"message":{"content":"Fine."},"finish_reason":"stop"}]}` + "\n\n", "", 0},
		{"a byte order mark", "\ufeff" + two + finish + done, "", 0},
		{"events without data", "data:\n\ndata: \n\n" + piece("Fi") + "data:\n\n" + piece("ne.") + finish + done, "", 0},
		{"empty errors", strings.ReplaceAll(two, `"model"`, `"error":"","model"`) + strings.ReplaceAll(finish, `"delta"`, `"error":{},"delta"`) + `data: {"error":false,"choices":[]}` + "\n\n" + done, "", 0},
		{"a message that repeats the deltas", two + `data: {"object":"chat.completion","choices":[{"message":{"content":"Fine."},"finish_reason":"stop"}]}` + "\n\n" + done, "", 0},
		{"messages instead of deltas", strings.ReplaceAll(two, "delta", "message") + finish + done, "", 0},
		{"a finish reason called null", strings.ReplaceAll(two, `"finish_reason":null`, `"finish_reason":"null"`) + finish, "", 0},

		{"cut, after a finish reason called null", strings.ReplaceAll(two, `"finish_reason":null`, `"finish_reason":"null"`), "stream ended before the answer was complete", record.ClassEOF},
		{"an object that is an error", piece("Fi") + `data: {"object":"error","message":"oh no","type":"server_error","code":null}` + "\n\n" + done, "type server_error, request req_1: oh no", record.ClassServer},
		{"an object that is an error with status", piece("Fi") + `data: {"object":"error","message":"slow down","code":429}` + "\n\n" + done, "status 429, request req_1: slow down", record.ClassRateLimit},
		{"a detail and no choices", piece("Fi") + `data: {"detail":"oh no"}` + "\n\n" + done, `{"detail":"oh no"}`, record.ClassServer},
		{"a message and no choices", piece("Fi") + `data: {"success":false,"message":"oh no"}` + "\n\n" + done, "oh no", record.ClassServer},
		{"cut after a piece", two, "stream ended before the answer was complete", record.ClassEOF},
		{"cut in a piece", two + `data: {"choices":[{"del`, "malformed reply", record.ClassServer},
		{"cut in a comment", two + ": keep", "stream ended before the answer was complete", record.ClassEOF},
		{"[DONE] alone", done, "no choices", record.ClassServer},
		{"nothing", "", "the stream is empty", record.ClassServer},
		{"comments alone", ": a\n\n: b\n\n", "the stream is empty", record.ClassServer},
		{"HTML", "<html>Bad gateway</html>", "want stream, got: <html>Bad gateway</html>", record.ClassServer},
		{"an error as JSON", `{"error":{"message":"oh no","type":"server_error"}}`, "type server_error, request req_1: oh no", record.ClassServer},
		{"an error as JSON over lines", "{\n \"error\": {\n  \"message\": \"oh no\",\n  \"code\": \"rate_limit_exceeded\"}}", "oh no", record.ClassRateLimit},
		{"error event", two + `data: {"error":{"message":"oh no","type":"server_error","code":null}}` + "\n\n", "oh no", record.ClassServer},
		{"error event with a space", two + `data: { "error" : {"message":"oh no"}}` + "\n\n" + done, "oh no", record.ClassServer},
		{"error event with status", two + `data: {"error":{"message":"slow down","code":429}}` + "\n\n", "status 429, request req_1: slow down", record.ClassRateLimit},
		{"error is not the first key", two + `data: {"id":"x","choices":[],"error":{"message":"oh no"}}` + "\n\n" + finish + done, "oh no", record.ClassServer},
		{"error event as a text", two + `data: {"error":"oh no"}` + "\n\n" + done, "oh no", record.ClassServer},
		{"error after a comment", ": x\n" + `data: {"error":{"message":"oh no"}}` + "\n\n", "oh no", record.ClassServer},
		{"an event called error", two + "event: error\n" + `data: {"message":"oh no"}` + "\n\n" + done, "oh no", record.ClassServer},
		{"an event called error, with error", two + "event: error\n" + `data: {"error":{"message":"oh no","code":429}}` + "\n\n" + done, "oh no", record.ClassRateLimit},
		{"error in a choice", two + `data: {"choices":[{"delta":{"content":""},"finish_reason":"error","error":{"code":502,"message":"oh no"}}]}` + "\n\n" + done, "status 502, request req_1: oh no", record.ClassServer},
		{"finish reason error", two + `data: {"choices":[{"delta":{},"finish_reason":"error"}]}` + "\n\n" + done, "ended the answer with an error", record.ClassServer},
	} {
		for _, contentType := range []string{"text/event-stream", "text/plain", "application/json"} {
			t.Run(tc.name+"/"+contentType, func(t *testing.T) {
				srv := openaitest.New(t, sse(tc.body).WithHeader("Content-Type", contentType))
				var s seen
				got, err := llmAt(t, srv.URL(), actors.WithRetry(core.RetryConfig{MaxAttempts: 1})).
					Call(live.Watch(t.Context(), s.watch), question)
				if tc.fails == "" {
					require.NoError(t, err)
					require.Equal(t, "Fine.", got.Message.Text)
					require.Equal(t, "Fine.", s.part(live.PartText, 0))
					return
				}
				require.ErrorContains(t, err, tc.fails)
				require.Equal(t, tc.class, record.Classify(err))
			})
		}
	}
}

// pipes is an in-memory listener.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
}

func (l *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipes) Close() error {
	close(l.closed)
	return nil
}

func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// A call waits up to 50 ms for the end of a response. In a bubble, that time does
// not pass while a request is in progress.
func TestStreamsUseOneConnectionOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for _, part := range []string{piece("Fine."), finish, done} { // the response ends after [DONE]
				_, _ = io.WriteString(w, part)
				_ = http.NewResponseController(w).Flush()
			}
		})}
		listener := &pipes{make(chan net.Conn), make(chan struct{})}
		var serving sync.WaitGroup
		serving.Go(func() { _ = srv.Serve(listener) })
		connections := 0
		transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			connections++
			client, server := net.Pipe()
			listener.accepted <- server
			return client, nil
		}}
		model := openai.Model{Name: "m", APIKey: secret, BaseURL: "http://service", HTTPClient: &http.Client{Transport: transport}}
		for range 20 {
			_, err := model.LLM().Call(live.Watch(t.Context(), new(seen).watch), question)
			require.NoError(t, err)
		}
		require.Equal(t, 1, connections)
		transport.CloseIdleConnections()
		require.NoError(t, srv.Close())
		serving.Wait()
	})
}

func TestAStreamThatIsLeftOpenAfterItsEndHoldsUpNoCall(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, piece("Fine.")+finish+done)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer srv.Close()
	got, err := llmAt(t, srv.URL).Call(live.Watch(t.Context(), new(seen).watch), question)
	require.NoError(t, err)
	require.Equal(t, "Fine.", got.Message.Text)
}

// slowBody returns one byte every 20 seconds.
type slowBody struct{ strings.Reader }

func (b *slowBody) Read(p []byte) (int, error) {
	time.Sleep(20 * time.Second) //nolint:forbidigo // under synctest's clock
	return b.Reader.Read(p[:min(len(p), 1)])
}

func (*slowBody) Close() error { return nil }

func TestLongLineThatArrivesSlowlyIsNotSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		model := openai.Model{Name: "m", APIKey: secret, Idle: 30 * time.Second, HTTPClient: &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Body: &slowBody{*strings.NewReader(piece("Fine.") + finish)}, Request: r}, nil
		})}}
		got, err := model.LLM(actors.WithRetry(core.RetryConfig{MaxAttempts: 1}), actors.WithAttemptTimeout(core.NoTimeout)).Call(t.Context(), question)
		require.NoError(t, err)
		require.Equal(t, "Fine.", got.Message.Text)
	})
}

func TestAnEventOfManyLinesHasALimit(t *testing.T) {
	line := "data: " + strings.Repeat(" ", 1<<20) + "\n"
	srv := openaitest.New(t, openaitest.Raw(200, strings.Repeat(line, 33)+piece("Fine.")+finish+done).WithHeader("Content-Type", "text/event-stream"))
	_, err := llmAt(t, srv.URL(), actors.WithRetry(core.RetryConfig{MaxAttempts: 1})).Call(t.Context(), question)
	require.ErrorContains(t, err, "malformed reply: an event of more than 33554432 bytes")
}

func TestAReplyThatIsStreamedUnaskedIsRead(t *testing.T) {
	for _, tc := range []struct{ body, fails string }{
		{piece("Fi") + piece("ne.") + finish + done, ""},
		{piece("Fi"), "stream ended before the answer was complete"},
		{piece("Fi") + `data: {"error":{"message":"oh no"}}` + "\n\n" + done, "oh no"},
	} {
		srv := openaitest.New(t, openaitest.Raw(200, tc.body).WithHeader("Content-Type", "text/event-stream; charset=utf-8"))
		got, err := llmAt(t, srv.URL(), actors.WithRetry(core.RetryConfig{MaxAttempts: 1})).Call(t.Context(), question)
		require.False(t, srv.Requests()[0].Stream)
		if tc.fails != "" {
			require.ErrorContains(t, err, tc.fails)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, "Fine.", got.Message.Text)
	}
}

func TestAResponsesStreamIsWholeOrAnError(t *testing.T) {
	const (
		delta     = "event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","delta":"Fine."}` + "\n\n"
		item      = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Fine."}]}`
		completed = `data: {"type":"response.completed","response":{"status":"completed","output":[` + item + `]}}` + "\n\n"
	)
	for _, tc := range []struct {
		name, body, fails string
		class             record.Class
	}{
		{"as it should", delta + completed, "", 0},
		{"with [DONE]", delta + completed + done, "", 0},
		{"output item by item", delta + `data: {"type":"response.output_item.done","item":` + item + `}` + "\n\n" + `data: {"type":"response.completed","response":{"status":"completed","output":[]}}` + "\n\n", "", 0},
		{"not completed", delta, "stream ended before the answer was complete", record.ClassEOF},
		{"[DONE] alone", delta + done, "no choices", record.ClassServer},
		{"failed", delta + `data: {"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"oh no"}}}` + "\n\n", "code server_error, request req_1: oh no", record.ClassServer},
		{"failed without words", delta + `data: {"type":"response.failed","response":{"status":"failed","error":null}}` + "\n\n", `status "failed"`, record.ClassServer},
		{"error event", delta + "event: error\n" + `data: {"type":"error","code":"rate_limit_exceeded","message":"slow","param":null}` + "\n\n", "slow", record.ClassRateLimit},
		{"error event without a name", delta + `data: {"type":"error","code":"rate_limit_exceeded","message":"slow"}` + "\n\n", "slow", record.ClassRateLimit},
		{"error event as in chat", delta + `data: {"type":"error","error":{"code":"server_error","message":"oh no"}}` + "\n\n", "oh no", record.ClassServer},
		{"error event with an empty error", delta + `data: {"type":"error","code":"server_error","message":"oh no","error":{}}` + "\n\n" + done, "oh no", record.ClassServer},
		{"cancelled", `data: {"type":"response.completed","response":{"status":"cancelled"}}` + "\n\n", `status "cancelled"`, record.ClassServer},
		{"a whole response", `{"status":"completed","output":[` + item + `]}`, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := openaitest.New(t, sse(tc.body))
			model := modelAt(t, srv.URL())
			model.API = openai.Responses
			got, err := model.LLM(actors.WithRetry(core.RetryConfig{MaxAttempts: 1})).Call(live.Watch(t.Context(), new(seen).watch), question)
			if tc.fails == "" {
				require.NoError(t, err)
				require.Equal(t, "Fine.", got.Message.Text)
				return
			}
			require.ErrorContains(t, err, tc.fails)
			require.Equal(t, tc.class, record.Classify(err))
		})
	}
}

// A client that is passed to WithClient hides much of the stream, but truncated text is never
// accepted as complete.
func TestAStreamOfAForeignClientIsWholeOrAnError(t *testing.T) {
	for body, whole := range map[string]bool{
		piece("Fine.") + finish + done: true,
		piece("Fine.") + finish:        true,
		piece("Fi"):                    false,
		piece("Fi") + `data: {"error":{"message":"oh no"}}` + "\n\n":         false,
		piece("Fi") + `data: { "error":{"message":"oh no"}}` + "\n\n" + done: false,
		"": false,
	} {
		srv := openaitest.New(t, sse(body))
		llm := openai.New("m", openai.WithClient(newClient(t, srv.URL())), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
		got, err := llm.Call(live.Watch(t.Context(), new(seen).watch), question)
		require.Equal(t, whole, err == nil, "%q: %v", body, err)
		if whole {
			require.Equal(t, "Fine.", got.Message.Text)
		}
	}
	srv := openaitest.New(t, openaitest.RateLimited(time.Second))
	llm := openai.New("m", openai.WithClient(newClient(t, srv.URL())), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	_, err := llm.Call(live.Watch(t.Context(), new(seen).watch), question)
	require.ErrorContains(t, err, "status 429")
	require.ErrorContains(t, err, "does not expose its headers")
}

func TestAStreamThatBreaksOffIsRetriedAndItsUsageEstimated(t *testing.T) {
	srv, st, llm := setup(t, []openaitest.Step{
		openaitest.Text("one two three").CutAfter(2),
		openaitest.Text("one two three").FailAfter(1, "server_error", "oh no"),
		openaitest.Text("one two three").WithUsage(9, 3),
	}, atOnce)
	var s seen
	got, err := llm.Call(live.Watch(st.Context(t.Context()), s.watch), question)
	require.NoError(t, err)
	require.Equal(t, "one two three", got.Message.Text)
	require.Equal(t, []string{"one two ", "one ", "one two three"},
		[]string{s.part(live.PartText, 0), s.part(live.PartText, 1), s.part(live.PartText, 2)})
	for _, rec := range records(t, st, record.StatusFailed) {
		usage := rec.Detail.Usage
		require.True(t, usage.Estimated && usage.InputTokens > 0 && usage.OutputTokens > 0, "%+v", usage)
	}
	require.Equal(t, core.Usage{InputTokens: 9, OutputTokens: 3}, records(t, st, record.StatusCompleted)[0].Detail.Usage)
	require.Len(t, srv.Requests(), 3)
}

// After the finish reason, nothing is missing but the usage.
func TestACompleteAnswerIsKeptThoughItsStreamBreaksOff(t *testing.T) {
	const usage = `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2}}` + "\n\n"
	for _, tc := range []struct {
		name, body string
		broken     error // ends the stream; nil leaves it open
		want       core.Usage
	}{
		{"with usage", piece("Fine.") + finish + usage, io.ErrUnexpectedEOF, core.Usage{InputTokens: 3, OutputTokens: 2}},
		{"without usage", piece("Fine.") + finish, syscall.ECONNRESET, core.Usage{InputTokens: 31, OutputTokens: 2, Estimated: true}},
		{"cut in the usage", piece("Fine.") + finish + usage[:20], io.ErrUnexpectedEOF, core.Usage{InputTokens: 31, OutputTokens: 2, Estimated: true}},
		{"open, with usage", piece("Fine.") + finish + usage, nil, core.Usage{InputTokens: 3, OutputTokens: 2}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				requests := 0
				client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
					requests++
					body, w := io.Pipe()
					go func() {
						_, _ = io.WriteString(w, tc.body)
						err := tc.broken
						if err == nil {
							<-r.Context().Done()
							err = r.Context().Err()
						}
						_ = w.CloseWithError(err)
					}()
					return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: r}, nil
				})}
				model := openai.Model{Name: "m", BaseURL: "http://service", HTTPClient: client, Idle: time.Minute}
				got, err := model.LLM(atOnce).Call(live.Watch(t.Context(), new(seen).watch), question)
				require.NoError(t, err)
				require.Equal(t, "Fine.", got.Message.Text)
				require.Equal(t, tc.want, got.Usage)
				require.Equal(t, 1, requests)
			})
		})
	}
}

// In streams, Ollama, llama.cpp and gateways to Gemini have sent whole calls without IDs or without
// indexes.
func TestWholeToolCallsOfAStreamStaySeparate(t *testing.T) {
	event := func(calls string) string { return `{"choices":[{"delta":{"tool_calls":[` + calls + `]}}]}` }
	call := func(fields, name, arguments string) string {
		return `{` + fields + `"function":{"name":"` + name + `","arguments":` + arguments + `}}`
	}
	one, two := `"{\"n\":1}"`, `"{\"n\":2}"`
	for name, c := range map[string]struct {
		events []string
		want   []actors.ToolCall
	}{
		"no ID, no index": {[]string{event(call(``, "f", one)), event(call(``, "g", two))}, nil},
		"one name": {
			[]string{event(call(``, "f", one)), event(call(``, "f", two))},
			[]actors.ToolCall{callOf("", "f", `{"n":1}`), callOf("", "f", `{"n":2}`)},
		},
		"one event":            {[]string{event(call(``, "f", one) + "," + call(``, "g", two))}, nil},
		"empty IDs":            {[]string{event(call(`"id":"",`, "f", one)), event(call(`"id":"",`, "g", two))}, nil},
		"one index":            {[]string{event(call(`"index":0,`, "f", one)), event(call(`"index":0,`, "g", two))}, nil},
		"one index, one event": {[]string{event(call(`"index":0,`, "f", one) + "," + call(`"index":0,`, "g", two))}, nil},
		"one index, one ID":    {[]string{event(call(`"index":0,"id":"c",`, "f", one)), event(call(`"index":0,"id":"c",`, "g", two))}, nil},
		"objects":              {[]string{event(call(``, "f", `{"n":1}`)), event(call(``, "g", `{"n":2}`))}, nil},
		"the name in each piece": {
			[]string{event(call(`"index":0,`, "f", `"{\"n\":"`)), event(call(`"index":0,`, "f", `"1}"`)), event(call(`"index":0,`, "f", `"\n"`)), event(call(`"index":0,`, "f", `""`))},
			[]actors.ToolCall{callOf("", "f", `{"n":1}`+"\n")},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := once(t, openai.Chat, streamOf(append(c.events, `{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`)...))
			require.NoError(t, err)
			if c.want == nil {
				c.want = []actors.ToolCall{callOf("", "f", `{"n":1}`), callOf("", "g", `{"n":2}`)}
			}
			ids := make(map[string]bool)
			for i := range got.Message.ToolCalls {
				ids[got.Message.ToolCalls[i].ID] = true
				got.Message.ToolCalls[i].ID = ""
			}
			require.Equal(t, c.want, got.Message.ToolCalls)
			require.Len(t, ids, len(c.want), "IDs")
		})
	}
}

func TestToolCallsOfAStreamArePutTogetherAsServicesSendThem(t *testing.T) {
	call := func(fields string) string {
		return `data: {"choices":[{"delta":{"tool_calls":[{` + fields + `}]}}]}` + "\n\n"
	}
	const end = `data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}]}` + "\n\n"
	two := asked(callOf("a", "f", `{"n":1}`), callOf("b", "g", `{}`))
	for _, tc := range []struct {
		name, body string
		want       actors.Message
	}{
		{"by index", call(`"index":0,"id":"a","function":{"name":"f","arguments":""}`) + call(`"index":0,"function":{"arguments":"{\"n\""}`) + call(`"index":1,"id":"b","function":{"name":"g","arguments":"{}"}`) + call(`"index":0,"function":{"arguments":":1}"}`), two},
		{"index as a float", call(`"index":0.0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}`) + call(`"index":1.0,"id":"b","function":{"name":"g","arguments":"{}"}`), two},
		{"one index for all", call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}`) + call(`"index":0,"id":"b","function":{"name":"g","arguments":"{}"}`), two},
		{"no index", call(`"id":"a","function":{"name":"f","arguments":"{\"n\":"}`) + call(`"function":{"arguments":"1}"}`) + call(`"id":"b","function":{"name":"g","arguments":"{}"}`), two},
		{"ID and name in each", call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":"}`) + call(`"index":0,"id":"a","function":{"name":"f","arguments":"1}"}`) + call(`"index":1,"id":"b","function":{"name":"g","arguments":"{}"}`), two},
		{"one ID for all", call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}`) + call(`"index":1,"id":"a","function":{"name":"g","arguments":"{}"}`), asked(callOf("a", "f", `{"n":1}`), callOf("call_1", "g", `{}`))},
		{"no ID", call(`"index":0,"function":{"name":"f","arguments":"{\"n\":1}"}`) + call(`"index":1,"function":{"name":"g","arguments":"{}"}`), asked(callOf("call_1", "f", `{"n":1}`), callOf("call_2", "g", `{}`))},
		{"no arguments", call(`"index":0,"id":"a","function":{"name":"f"}`) + call(`"index":1,"id":"b","function":{"name":"g","arguments":null}`), asked(callOf("a", "f", ""), callOf("b", "g", ""))},
		{"legacy function call", `data: {"choices":[{"delta":{"function_call":{"name":"f","arguments":"{\"n\""}}}]}` + "\n\n" + `data: {"choices":[{"delta":{"function_call":{"arguments":":1}"}}}]}` + "\n\n", asked(callOf("call_1", "f", `{"n":1}`))},
		{"custom tool call", call(`"index":0,"id":"a","type":"custom","custom":{"name":"f","input":"*** "}`) + call(`"index":0,"custom":{"input":"Begin"}`), asked(callOf("a", "f", `*** Begin`))},
		{"another ID in each piece", call(`"index":0,"id":"a","function":{"name":"f","arguments":""}`) + call(`"index":0,"id":"x","function":{"arguments":"{\"n\":"}`) + call(`"index":0,"id":"y","function":{"name":null,"arguments":"1}"}`) + call(`"index":1,"id":"b","function":{"name":"g","arguments":"{}"}`), two},
		{"another ID and the name in each piece", call(`"index":0,"id":"a","function":{"name":"f","arguments":""}`) + call(`"index":0,"id":"x","function":{"name":"f","arguments":"{\"n\":"}`) + call(`"index":0,"id":"y","function":{"name":"f","arguments":"1}"}`) + call(`"index":0,"id":"b","function":{"name":"g","arguments":"{}"}`), two},
		{"one index for all, one function", call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}`) + call(`"index":0,"id":"b","function":{"name":"f","arguments":"{\"n\":2}"}`), asked(callOf("a", "f", `{"n":1}`), callOf("b", "f", `{"n":2}`))},
		{"one index for all, empty IDs between", call(`"index":0,"id":"a","function":{"name":"f","arguments":""}`) + call(`"index":0,"id":"","function":{"arguments":"{\"n\":1}"}`) + call(`"index":0,"id":"b","function":{"name":"g","arguments":""}`) + call(`"index":0,"id":"","function":{"arguments":"{}"}`), two},
		{"ID and name apart", call(`"index":1,"id":"a"`) + call(`"index":1,"function":{"name":"f","arguments":"{\"n\":1}"}`) + call(`"index":2,"id":"b","function":{"name":"g"}`) + call(`"index":2,"function":{"arguments":"{}"}`), two},
		{"one ID for all, one function, no index", call(`"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}`) + call(`"id":"a","function":{"name":"f","arguments":"{\"n\":"}`) + call(`"id":"a","function":{"arguments":"2}"}`), asked(callOf("a", "f", `{"n":1}`), callOf("call_1", "f", `{"n":2}`))},
		{"one ID and index for all, one function", call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}`) + call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":2}"}`), asked(callOf("a", "f", `{"n":1}`), callOf("call_1", "f", `{"n":2}`))},
		{"a call that is repeated at the end", call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\""}`) + call(`"index":0,"function":{"arguments":":1}"}`) + call(`"index":1,"id":"b","function":{"name":"g","arguments":"{}"}`) + call(`"index":0,"id":"a","function":{"name":"f","arguments":"{\"n\":1}"}`), two},
		{"arguments as an object", call(`"index":0,"id":"a","function":{"name":"f","arguments":{"n":1}}`) + call(`"index":1,"id":"b","function":{"name":"g","arguments":{}}`), two},
	} {
		t.Run(tc.name, func(t *testing.T) {
			srv := openaitest.New(t, sse(tc.body+end))
			got, err := llmAt(t, srv.URL()).Call(live.Watch(t.Context(), new(seen).watch), question)
			require.NoError(t, err)
			require.Equal(t, tc.want, got.Message)
		})
	}
}

func TestOpaqueDataIsAssembledFromAStream(t *testing.T) {
	srv := openaitest.New(t, sse(
		`data: {"choices":[{"delta":{"reasoning":"Hm, ","reasoning_details":[{"type":"reasoning.text","text":"Hm, ","index":0}]}}]}`+"\n\n"+
			`data: {"choices":[{"delta":{"reasoning":"hm.","reasoning_details":[{"type":"reasoning.text","text":"hm.","signature":"sig","index":0}]}}]}`+"\n\n"+
			`data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]},"finish_reason":"tool_calls"}]}`+"\n\n"),
		openaitest.Text("Fine."))
	llm := llmAt(t, srv.URL())
	got, err := llm.Call(live.Watch(t.Context(), new(seen).watch), question)
	require.NoError(t, err)
	require.Equal(t, "Hm, hm.", got.Message.Reasoning)
	_, err = llm.Call(t.Context(), actors.Request{Messages: []actors.Message{actors.User("?"), got.Message, actors.ToolResult("a", "1")}})
	require.NoError(t, err)
	for _, want := range []string{`"reasoning":"Hm, hm."`, `"reasoning_details":[{"index":0,"signature":"sig","text":"Hm, hm.","type":"reasoning.text"}]`, `"extra_content":{"google":{"thought_signature":"c2ln"}}`} {
		require.Contains(t, string(srv.Requests()[1].Body), want)
	}
}

func TestASilentServiceIsRetried(t *testing.T) {
	for _, tc := range []struct {
		name        string
		step        openaitest.Step
		first, idle time.Duration
		want        time.Duration
		text        string
	}{
		{"before the first token", openaitest.Text("a").After(time.Hour), time.Minute, 0, time.Minute, "no part of an answer within 1m0s"},
		{"before any byte", openaitest.Text("a").After(time.Hour), 0, 30 * time.Second, 30 * time.Second, "nothing within 30s"},
		{"in the middle", openaitest.Text("a b c").StallAfter(2), time.Minute, 30 * time.Second, 30 * time.Second, "nothing within 30s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := openaitest.NewLocal(t, tc.step, openaitest.Text("a b c").WithPace(20*time.Second))
				st := state.New()
				defer st.Close()
				model := openai.Model{Name: "m", BaseURL: srv.URL(), HTTPClient: srv.Client(), FirstToken: tc.first, Idle: tc.idle}
				begin := time.Now()
				got, err := model.LLM(atOnce).Call(st.Context(t.Context()), question)
				require.NoError(t, err)
				require.Equal(t, "a b c", got.Message.Text)
				failed := records(t, st, record.StatusFailed)
				require.Len(t, failed, 1)
				require.Equal(t, record.ClassTimeout, failed[0].Class)
				require.ErrorContains(t, failed[0].Err, tc.text)
				require.Equal(t, tc.want+80*time.Second, time.Since(begin), "pauses within the limits are not silence")
			})
		})
	}
}

// Comments keep the connection alive but are not part of an answer.
func TestCommentsAreNotAFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			body, w := io.Pipe()
			go func() {
				for {
					select {
					case <-time.After(10 * time.Second):
						if _, err := io.WriteString(w, ": processing\n\n"); err != nil {
							return
						}
					case <-r.Context().Done():
						_ = w.CloseWithError(r.Context().Err())
						return
					}
				}
			}()
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: r}, nil
		})}
		model := openai.Model{Name: "m", BaseURL: "http://service", HTTPClient: client, FirstToken: time.Minute, Idle: 15 * time.Second}
		begin := time.Now()
		_, err := model.LLM(actors.WithRetry(core.RetryConfig{MaxAttempts: 1})).Call(t.Context(), question)
		require.ErrorContains(t, err, "no part of an answer within 1m0s")
		require.Equal(t, time.Minute, time.Since(begin))
	})
}

func TestAnInterruptEndsAStreamAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := openaitest.NewLocal(t, openaitest.Text("a b c").StallAfter(1))
		st := state.New()
		defer st.Close()
		llm := openai.New("m", openai.WithBaseURL(srv.URL()), openai.WithHTTPClient(srv.Client()))
		ctx := live.Watch(st.Context(t.Context()), func(d live.Delta) {
			if d.Part == live.PartText {
				st.Interrupt(snapshot.Stop{})
			}
		})
		_, err := llm.Call(ctx, question)
		require.ErrorIs(t, err, core.ErrInterrupted)
	})
}

func TestTheKeyIsInNoErrorOfAStream(t *testing.T) {
	for _, body := range []string{
		piece("Fi") + `data: {"error":{"message":"no such key: ` + secret + `"}}` + "\n\n",
		"<p>no such key: " + secret, `{"error":{"message":"no such key: ` + secret + `","type":"t"}}`,
	} {
		srv := openaitest.New(t, sse(body))
		_, err := llmAt(t, srv.URL(), actors.WithRetry(core.RetryConfig{MaxAttempts: 1})).Call(live.Watch(t.Context(), new(seen).watch), question)
		require.ErrorContains(t, err, "[redacted]")
		for e := err; e != nil; e = errors.Unwrap(e) {
			require.NotContains(t, fmt.Sprintf("%v %+v", e, e), secret)
		}
	}
}

func FuzzStream(f *testing.F) {
	f.Add(piece("Fine.") + finish + done)
	f.Add("data: {\"error\":{}}\r\r: x\r\ndata")
	f.Add("event: error\ndata: []\n\n")
	f.Add("{\"error\": [1]}")
	f.Fuzz(func(t *testing.T, body string) {
		for _, api := range []openai.API{openai.Chat, openai.Responses} {
			client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				return reply(r, 200, body, "", ""), nil
			})}
			model := openai.Model{Name: "m", BaseURL: "http://service", HTTPClient: client, API: api}
			llm := model.LLM(actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
			for _, ctx := range []context.Context{t.Context(), live.Watch(t.Context(), func(live.Delta) {})} {
				if _, err := llm.Call(ctx, question); errors.Is(err, core.ErrPanic) {
					t.Fatal(err)
				}
			}
		}
	})
}

// The headers of a refused stream are read, although go-openai would not expose them.
func TestRetryAfterIsFoundAlsoWhereAStreamIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, api := range []openai.API{openai.Chat, openai.Responses} {
			srv := openaitest.NewLocal(t,
				openaitest.RateLimited(90*time.Second),
				openaitest.Failure(503, "busy").WithHeader("Retry-After", "30"),
				openaitest.Text("Fine."))
			st := state.New()
			model := openai.Model{Name: "m", BaseURL: srv.URL(), HTTPClient: srv.Client(), API: api}
			begin := time.Now()
			got, err := model.LLM(atOnce).Call(live.Watch(st.Context(t.Context()), new(seen).watch), question)
			require.NoError(t, err)
			require.Equal(t, "Fine.", got.Message.Text)
			require.Equal(t, 2*time.Minute, time.Since(begin))
			for _, rec := range records(t, st, record.StatusRetrying) {
				require.Equal(t, record.SourceServer, rec.DelaySource)
			}
			require.NoError(t, st.Close())
		}
	})
}

// sse is a step that answers with the events of a stream.
func sse(body string) openaitest.Step {
	return openaitest.Raw(http.StatusOK, body).WithHeader("Content-Type", "text/event-stream")
}
