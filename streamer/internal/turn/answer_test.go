package turn

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// A source provides the records of a run that asks a question.
type source struct {
	asks []record.Record
	more chan record.Record
}

func asking(t *testing.T) *source {
	address, err := record.ParseAddress("assistant/ask")
	require.NoError(t, err)
	return &source{
		asks: []record.Record{
			{Kind: record.KindRun, Status: record.StatusStarted},
			{Kind: record.KindQuestion, Status: record.StatusAwaiting, Address: address, Name: "q", Detail: &record.Detail{Message: "Where to?"}},
			{Kind: record.KindRun, Status: record.StatusAwaiting},
		},
		more: make(chan record.Record),
	}
}

// continues sends the record of the answer and the record of the run's end.
func (s *source) continues() {
	s.more <- record.Record{Kind: record.KindAnswer, Status: record.StatusRecorded, Name: "q"}
	s.more <- record.Record{Kind: record.KindRun, Status: record.StatusCompleted}
}

func (s *source) RedactText(text string) string                                { return text }
func (s *source) RecordOutput(context.Context, *record.Record) ([]byte, error) { return nil, nil }
func (s *source) RecordJSON(context.Context, *record.Record) ([]byte, error) {
	return []byte(`"Rome"`), nil
}

func (s *source) Follow(ctx context.Context, _ string) iter.Seq2[streamer.FollowEvent, error] {
	return func(yield func(streamer.FollowEvent, error) bool) {
		for i := range s.asks {
			yield(streamer.FollowEvent{Record: &s.asks[i]}, nil)
		}
		yield(streamer.FollowEvent{CaughtUp: true}, nil)
		for {
			select {
			case r := <-s.more:
				yield(streamer.FollowEvent{Record: &r}, nil)
			case <-ctx.Done():
				return
			}
		}
	}
}

// plain encodes each event as the name of its kind.
type plain struct{}

func (plain) Encode(e *Event) Frame { return Frame{Kind: e.Kind, Asked: e.Asked} }

// control either accepts every answer at once or refuses every answer after a while.
type control struct {
	streamer.Control
	refused error
}

func (c *control) Answer(context.Context, string, string, string, json.RawMessage) error {
	if c.refused != nil {
		time.Sleep(time.Second) //nolint:forbidigo // in a bubble
	}
	return c.refused
}

func answer(ctx context.Context, h *Hub, c streamer.Control) error {
	l, release, err := h.Open(ctx, "r")
	if err != nil {
		return err
	}
	defer release()
	thread := &Thread{Control: c, Scope: &streamer.Access{}}
	return thread.Answer(ctx, "r", l, []Answer{{Question: WireID("r", "q"), Value: []byte(`"Rome"`)}})
}

// follow follows the run from its beginning and sends the kind of the last frame on the channel.
func follow(ctx context.Context, t *testing.T, h *Hub) <-chan Kind {
	ended := make(chan Kind, 1)
	go func() {
		defer close(ended)
		l, release, err := h.Open(ctx, "r")
		if !assert.NoError(t, err) {
			return
		}
		defer release()
		r := &Response{W: httptest.NewRecorder(), Heartbeat: time.Hour}
		if !assert.NoError(t, r.Begin()) {
			return
		}
		end, err := r.Follow(ctx, l, 0, nil)
		if assert.NoError(t, err) {
			ended <- end.Kind
		}
	}()
	return ended
}

// An answer is stored before the run records it. A client that connects in between must not be
// asked again, because a second answer is refused.
func TestQuestionWhoseAnswerIsStoredIsNotAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := asking(t)
		h := NewHub(s, func(string) Encoder { return plain{} })
		defer h.Close()
		require.Equal(t, Paused, <-follow(t.Context(), t, h))
		require.NoError(t, answer(t.Context(), h, &control{}))

		var refused *Refusal
		require.ErrorAs(t, answer(t.Context(), h, &control{}), &refused)
		assert.Contains(t, refused.Message, "its questions were answered")
		ended := follow(t.Context(), t, h)
		synctest.Wait()
		select {
		case last := <-ended:
			t.Fatalf("the client was told the end %d", last)
		default:
		}
		s.continues()
		assert.Equal(t, Completed, <-ended)
	})
}

func TestQuestionWhoseAnswerIsRefusedStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHub(asking(t), func(string) Encoder { return plain{} })
		defer h.Close()
		answered := make(chan error, 1)
		refused := errors.New("the store is full")
		go func() { answered <- answer(t.Context(), h, &control{refused: refused}) }()
		synctest.Wait()
		ended := follow(t.Context(), t, h)
		require.ErrorIs(t, <-answered, refused)
		assert.Equal(t, Paused, <-ended)
		require.NoError(t, answer(t.Context(), h, &control{}))
	})
}

// leaving is a Control whose client leaves while its first answer is being stored.
type leaving struct {
	streamer.Control
	leave    context.CancelFunc
	answered []string
}

func (c *leaving) Answer(ctx context.Context, _, question, _ string, _ json.RawMessage) error {
	c.leave()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	c.answered = append(c.answered, question)
	return nil
}

func TestAnswersAreAllStoredAlthoughTheClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := asking(t)
		second := s.asks[1]
		second.Name = "q2"
		s.asks = slices.Insert(s.asks, 2, second)
		h := NewHub(s, func(string) Encoder { return plain{} })
		defer h.Close()
		l, release, err := h.Open(t.Context(), "r")
		require.NoError(t, err)
		defer release()
		ctx, leave := context.WithCancel(t.Context())
		c := &leaving{leave: leave}
		thread := &Thread{Control: c, Scope: &streamer.Access{}}
		require.NoError(t, thread.Answer(ctx, "r", l, []Answer{{WireID("r", "q"), []byte("1")}, {WireID("r", "q2"), []byte("2")}}))
		assert.Equal(t, []string{"q", "q2"}, c.answered)
	})
}

