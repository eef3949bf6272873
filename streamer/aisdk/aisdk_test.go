package aisdk_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/aisdk"
)

func TestTextOfAnAttemptThatFailedIsWithdrawnAndTheRetryIsShown(t *testing.T) {
	waits := make(chan struct{})
	url, _ := serve(t, memstore.New(), talking(waits))
	resp, err := http.Post(url+"chat/assistant", "application/json", strings.NewReader(say("a", "retry")))
	require.NoError(t, err)
	defer resp.Body.Close()
	chunks, err := read(t, resp.Body, func(c chunk) bool {
		if c.Type == "text-delta" && c.Delta == "half" {
			close(waits)
		}
		return true
	})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"start", "start-step", "text-start", "reset-step", "data-retry", "data-retry", "text-start", "text-end", "finish-step", "finish",
	}, types(chunks))
	assert.Equal(t, "a-0001", chunks[0].MessageID)
	assert.Equal(t, "You said retry", shown(chunks))
	var retries []map[string]any
	for _, c := range chunks {
		if c.Type == "data-retry" {
			var retry map[string]any
			require.NoError(t, json.Unmarshal(c.Data, &retry))
			retries = append(retries, retry)
		}
	}
	assert.Equal(t, []any{2.0, "busy", false}, []any{retries[0]["attempt"], retries[0]["error"], retries[0]["over"]})
	assert.Equal(t, true, retries[1]["over"])
}

// approve returns what useChat posts once the user has decided on an approval.
func approve(id, message, approval, approved string) string {
	return fmt.Sprintf(`{"id":%q,"messages":[{"id":"m-book","role":"user","parts":[{"type":"text","text":"book"}]},`+
		`{"id":%q,"role":"assistant","parts":[{"type":"dynamic-tool","toolCallId":"c","state":"approval-responded","approval":{"id":%q%s}}]}]}`, id, message, approval, approved)
}

func TestApprovedTurnContinuesWithWhatIsNewAndAnAnswerCountsOnce(t *testing.T) {
	url := begin(t)
	chunks := post(t, url, say("a", "book"))
	assert.Equal(t, []string{"start", "start-step", "tool-input-available", "tool-approval-request", "finish-step", "finish"}, types(chunks))
	question := chunks[3].ApprovalID
	assert.Equal(t, "a-0001:assistant/approve_book?1", question)

	refused := func(body, want string) {
		t.Helper()
		chunks := post(t, url, body)
		require.Equal(t, []string{"error"}, types(chunks), "%+v", chunks)
		assert.Contains(t, chunks[0].ErrorText, want)
	}
	refused(say("a", "hello"), "the last turn has not ended")
	refused(approve("a", "a-0001", question, ""), "approved is missing")
	refused(approve("a", "a-0001", "a-0002:assistant/approve_book?1", `,"approved":true`), "no question")
	refused(approve("b", "b-0001", question, `,"approved":true`), "not one of its answers")

	chunks = post(t, url, approve("a", "a-0001", question, `,"approved":true`))
	assert.Equal(t, []string{"start", "tool-approval-response", "tool-output-available", "start-step", "text-start", "text-end", "finish-step", "finish"}, types(chunks))
	assert.Equal(t, "It is booked", shown(chunks))
	refused(approve("a", "a-0001", question, `,"approved":true`), "the thread waits for no answer")

	second := strings.Replace(say("a", "book"), "m-book", "m-again", 1)
	chunks = post(t, url, second)
	assert.Equal(t, "a-0002:assistant/approve_book?1", chunks[3].ApprovalID, "of the run of the turn")
	refused(approve("a", "a-0002", question, `,"approved":true`), "no question")
	chunks = post(t, url, approve("a", "a-0002", chunks[3].ApprovalID, `,"approved":false,"reason":"no"`))
	assert.Contains(t, types(chunks), "tool-output-denied")
	assert.Equal(t, "It is error: not approved: no", shown(chunks))
}

