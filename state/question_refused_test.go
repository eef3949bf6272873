package state_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// A changed program asks a question in one branch and is refused in the other. The original program
// asks a different question in its place.
func TestAQuestionOfARefusedProgramIsNotAskedByTheOriginal(t *testing.T) {
	ready := make(chan struct{})
	close(ready)
	// open opens the run with a program that calls the tool in one branch and asks the question in
	// another. gates returns the channels that the two branches wait for.
	open := func(s *tape, tool, question string, gates func(begun, asked, called chan struct{}) (beforeCall, afterCall, beforeAsk, afterAsk <-chan struct{})) error {
		begun, asked, called := make(chan struct{}), make(chan struct{}), make(chan struct{})
		beforeCall, afterCall, beforeAsk, afterAsk := gates(begun, asked, called)
		st, err := state.Open(t.Context(), s, "run-1", state.WithPublisher(testkit.Publisher(func(rec record.Record) {
			if rec.Kind == record.KindQuestion {
				close(asked)
				<-afterAsk
			}
		})))
		require.NoError(t, err)
		does := testkit.Tool(t, tool, once, func(context.Context, string) (string, error) { return tool, nil })
		agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
			_, err := actors.Parallel(ctx, actors.Group{Name: "g", Workers: 2},
				func(ctx context.Context) (string, error) {
					close(begun) // all earlier records have been published
					<-beforeCall
					out, err := testkit.Call(ctx, does)
					close(called)
					<-afterCall
					return out, err
				},
				func(ctx context.Context) (string, error) {
					<-beforeAsk
					return core.Await[string](ctx, question)
				})
			return "done", err
		})
		_, err = testkit.Call(st.Context(t.Context()), agent)
		if stopped := st.Interrupted(); stopped != nil {
			err = stopped
		}
		require.NoError(t, st.Close())
		return err
	}
	whole := new(tape)
	require.ErrorIs(t, open(whole, "old", "And then?", func(_, asked, called chan struct{}) (_, _, _, _ <-chan struct{}) {
		return ready, asked, called, ready
	}), core.ErrAwaiting)
	before := slices.IndexFunc(whole.records, func(r record.Record) bool { return r.Kind == record.KindQuestion })
	s := &tape{records: slices.Clip(whole.records[:before])}

	require.ErrorIs(t, open(s, "new", "What now?", func(begun, asked, called chan struct{}) (_, _, _, _ <-chan struct{}) {
		return asked, ready, begun, called
	}), core.ErrDivergence)

	free := func(_, _, _ chan struct{}) (_, _, _, _ <-chan struct{}) { return ready, ready, ready, ready }
	require.ErrorIs(t, open(s, "old", "And then?", free), core.ErrAwaiting)
	questions, err := state.Questions(t.Context(), s, "run-1")
	require.NoError(t, err)
	require.Len(t, questions, 1)
	require.Equal(t, "And then?", questions[0].Text)
	require.NoError(t, state.Answer(t.Context(), s, "run-1", questions[0].ID, "", "home"))
	require.NoError(t, open(s, "old", "And then?", free))
}
