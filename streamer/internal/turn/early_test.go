package turn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// A building adds records and deltas to a builder.
type building struct {
	t *testing.T
	b *Builder
	s *answering
}

func build(t *testing.T) *building {
	s := &answering{source: asking(t), outputs: make(map[string][]byte)}
	return &building{t, NewBuilder(s, "r"), s}
}

func (b *building) add(e streamer.FollowEvent) []Event {
	b.t.Helper()
	out, err := b.b.Add(b.t.Context(), e)
	require.NoError(b.t, err)
	return out
}

func (b *building) run(s record.Status) []Event {
	b.t.Helper()
	return b.add(streamer.FollowEvent{Record: &record.Record{Kind: record.KindRun, Status: s}})
}

func (b *building) agent(s record.Status, attempt int) []Event {
	b.t.Helper()
	r := &record.Record{Kind: record.KindAgent, Status: s, Address: addressOf(b.t, "assistant"), Attempt: attempt, WillRetry: s == record.StatusFailed}
	return b.add(streamer.FollowEvent{Record: r})
}

// model adds a record of a model call. The call's answer is the given text.
func (b *building) model(address string, s record.Status, text string) []Event {
	b.t.Helper()
	encoded, err := record.Encode(actors.Response{Message: actors.Assistant(text)})
	require.NoError(b.t, err)
	b.s.outputs[address] = encoded
	return b.add(streamer.FollowEvent{Record: &record.Record{Kind: record.KindLLM, Status: s, Address: addressOf(b.t, address)}})
}

func (b *building) delta(address string, attempt int, part live.Part, text string) []Event {
	b.t.Helper()
	return b.add(streamer.FollowEvent{Delta: &streamer.Delta{Delta: live.Delta{Address: addressOf(b.t, address), Attempt: attempt, Part: part, Text: text}}})
}

func (b *building) text(address, text string) []Event {
	b.t.Helper()
	return b.delta(address, 0, live.PartText, text)
}

const (
	model1 = "assistant/model"
	model2 = "assistant/model#2"
)

// A follower that reads the records from the store may read the end of the run before it takes the
// deltas from its queue. They must not withdraw the answer, and no event may follow the end.
func TestDeltasThatAreOlderThanTheRecordsChangeNothing(t *testing.T) {
	b := build(t)
	b.run(record.StatusStarted)
	b.agent(record.StatusStarted, 0)
	b.model(model1, record.StatusStarted, "")
	b.model(model1, record.StatusCompleted, "first")
	require.Len(t, b.agent(record.StatusFailed, 0), 2, "the turn is void, and a retry is planned")
	b.agent(record.StatusStarted, 1)
	b.model(model2, record.StatusStarted, "")
	b.model(model2, record.StatusCompleted, "second")
	assert.Empty(t, b.delta("assistant", 1, live.PartBegin, ""), "the answer stays")
	require.Equal(t, []Event{{Kind: Completed}}, b.run(record.StatusCompleted))
	assert.Empty(t, b.delta("assistant", 1, live.PartBegin, ""))
	assert.Empty(t, b.delta(model2, 0, live.PartBegin, ""))
	assert.Empty(t, b.text(model2, "sec"))
	assert.Empty(t, b.text("assistant/model#3", "third"))
}

// The records of a store that several processes share may arrive later than the deltas.
func TestTextThatArrivesBeforeTheRecordOfTheAgentIsShownWithIt(t *testing.T) {
	b := build(t)
	assert.Empty(t, b.delta(model1, 0, live.PartBegin, ""))
	assert.Empty(t, b.text(model1, "void"))
	assert.Empty(t, b.delta(model1, 0, live.PartBegin, ""))
	assert.Empty(t, b.delta(model1, 0, live.PartReasoning, "Hm."))
	assert.Empty(t, b.text(model1, "Do not "))
	b.run(record.StatusStarted)
	assert.Equal(t, []Event{
		{Kind: StepBegins, Step: "r/1.1"}, {Kind: Reasoning, Step: "r/1.1", Text: "Hm."}, {Kind: Text, Step: "r/1.1", Text: "Do not "},
	}, b.agent(record.StatusStarted, 0))
	assert.Empty(t, b.model(model1, record.StatusStarted, ""), "the text stays")
	assert.Equal(t, []Event{{Kind: Text, Step: "r/1.1", Text: "pay"}}, b.text(model1, "pay"))
	assert.Equal(t, []Event{
		{Kind: StepBegins, Step: "r/2.1"}, {Kind: Text, Step: "r/2.1", Text: "Next"},
	}, append(b.model(model1, record.StatusFailed, "")[1:], b.text(model2, "Next")...))
}