func TestQuestionIsAskedAsATool(t *testing.T) {
	url := begin(t)
	chunks := post(t, url, say("a", "ask"))
	assert.Equal(t, []string{"start", "start-step", "tool-input-available", "finish-step", "start-step", "tool-input-available", "finish-step", "finish"}, types(chunks))
	answer := func(value string) []chunk {
		return post(t, url, fmt.Sprintf(`{"id":"a","messages":[{"id":"a-0001","role":"assistant","parts":[{"type":"dynamic-tool","toolName":"question","toolCallId":%q,"state":"output-available","output":%s}]}]}`, chunks[5].ToolCallID, value))
	}
	wrong := answer("7")
	require.Equal(t, []string{"error"}, types(wrong))
	assert.Contains(t, wrong[0].ErrorText, "got")
	assert.Equal(t, "It is Rome", shown(answer(`"Rome"`)))
}

// Two requests with the same message begin only one turn, and a page that reconnects receives all
// of it.
func TestMessageThatIsPostedAgainJoinsItsTurn(t *testing.T) {
	url := begin(t)
	first := post(t, url, say("a", "hello"))
	assert.Equal(t, shown(first), shown(post(t, url, say("a", "hello"))))
	again, err := try(t, http.MethodGet, url+"/a/stream", "")
	require.NoError(t, err)
	assert.Equal(t, types(first), types(again))
	var thread struct{ Messages []json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(get(t, url+"/a", http.StatusOK)), &thread))
	assert.Len(t, thread.Messages, 2)
}

func get(t *testing.T, url string, status int) string {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, status, resp.StatusCode)
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(data)
}

func TestPageThatComesBackAfterARestartMissesNothing(t *testing.T) {
	store, waits := memstore.New(), make(chan struct{})
	url, stop := serve(t, store, talking(waits))
	resp, err := http.Post(url+"chat/assistant", "application/json", strings.NewReader(say("a", "wait")))
	require.NoError(t, err)
	defer resp.Body.Close()
	half, err := read(t, resp.Body, func(c chunk) bool { return c.Type != "text-delta" })
	require.NoError(t, err)
	assert.Equal(t, "You said ", shown(half))
	stop()
	_, err = read(t, resp.Body, func(chunk) bool { return true })
	require.Error(t, err, "a broken stream must not look complete")

	close(waits)
	url, _ = serve(t, store, talking(waits))
	whole, err := try(t, http.MethodGet, url+"chat/assistant/a/stream", "")
	require.NoError(t, err)
	assert.Equal(t, "You said wait", shown(whole))
	assert.Equal(t, "finish", whole[len(whole)-1].Type)
	assert.Equal(t, "start", whole[0].Type)
	assert.Equal(t, "a-0001", whole[0].MessageID)
}

func TestTurnIsStopped(t *testing.T) {
	url, _ := serve(t, memstore.New(), talking(nil))
	url += "chat/assistant"
	resp, err := http.Post(url, "application/json", strings.NewReader(say("a", "wait")))
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = read(t, resp.Body, func(c chunk) bool { return c.Type != "text-delta" })
	require.NoError(t, err)
	stopped, err := http.Post(url+"/a/stop", "", nil)
	require.NoError(t, err)
	require.NoError(t, stopped.Body.Close())
	assert.Equal(t, http.StatusOK, stopped.StatusCode)
	rest, err := read(t, resp.Body, func(chunk) bool { return true })
	require.NoError(t, err)
	assert.Equal(t, "abort", rest[len(rest)-1].Type)
	assert.Equal(t, "You said on", shown(post(t, url, say("a", "on"))), "the thread continues")
}

