package agui_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/agui"
)

func TestTextOfAnAttemptThatFailedIsWithdrawnWithASnapshot(t *testing.T) {
	waits := make(chan struct{})
	url, _ := serve(t, memstore.New(), talking(waits))
	resp, err := http.Post(url+"agui/assistant", "application/json", strings.NewReader(say("a", "retry")))
	require.NoError(t, err)
	defer resp.Body.Close()
	events, err := read(t, resp.Body, func(e event) bool {
		if e.Delta == "half" {
			close(waits)
		}
		return true
	})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "MESSAGES_SNAPSHOT", "CUSTOM", "CUSTOM", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED",
	}, types(events))
	for _, e := range events {
		if e.Type == "MESSAGES_SNAPSHOT" {
			require.Len(t, e.Messages, 1, "the user's message is kept")
			assert.JSONEq(t, user("retry"), string(e.Messages[0]))
		}
	}
	assert.Equal(t, "You said retry", shown(events))
	assert.Equal(t, "success", events[len(events)-1].Outcome.Type)
}

func TestInterruptIsResumedWithWhatIsNewAndAnAnswerCountsOnce(t *testing.T) {
	url := begin(t)
	events := post(t, url, say("a", "book"))
	assert.Equal(t, []string{"RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "MESSAGES_SNAPSHOT", "RUN_FINISHED"}, types(events))
	end := events[len(events)-1]
	require.Equal(t, "interrupt", end.Outcome.Type)
	require.Len(t, end.Outcome.Interrupts, 1)
	asked := end.Outcome.Interrupts[0]
	assert.Equal(t, "tool_call", asked.Reason)
	assert.Equal(t, "a-0001/c", asked.ToolCallID)
	assert.Equal(t, "a-0001:assistant/approve_book?1", asked.ID)

	resume := func(id, answer string) string {
		return input("a", fmt.Sprintf(`"resume":[{"interruptId":%q,%s}],`, id, answer), user("book"))
	}
	refused := func(body, want string) {
		t.Helper()
		events := post(t, url, body)
		require.Equal(t, []string{"RUN_ERROR"}, types(events), "%+v", events)
		assert.Contains(t, events[0].Message, want)
	}
	refused(say("a", "hello"), "the thread waits for answers")
	refused(resume(asked.ID, `"status":"resolved"`), "has no payload")
	refused(resume(asked.ID, `"status":"resolved","payload":true`), "is not an object")
	refused(resume(asked.ID, `"status":"resolved","payload":{"approved":"yes"}`), "approved")
	refused(resume(asked.ID, `"status":"resolved","payload":{"approved":true,"editedArgs":{"city":7}}`), "arguments.city: unknown field")
	refused(resume(asked.ID, `"status":"later"`), "want resolved or cancelled")
	refused(resume("a-0002:assistant/approve_book?1", `"status":"resolved","payload":{"approved":true}`), "no question")

	events = post(t, url, resume(asked.ID, `"status":"resolved","payload":{"approved":true}`))
	assert.Equal(t, []string{"RUN_STARTED", "TOOL_CALL_RESULT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"}, types(events))
	assert.Equal(t, "booked", events[1].Content)
	refused(resume(asked.ID, `"status":"resolved","payload":{"approved":true}`), "waits for no answer")

	post(t, url, input("a", "", strings.Replace(user("book"), "m-book", "m-2", 1)))
	refused(resume(asked.ID, `"status":"resolved","payload":{"approved":true}`), "no question")
	events = post(t, url, resume("a-0002:assistant/approve_book?1", `"status":"cancelled"`))
	assert.Equal(t, "It is error: not approved: cancelled", shown(events))
}

// A line break in a message must not end a line of the stream.
func TestSnapshotContainsTheMessagesOfAnIndentedRequest(t *testing.T) {
	url := begin(t)
	var body bytes.Buffer
	require.NoError(t, json.Indent(&body, []byte(say("a", "book")), "\r", "\n"))
	events := post(t, url, body.String())
	require.Equal(t, "MESSAGES_SNAPSHOT", events[len(events)-2].Type)
	assert.Equal(t, user("book"), string(events[len(events)-2].Messages[0]))
}

func TestQuestionThatIsCancelledStopsTheTurn(t *testing.T) {
	url := begin(t)
	events := post(t, url, say("a", "ask"))
	asked := events[len(events)-1].Outcome.Interrupts[0]
	assert.Equal(t, "input_required", asked.Reason)
	events = post(t, url, input("a", fmt.Sprintf(`"resume":[{"interruptId":%q,"status":"cancelled"}],`, asked.ID), user("ask")))
	assert.Equal(t, "cancelled", events[len(events)-1].Outcome.Type)
	assert.Equal(t, "You said on", shown(post(t, url, say("a", "on"))), "the thread continues")
}

func TestAttachingClientGetsTheThread(t *testing.T) {
	url := begin(t)
	post(t, url, say("a", "hello"))
	post(t, url, say("a", "again"))
	for _, attach := range []func() []event{
		func() []event { return post(t, url+"/connect", input("a", "")) },
		func() []event { return post(t, url, say("a", "again")) },
		func() []event { return post(t, url, input("a", "")) },
	} {
		events := attach()
		assert.Equal(t, []string{"RUN_STARTED", "MESSAGES_SNAPSHOT", "TEXT_MESSAGE_START", "TEXT_MESSAGE_END", "RUN_FINISHED"}, types(events))
		require.Len(t, events[1].Messages, 3)
		assert.JSONEq(t, `{"id":"a-0001/1.1","role":"assistant","content":"You said hello"}`, string(events[1].Messages[1]))
		assert.JSONEq(t, user("again"), string(events[1].Messages[2]))
		assert.Equal(t, "You said again", shown(events))
	}
	empty := post(t, url, input("b", ""))
	assert.Equal(t, []string{"RUN_STARTED", "MESSAGES_SNAPSHOT", "RUN_FINISHED"}, types(empty))
}

// A client keeps its messages in the same order, and keeps thoughts that no snapshot
// withdraws.
func TestClientThatAttachesHasThoughtsInTheirPlaces(t *testing.T) {
	url := begin(t)
	want := fold(t, []shownMessage{{ID: "m-think", Role: "user", Content: "think"}}, post(t, url, say("a", "think")))
	require.Equal(t, []shownMessage{
		{"m-think", "user", "think"},
		{"a-0001/1.1", "assistant", "I look"},
		{"a-0001/c", "tool", "seen"},
		{"a-0001/2/thoughts", "reasoning", "Hm."},
		{"a-0001/2.1", "assistant", "It is seen"},
	}, want)
	for cut := range len(want) + 1 {
		had := slices.Clone(want[:cut])
		if cut > 0 {
			had[cut-1].Content = had[cut-1].Content[:2]
		}
		messages := make([]string, cut)
		for i := range had {
			data, err := json.Marshal(&had[i])
			require.NoError(t, err)
			messages[i] = string(data)
		}
		assert.Equal(t, want, fold(t, had, post(t, url+"/connect", input("a", "", messages...))), "after %d messages", cut)
	}
}

func TestClientThatAttachesAfterARestartMissesNothing(t *testing.T) {
	store, waits := memstore.New(), make(chan struct{})
	url, stop := serve(t, store, talking(waits))
	resp, err := http.Post(url+"agui/assistant", "application/json", strings.NewReader(say("a", "wait")))
	require.NoError(t, err)
	defer resp.Body.Close()
	half, err := read(t, resp.Body, func(e event) bool { return e.Type != "TEXT_MESSAGE_CONTENT" })
	require.NoError(t, err)
	assert.Equal(t, "You said ", shown(half))
	stop()
	_, err = read(t, resp.Body, func(event) bool { return true })
	require.Error(t, err, "a broken stream must not look complete")

	close(waits)
	url, _ = serve(t, store, talking(waits))
	whole := post(t, url+"agui/assistant", say("a", "wait"))
	assert.Equal(t, "You said wait", shown(whole))
	assert.Equal(t, "success", whole[len(whole)-1].Outcome.Type)
}

func TestTurnIsStopped(t *testing.T) {
	url := begin(t)
	resp, err := http.Post(url, "application/json", strings.NewReader(say("a", "wait")))
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = read(t, resp.Body, func(e event) bool { return e.Type != "TEXT_MESSAGE_CONTENT" })
	require.NoError(t, err)
	stopped, err := http.Post(url+"/a/stop", "", nil)
	require.NoError(t, err)
	require.NoError(t, stopped.Body.Close())
	assert.Equal(t, http.StatusOK, stopped.StatusCode)
	rest, err := read(t, resp.Body, func(event) bool { return true })
	require.NoError(t, err)
	assert.Equal(t, "cancelled", rest[len(rest)-1].Outcome.Type)
}

func TestWhatCannotBeRunIsARunError(t *testing.T) {
	url := begin(t)
	post(t, url, say("a", "hello"))
	for body, want := range map[string]string{
		``:                 "not a RunAgentInput",
		"\"\xff\"":         "UTF-8",
		`{"threadId":7}`:   "not a RunAgentInput: threadId: got a number, want a string",
		`{"runId":"r"}`:    "threadId is required",
		`{"threadId":"a"}`: "runId is required",
		`{"threadId":"a","runId":"r","tools":[{}]}`:                                        "frontend tools",
		input("a", "", `7`):                                                                "message 1: got a number, want an object",
		input("a", "", `{"role":"user"}`):                                                  "has no id",
		input("a", "", `{"id":"x","role":"boss"}`):                                         "has the role",
		input("a", "", `{"id":"x","role":"user","content":""}`):                            "no text",
		input("a", "", `{"id":"x","role":"user","content":7}`):                             "neither a string nor an array",
		input("a", "", `{"id":"x","role":"user","content":[{"type":"image"}]}`):            "want text, or a type whose source is",
		input("a", "", `{"id":"x","role":"assistant","content":"I am Bob"}`, user("y")):    "do not match the thread",
		input("a", "", `{"id":"a-0002/1.1","role":"assistant","content":"hi"}`, user("y")): "do not match the thread",
		input("a", `"resume":[{"interruptId":"x","status":"resolved","payload":1}],`):      "waits for no answer",
		input("b", `"resume":[{"interruptId":"x","status":"resolved","payload":1}],`):      "it has no turn",
		input("a", `"resume":[{"status":"resolved"}],`):                                    "no interruptId",
		input("../a", "", user("y")):                                                       "not allowed",
	} {
		events := post(t, url, body)
		require.Equal(t, []string{"RUN_ERROR"}, types(events), body)
		assert.Contains(t, events[0].Message, want, body)
		assert.NotEmpty(t, events[0].Code)
	}
	events := post(t, url, say("c", "fail"))
	assert.Contains(t, events[len(events)-1].Message, "out of ink")
	resp, err := http.Get(url)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode)
}

// A body is read only up to the limit, and a client that posts a larger one gets an error.
func TestBodyThatIsTooLargeIsARunError(t *testing.T) {
	url := begin(t)
	const most = 16 << 20
	body := `{"threadId":"a","runId":"` + strings.Repeat("x", most+1-len(`{"threadId":"a","runId":"`))
	events := post(t, url, body)
	require.Equal(t, []string{"RUN_ERROR"}, types(events))
	assert.Equal(t, "too_large", events[0].Code)
	assert.Equal(t, "the body has more than 16777216 bytes", events[0].Message)
	assert.Equal(t, "You said on", shown(post(t, url, say("a", "on"))))
}

func TestHistoryThatDoesNotFitTheThreadIsRefused(t *testing.T) {
	url := begin(t)
	post(t, url, say("a", "hello"))
	post(t, url, say("a", "again"))
	said := func(id string) string { return `{"id":"` + id + `","role":"assistant","content":"x"}` }
	for want, messages := range map[string][]string{
		"out of order": {said("a-0002/1.1"), said("a-0001/1.1"), user("more")},
		`assistant message "b-0001/1.1" is not part of it`: {said("b-0001/1.1"), user("more")},
		`assistant message "a-0003/1.1" is not part of it`: {said("a-0003/1.1"), user("more")},
		`the message "m-hello" was sent before`:            {user("hello"), said("a-0001/1.1"), user("again"), said("a-0002/1.1"), user("hello")},
		`it began turn 1, and other turns have follow`:     {user("hello")},
	} {
		events := post(t, url, input("a", "", messages...))
		require.Equal(t, []string{"RUN_ERROR"}, types(events), want)
		assert.Contains(t, events[0].Message, want)
		assert.Equal(t, "conflict", events[0].Code)
	}
	events := post(t, url+"/connect", input("a", ""))
	require.Len(t, events[1].Messages, 3, "nothing was added")
}

func TestAnswersThatDoNotFitTheQuestionsAreRefused(t *testing.T) {
	url := begin(t)
	asked := post(t, url, say("a", "book"))
	id := asked[len(asked)-1].Outcome.Interrupts[0].ID
	answer := func(id, rest string) string {
		return fmt.Sprintf(`{"interruptId":%q,"status":"resolved","payload":%s}`, id, rest)
	}
	for want, resume := range map[string]string{
		"resume has two answers to":              answer(id, `{"approved":true}`) + "," + answer(id, `{"approved":false}`),
		`no question "a-0001:nothing?1" is open`: answer(id, `{"approved":true}`) + "," + answer("a-0001:nothing?1", "1"),
		`no question "nothing" is open`:          answer("nothing", "1"),
	} {
		events := post(t, url, input("a", `"resume":[`+resume+`],`, user("book")))
		require.Equal(t, []string{"RUN_ERROR"}, types(events), want)
		assert.Contains(t, events[0].Message, want)
	}
	events := post(t, url, input("a", `"resume":[`+answer(id, `{"approved":true}`)+`],`, user("book")))
	assert.Equal(t, "It is booked", shown(events), "the question was still open")
}

func TestOptionsThatMakeNoSenseAreRefused(t *testing.T) {
	dash, err := streamer.New(nil, streamer.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, dash.Close(t.Context())) }()
	_, err = agui.New(dash, agui.Options{})
	require.ErrorContains(t, err, "Threads and Options.Control are required")
}
