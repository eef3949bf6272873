package state_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// The cost of recalling a call must not depend on the length of the run. If each
// call read all records, these tests would take minutes.

var manyCalls = int(testkit.Seeds(8_000))

// recordedLoop returns a run whose agent was stopped after the given number of tool calls, each of
// which wrote a value.
func recordedLoop(t *testing.T, calls int) *tape {
	t.Helper()
	s := new(tape)
	add := func(address string, kind record.Kind, status record.Status, v any) {
		a, err := record.ParseAddress(address)
		require.NoError(t, err)
		rec := record.Record{Seq: uint64(len(s.records)) + 1, Address: a, Name: "last", Kind: kind, Status: status}
		if v != nil {
			encoded, err := record.Encode(v)
			require.NoError(t, err)
			rec.Detail = &record.Detail{Output: encoded}
		}
		s.records = append(s.records, rec)
	}
	add("loop", record.KindAgent, record.StatusStarted, nil)
	for i := range calls {
		address := "loop/write"
		if i > 0 {
			address = fmt.Sprint("loop/write#", i+1)
		}
		add(address, record.KindTool, record.StatusStarted, nil)
		add(address, record.KindValue, record.StatusRecorded, i)
		add(address, record.KindTool, record.StatusCompleted, i)
	}
	return s
}

// loopAgain makes the calls of recordedLoop again and returns their last value.
func loopAgain(t *testing.T, s *tape, calls int, options ...state.Option) (left int, report state.Report) {
	t.Helper()
	write, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "write"}, func(context.Context, int) (int, error) {
		t.Error("a finished call ran again")
		return 0, nil
	})
	require.NoError(t, err)
	loop, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "loop"}, func(ctx context.Context, calls int) (int, error) {
		for i := range calls {
			if out, err := write.Event().Execute(ctx, i); out != i || err != nil {
				return 0, fmt.Errorf("call %d returned %d, %w", i, out, err)
			}
		}
		last, _, err := state.Get[int](ctx, "last")
		return last, err
	})
	require.NoError(t, err)
	st, err := state.Open(t.Context(), s, "run-1", options...)
	require.NoError(t, err)
	defer st.Close()
	left, err = loop.Event().Execute(st.Context(t.Context()), calls)
	require.NoError(t, err)
	return left, st.Report()
}

func TestResumeOfManyCallsThatWroteValuesIsLinear(t *testing.T) {
	left, report := loopAgain(t, recordedLoop(t, manyCalls), manyCalls)
	assert.Equal(t, manyCalls-1, left)
	assert.Equal(t, manyCalls, report.Restored)
}

func TestRepublishingTheRecordsOfManyCallsIsLinear(t *testing.T) {
	s := recordedLoop(t, manyCalls)
	want := s.records[1:] // the agent is not recalled, so its record is not published
	var heard []record.Record
	listen := state.WithPublisher(testkit.Publisher(func(r record.Record) {
		if r.Replayed {
			heard = append(heard, r)
		}
	}))
	loopAgain(t, s.cut(len(s.records)), manyCalls, listen, state.WithRepublish())
	require.Len(t, heard, len(want))
	for i := range heard {
		require.Equal(t, want[i].Seq, heard[i].Seq)
		require.Equal(t, want[i].Address, heard[i].Address)
	}
}

func TestValidationOfManyCallsThatAreGoneIsLinear(t *testing.T) {
	differences, err := state.Validate(t.Context(), recordedLoop(t, manyCalls), "run-1", func(ctx context.Context) error {
		loop, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "loop"}, func(context.Context, int) (int, error) { return 0, nil })
		require.NoError(t, err)
		_, err = loop.Event().Execute(ctx, 0)
		return err
	})
	require.NoError(t, err)
	require.Len(t, differences, manyCalls)
	assert.Equal(t, "loop/write: call: recorded tool_call, now none", differences[0].String())
}