func TestTextThatArrivesBeforeTheRunIsOpenedAgainIsShownThen(t *testing.T) {
	b := build(t)
	b.run(record.StatusStarted)
	b.agent(record.StatusStarted, 0)
	b.text(model1, "Half")
	b.run(record.StatusInterrupted)
	assert.Empty(t, b.delta(model1, 0, live.PartBegin, ""))
	assert.Empty(t, b.text(model1, "Ha"))
	assert.Equal(t, []Event{{Kind: StepVoid, Step: "r/1.1"}, {Kind: Text, Step: "r/1.1", Text: "Ha"}}, b.run(record.StatusStarted))
}

// If the process of a run ends, the record that another process has opened the run may be the first
// sign of it.
func TestTextWhoseBeginningIsWithdrawnIsShownWithItsRecord(t *testing.T) {
	b := build(t)
	b.run(record.StatusStarted)
	b.agent(record.StatusStarted, 0)
	b.delta(model1, 0, live.PartBegin, "")
	b.text(model1, "Ha")
	require.Equal(t, []Event{{Kind: StepVoid, Step: "r/1.1"}}, b.run(record.StatusStarted))
	assert.Empty(t, b.text(model1, "lf"))
	assert.Equal(t, []Event{{Kind: Text, Step: "r/1.1", Text: "Half"}, {Kind: StepEnds, Step: "r/1.1"}}, b.model(model1, record.StatusCompleted, "Half"))
}

func TestTextForWhichThereIsNoRoomIsShownWithItsRecord(t *testing.T) {
	b := build(t)
	for range 100 {
		b.text(model1, strings.Repeat("x", 1<<10))
	}
	assert.LessOrEqual(t, b.b.early.size, maxEarly)
	b.text(model2, "short")
	assert.Equal(t, []Event{{Kind: StepBegins, Step: "r/1.1"}, {Kind: Text, Step: "r/1.1", Text: "short"}}, b.agent(record.StatusStarted, 0))
	assert.Empty(t, b.text(model1, "end"))
	b.delta("assistant/model#3", 0, live.PartBegin, "")
	assert.NotEmpty(t, b.text("assistant/model#3", "begin"))
}

func TestTextOfACallThatHasEndedIsNotKept(t *testing.T) {
	b := build(t)
	b.text(model1, "Do not")
	b.delta(model1, 0, live.PartEnd, "")
	assert.Zero(t, b.b.early.size)
	assert.Empty(t, b.agent(record.StatusStarted, 0))
}

// A record of a failed attempt may arrive after the text of the next attempt.
func TestTheFailureOfAnEarlierAttemptDoesNotWithdrawText(t *testing.T) {
	b := build(t)
	b.run(record.StatusStarted)
	b.agent(record.StatusStarted, 0)
	b.model(model1, record.StatusStarted, "")
	require.Len(t, b.text(model1, "Hm"), 1)
	require.Len(t, b.delta(model1, 1, live.PartBegin, ""), 2, "the text is void, and another attempt begins")
	b.model(model1, record.StatusFailed, "")
	assert.Equal(t, []Event{{Kind: Text, Step: "r/1.2", Text: "Oslo"}}, b.delta(model1, 1, live.PartText, "Oslo"))

	require.Len(t, b.delta("assistant", 1, live.PartBegin, ""), 1, "the turn is void")
	require.Len(t, b.text(model2, "Rome"), 2)
	for _, e := range b.agent(record.StatusFailed, 0) {
		assert.Equal(t, RetryPlanned, e.Kind)
	}
	assert.Equal(t, []Event{{Kind: Text, Step: "r/2.1", Text: "!"}}, b.text(model2, "!"))
}