func TestWhatCannotBeSaidIsAnErrorOfTheStream(t *testing.T) {
	url := begin(t)
	post(t, url, say("a", "hello"))
	user := func(parts string) string {
		return `{"id":"a","messages":[{"id":"n","role":"user","parts":` + parts + `}]}`
	}
	for body, want := range map[string]string{
		``:                           "not a request from useChat",
		`[]`:                         `such as {"id": "chat", "messages": […]}: got an array, want an object`,
		"\"\xff\"":                   "UTF-8",
		`{"messages":[]}`:            "the field id is required",
		`{"id":"a"}`:                 "messages is empty",
		`{"id":"a","messages":[{}]}`: "has the role",
		`{"id":"a","messages":[{"role":"system"}]}`:                              "the last message has the role system",
		`{"id":"a","trigger":"regenerate-message","messages":[{"role":"user"}]}`: "cannot be regenerated",
		`{"id":"a","trigger":"go","messages":[{"role":"user"}]}`:                 "want submit-message",
		user(`[]`):                      "no text",
		user(`[{"type":"source-url"}]`): "want text or file",
		user(`[{"type":"file","url":"data:text/plain,x"}]`): "not base64",
		strings.Replace(say("a", "x"), `"a"`, `"../a"`, 1):  "not allowed",
		`{"id":"a","messages":[{"id":"x","role":"assistant","parts":[{"type":"text"}]},{"id":"n","role":"user","parts":[{"type":"text","text":"x"}]}]}`:     "does not match the thread",
		`{"id":"a","messages":[{"id":"a-0002","role":"assistant","parts":[{"type":"text"}]}]}`:                                                              "does not match the thread",
		`{"id":"a","messages":[{"id":"a-0001","role":"assistant","parts":[{"type":"text"}]}]}`:                                                              "waits for no answer",
		`{"id":"a","messages":[{"id":"a-0001","role":"assistant","parts":[{"type":"text"}]},{"id":"a-0001","role":"assistant","parts":[{"type":"text"}]}]}`: "out of order",
	} {
		chunks := post(t, url, body)
		require.Equal(t, []string{"error"}, types(chunks), body)
		assert.Contains(t, chunks[0].ErrorText, want, body)
	}
	chunks := post(t, strings.Replace(url, "assistant", "nobody", 1), say("b", "hello"))
	require.Equal(t, []string{"error"}, types(chunks))
	assert.Equal(t, `there is no program "nobody"`, chunks[0].ErrorText)
	failed := post(t, url, say("c", "fail"))
	assert.Contains(t, failed[len(failed)-1].ErrorText, "out of ink")

	get(t, url+"/nobody", http.StatusNotFound)
	get(t, url, http.StatusMethodNotAllowed)
	get(t, url+"/a/stop", http.StatusMethodNotAllowed)
	get(t, url+"/a/b/c", http.StatusNotFound)
	get(t, url+"/nobody/stream", http.StatusNoContent)
}

// The agent is retried after it has made a step. A page that is already open keeps the earlier
// steps, which the protocol cannot withdraw. A page that loads the thread or reconnects does not
// receive them.
func TestPageThatComesBackDoesNotSeeTheStepsOfAnAgentThatWasRetried(t *testing.T) {
	seen := make(chan struct{})
	url, _ := serve(t, memstore.New(), forgetful(seen))
	url += "chat/assistant"
	resp, err := http.Post(url, "application/json", strings.NewReader(say("a", "hello")))
	require.NoError(t, err)
	defer resp.Body.Close()
	chunks, err := read(t, resp.Body, func(c chunk) bool {
		if strings.HasPrefix(c.Delta, "first") {
			close(seen)
		}
		return true
	})
	require.NoError(t, err)
	assert.Contains(t, types(chunks), "reset-step")
	again, err := try(t, http.MethodGet, url+"/a/stream", "")
	require.NoError(t, err)
	assert.Equal(t, []string{
		"start", "data-retry", "data-retry", "start-step", "text-start", "text-end", "tool-input-available", "tool-output-available", "finish-step",
		"start-step", "text-start", "text-end", "finish-step", "finish",
	}, types(again))
	assert.Equal(t, "second, second, done", shown(again))
	thread := get(t, url+"/a", http.StatusOK)
	assert.NotContains(t, thread, "first")
	assert.Contains(t, thread, "second, ")
}

var errBegins = errors.New("the agent must start over")