// continuing is a Control for a run that continues as soon as the first answer is stored, and waits
// again while the second answer is being stored.
type continuing struct {
	streamer.Control
	run      *source
	answered []string
}

func (c *continuing) Answer(_ context.Context, _, question, _ string, _ json.RawMessage) error {
	c.answered = append(c.answered, question)
	run := func(s record.Status) record.Record { return record.Record{Kind: record.KindRun, Status: s} }
	taken := record.Record{Kind: record.KindAnswer, Status: record.StatusRecorded, Name: question}
	records := []record.Record{run(record.StatusStarted), taken}
	if question == "q2" {
		records = []record.Record{run(record.StatusAwaiting), run(record.StatusStarted), taken, run(record.StatusCompleted)}
	}
	for i := range records {
		c.run.more <- records[i]
	}
	synctest.Wait() // until the log contains these records
	return nil
}

// A request contains several answers, and a fast worker continues the run after the first. The
// other answers must not be lost, and their questions must not be asked again.
func TestAnswersAreAllStoredAlthoughTheRunContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := asking(t)
		second := s.asks[1]
		second.Name = "q2"
		s.asks = slices.Insert(s.asks, 2, second)
		h := NewHub(s, func(string) Encoder { return plain{} })
		defer h.Close()
		l, release, err := h.Open(t.Context(), "r")
		require.NoError(t, err)
		defer release()
		c := &continuing{run: s}
		thread := &Thread{Control: c, Scope: &streamer.Access{}}
		require.NoError(t, thread.Answer(t.Context(), "r", l, []Answer{{WireID("r", "q"), []byte("1")}, {WireID("r", "q2"), []byte("2")}}))
		require.Equal(t, []string{"q", "q2"}, c.answered)
		assert.Equal(t, Completed, <-follow(t.Context(), t, h))
	})
}

func TestALaterAttemptOfAToolBeginsNoStep(t *testing.T) {
	b := NewBuilder(asking(t), "r")
	add := func(e streamer.FollowEvent) []Event {
		out, err := b.Add(t.Context(), e)
		require.NoError(t, err)
		return out
	}
	add(streamer.FollowEvent{Record: &record.Record{Kind: record.KindAgent, Status: record.StatusStarted, Address: addressOf(t, "assistant")}})
	assert.Empty(t, add(streamer.FollowEvent{Delta: &streamer.Delta{Delta: live.Delta{Address: addressOf(t, "assistant/work"), Attempt: 1, Part: live.PartBegin}}}))
	shown := add(streamer.FollowEvent{Delta: &streamer.Delta{Delta: live.Delta{Address: addressOf(t, "assistant/model"), Part: live.PartText, Text: "Hm"}}})
	assert.Equal(t, []Event{{Kind: StepBegins, Step: "r/1.1"}, {Kind: Text, Step: "r/1.1", Text: "Hm"}}, shown)
}

// TestTextThatArrivesBeforeTheEndOfThePreviousStep checks that the steps of a turn stay separate if
// deltas arrive before records, as can happen if they come from another process.
func TestTextThatArrivesBeforeTheEndOfThePreviousStep(t *testing.T) {
	s := &answering{source: asking(t), outputs: make(map[string][]byte)}
	b := NewBuilder(s, "r")
	first, second := addressOf(t, "assistant/model"), addressOf(t, "assistant/model#2")
	add := func(e streamer.FollowEvent) []Event {
		out, err := b.Add(t.Context(), e)
		require.NoError(t, err)
		return out
	}
	delta := func(a record.Address, text string) streamer.FollowEvent {
		return streamer.FollowEvent{Delta: &streamer.Delta{Delta: live.Delta{Address: a, Part: live.PartText, Text: text}}}
	}
	completed := func(a record.Address, text string) streamer.FollowEvent {
		encoded, err := record.Encode(actors.Response{Message: actors.Assistant(text)})
		require.NoError(t, err)
		s.outputs[a.String()] = encoded
		return streamer.FollowEvent{Record: &record.Record{Kind: record.KindLLM, Status: record.StatusCompleted, Address: a}}
	}
	add(streamer.FollowEvent{Record: &record.Record{Kind: record.KindAgent, Status: record.StatusStarted, Address: addressOf(t, "assistant")}})
	add(delta(first, "One mom"))
	assert.Equal(t, []Event{{Kind: StepVoid, Step: "r/1.1"}, {Kind: StepBegins, Step: "r/2.1"}, {Kind: Text, Step: "r/2.1", Text: "It is"}}, add(delta(second, "It is")))
	assert.Empty(t, add(delta(first, "ent")), "the record will show it")
	assert.Equal(t, []Event{
		{Kind: StepVoid, Step: "r/2.1"}, {Kind: StepBegins, Step: "r/3.1"}, {Kind: Text, Step: "r/3.1", Text: "One moment"}, {Kind: StepEnds, Step: "r/3.1"},
	}, add(completed(first, "One moment")))
	assert.Equal(t, []Event{
		{Kind: StepBegins, Step: "r/4.1"}, {Kind: Text, Step: "r/4.1", Text: "It is noon"}, {Kind: StepEnds, Step: "r/4.1"},
	}, add(completed(second, "It is noon")))
}

// answering is a source that also provides the outputs of calls, by address.
type answering struct {
	*source
	outputs map[string][]byte
}

func (a *answering) RecordOutput(_ context.Context, r *record.Record) ([]byte, error) {
	return a.outputs[r.Address.String()], nil
}

func addressOf(t *testing.T, text string) record.Address {
	t.Helper()
	a, err := record.ParseAddress(text)
	require.NoError(t, err)
	return a
}