// forgetful returns an agent that fails once, after the model has called a tool and the client has
// seen this.
func forgetful(seen <-chan struct{}) conversation.Agent {
	look := decorators.Tool("look", "", func(context.Context, struct{}) (string, error) { return "looked", nil })
	again := false
	model := actors.NewLLM("model", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		switch asked := req.Messages[len(req.Messages)-1].Role != actors.RoleTool; {
		case asked:
			m := actors.Assistant(map[bool]string{false: "first, ", true: "second, "}[again])
			m.ToolCalls = []actors.ToolCall{{ID: "c", Name: "look", Arguments: "{}"}}
			return actors.Response{Message: m}, nil
		case !again:
			select {
			case <-seen:
			case <-ctx.Done():
				return actors.Response{}, context.Cause(ctx)
			}
			again = true
			return actors.Response{}, errBegins
		}
		return actors.Response{Message: actors.Assistant("second, done")}, nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	retry := core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay, RetryOn: []core.Matcher{core.MatchIs(errBegins)}}
	return actors.NewAgent("assistant", model, actors.WithTools(look), actors.WithRetry(retry))
}

// A body is read only up to the limit, and a page that posts a larger one gets an error.
func TestBodyThatIsTooLargeIsAnErrorOfTheStream(t *testing.T) {
	url := begin(t)
	const most = 16 << 20
	chunks := post(t, url, `{"id":"`+strings.Repeat("x", most+1-len(`{"id":"`)))
	require.Equal(t, []string{"error"}, types(chunks))
	assert.Equal(t, "the body has more than 16777216 bytes", chunks[0].ErrorText)
	assert.Equal(t, "You said on", shown(post(t, url, say("a", "on"))))
}

func TestHistoryThatDoesNotFitTheThreadIsRefused(t *testing.T) {
	url := begin(t)
	post(t, url, say("a", "hello"))
	post(t, url, say("a", "again"))
	said := func(id string) string {
		return `{"id":"` + id + `","role":"assistant","parts":[{"type":"text","text":"x"}]}`
	}
	user := func(id string) string {
		return `{"id":"` + id + `","role":"user","parts":[{"type":"text","text":"x"}]}`
	}
	for want, messages := range map[string][]string{
		"out of order": {said("a-0002"), said("a-0001"), user("m-more")},
		`message "b-0001" is not one of its answers`:   {said("b-0001"), user("m-more")},
		`message "a-0003" is not one of its answers`:   {said("a-0003"), user("m-more")},
		`the message "m-hello" was sent before`:        {user("m-hello"), said("a-0001"), user("m-again"), said("a-0002"), user("m-hello")},
		`it began turn 1, and other turns have follow`: {user("m-hello")},
	} {
		chunks := post(t, url, `{"id":"a","messages":[`+strings.Join(messages, ",")+`]}`)
		require.Equal(t, []string{"error"}, types(chunks), want)
		assert.Contains(t, chunks[0].ErrorText, want)
	}
	var thread struct{ Messages []json.RawMessage }
	require.NoError(t, json.Unmarshal([]byte(get(t, url+"/a", http.StatusOK)), &thread))
	assert.Len(t, thread.Messages, 4, "nothing was added")
}

func TestAnswerToNoQuestionIsRefused(t *testing.T) {
	url := begin(t)
	chunks := post(t, url, say("a", "book"))
	for id, want := range map[string]string{
		"nothing": `no question "nothing" is open`, "a-0001:nothing?1": `no question "a-0001:nothing?1" is open`, "": "is open",
	} {
		refused := post(t, url, approve("a", "a-0001", id, `,"approved":true`))
		require.Equal(t, []string{"error"}, types(refused), id)
		assert.Contains(t, refused[0].ErrorText, want)
	}
	assert.Equal(t, "It is booked", shown(post(t, url, approve("a", "a-0001", chunks[3].ApprovalID, `,"approved":true`))), "the question was still open")
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	dash, err := streamer.New(nil, streamer.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dash.Close(t.Context())) }()
	_, err = aisdk.New(dash, aisdk.Options{})
	require.ErrorContains(t, err, "Threads and Options.Control are required")
}
