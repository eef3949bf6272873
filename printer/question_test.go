package printer_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// asking opens a stored run in which a tool of an agent asks a question. It returns the
// output of the printer.
func asking(t *testing.T, store snapshot.Store, options ...printer.Option) string {
	t.Helper()
	var out strings.Builder
	st, err := state.Open(t.Context(), store, "r1", state.WithPublisher(printer.New(&out, options...)))
	require.NoError(t, err)
	refund := decorators.Tool("refund", "", func(ctx context.Context, _ struct{}) (bool, error) {
		return core.Await[bool](ctx, "refund it?")
	})
	clerk := decorators.Agent("clerk", "", func(ctx context.Context, _ struct{}) (bool, error) {
		return refund.Call(ctx, struct{}{})
	})
	_, err = clerk.Call(st.Context(t.Context()), struct{}{})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
	return regexp.MustCompile(`\(<?\d+m?s\)`).ReplaceAllString(out.String(), "(1ms)")
}

const (
	howToAnswer      = "· answer true or false: reprise answer r1 'clerk/refund?1' true\n"
	howToAnswerAgain = "· how to answer: reprise questions r1\n" // if an earlier process asked the question
)

func TestResumedWaitShowsHowToAnswerAgain(t *testing.T) {
	store := memstore.New()
	assert.Equal(t, 1, strings.Count(asking(t, store), howToAnswer))
	assert.Equal(t, 1, strings.Count(asking(t, store), howToAnswerAgain))
	assert.Equal(t, 1, strings.Count(asking(t, store, printer.WithCompact()), howToAnswerAgain))

	found := testkit.LoadRun(t, store, "r1")
	assert.Equal(t, 1, strings.Count(printed(found.Records), howToAnswer))
}

func TestQuestionTextIsShownOncePerPause(t *testing.T) {
	store := memstore.New()
	assert.Equal(t, `▶ run r1 [STARTED]
🤖 clerk [STARTED]
  🔧 refund [STARTED]
    ⏸ QUESTION clerk/refund?1: refund it?
      · answer true or false: reprise answer r1 'clerk/refund?1' true
  ⏸ refund [AWAITING] clerk/refund?1
⏸ clerk [AWAITING] clerk/refund?1
⏸ run r1 [AWAITING]
`, asking(t, store))
	again := `🤖 clerk [STARTED]
  🔧 refund [STARTED]
  ⏸ refund [AWAITING] clerk/refund?1: refund it?
    · how to answer: reprise questions r1
⏸ clerk [AWAITING] clerk/refund?1
⏸ run r1 [AWAITING]
`
	for _, options := range [][]printer.Option{nil, {printer.WithCompact()}} {
		_, got, _ := strings.Cut(asking(t, store, options...), "\n")
		assert.Equal(t, again, got)
	}
}

// The answer arrives while another call is still running, so the agent around the call that asked
// is suspended only after the answer.
func TestAnsweredQuestionDoesNotSayHowToAnswer(t *testing.T) {
	for name, options := range map[string][]printer.Option{"plain": nil, "compact": {printer.WithCompact()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out strings.Builder
				store := memstore.New()
				st, err := state.Open(t.Context(), store, "r1", state.WithPublisher(printer.New(&out, options...)))
				require.NoError(t, err)
				refund := decorators.Tool("refund", "", func(ctx context.Context, _ struct{}) (bool, error) {
					return core.Await[bool](ctx, "refund it?")
				})
				clerk := decorators.Agent("clerk", "", func(ctx context.Context, _ struct{}) (bool, error) {
					done, err := refund.Call(ctx, struct{}{})
					require.NoError(t, state.Answer(ctx, store, "r1", "clerk/refund?1", "ann", true))
					synctest.Wait() // wait until the run has recorded the answer
					return done, err
				})
				_, err = clerk.Call(st.Context(t.Context()), struct{}{})
				require.ErrorIs(t, err, core.ErrAwaiting)
				require.NoError(t, st.Close())
				assert.Contains(t, out.String(), "\n⏸ clerk [AWAITING] clerk/refund?1: answered; continues when the run is opened again\n")
				assert.NotContains(t, out.String(), "how to answer")
			})
		})
	}
}

func TestQuestionThatIsAskedAgainHasTheReason(t *testing.T) {
	for name, options := range map[string][]printer.Option{"plain": nil, "compact": {printer.WithCompact()}} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			assert.NotContains(t, asking(t, store, options...), "does not fit")
			perhaps, err := record.Encode("perhaps") // as the answer to a question of an older program
			require.NoError(t, err)
			require.NoError(t, store.Post(t.Context(), "r1", snapshot.Message{Record: record.Record{
				Time: time.Now(), Kind: record.KindAnswer, Status: record.StatusRecorded, Name: "clerk/refund?1", Detail: &record.Detail{Output: perhaps},
			}}))
			assert.Contains(t, asking(t, store, options...), "\n    ⏸ QUESTION clerk/refund?1: refund it?"+
				" - the answer \"perhaps\" does not fit: got a string, want a boolean\n      "+howToAnswer)
		})
	}
}

func TestHintHasTheCommandOfTheUser(t *testing.T) {
	question := record.Record{RunID: "r1", Kind: record.KindQuestion, Status: record.StatusAwaiting, Name: "clerk?1"}
	assert.Equal(t, "⏸ QUESTION clerk?1\n  · ./ops --dir 'my data' answer r1 'clerk?1' JSON\n",
		printed([]record.Record{question}, printer.WithCommand("./ops --dir 'my data'")))
	assert.Equal(t, "⏸ QUESTION clerk?1\n", printed([]record.Record{question}, printer.WithCommand("")))
	assert.NotContains(t, printed([]record.Record{question}, printer.WithCommand("a\x1b[2J\nb")), "\x1b")
	question.Name = "prüfer?1"
	assert.Contains(t, printed([]record.Record{question}), " answer r1 'prüfer?1' JSON\n")
	for _, id := range []string{"it's", "$x", "a\x1b", "a\u202eb", "-x", ""} {
		question.Name = id
		assert.NotContains(t, printed([]record.Record{question}), " answer ", "the quoting is not the same in every shell")
	}
}

func TestQuestionSaysWhatToAnswer(t *testing.T) {
	for name, tt := range map[string]struct {
		schema, want string
	}{
		"a truth value":  {`{"type":"boolean"}`, "answer true or false: reprise answer r1 'a?1' true"},
		"a string":       {`{"type":"string"}`, `answer a string: reprise answer r1 'a?1' '"text"'`},
		"a time":         {`{"type":"string","format":"date-time"}`, `answer a string: reprise answer r1 'a?1' '"2026-01-31T08:00:00Z"'`},
		"a number":       {`{"type":["null","number"]}`, "answer a number: reprise answer r1 'a?1' 1"},
		"choices":        {`{"type":"string","enum":["small","large"]}`, `answer "small" or "large": reprise answer r1 'a?1' '"small"'`},
		"an approval":    {approval, `answer an object with approved (true or false), maybe arguments, reason: reprise answer r1 'a?1' '{"approved": true}'`},
		"a nested one":   {`{"type":"object","properties":{"to":{"type":"object"}},"required":["to"]}`, `answer an object with to (an object): reprise answer r1 'a?1' '{"to": {}}'`},
		"a list":         {`{"type":"array"}`, "answer an array: reprise answer r1 'a?1' '[]'"},
		"anything":       {`{}`, "reprise answer r1 'a?1' JSON"},
		"hostile":        {`{"type":"string","enum":["it's \u001b[31mred"]}`, "reprise answer r1 'a?1' JSON"},
		"no schema":      {``, "reprise answer r1 'a?1' JSON"},
		"damaged schema": {`{"type":`, "reprise answer r1 'a?1' JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			r := record.Record{
				RunID: "r1", Kind: record.KindQuestion, Status: record.StatusAwaiting, Name: "a?1",
				Detail: &record.Detail{Message: "which?", Schema: []byte(tt.schema)},
			}
			assert.Equal(t, "⏸ QUESTION a?1: which?\n  · "+tt.want+"\n", printed([]record.Record{r}))
		})
	}
}

const approval = `{"type":"object","properties":{"approved":{"type":"boolean"},"arguments":{},"reason":{"type":"string"}},"required":["approved"]}`

func TestQuestionAboutACallInDoubtShowsItsInput(t *testing.T) {
	input, err := record.Encode(map[string]any{"amount": 12})
	require.NoError(t, err)
	ended := &record.Effect{Seq: 5} // another payment, which has an output
	for name, tt := range map[string]struct {
		schema string
		effect *record.Effect
		want   string
	}{
		"an output of any form": {``, nil, `completed with the output, run_again, or failed:
  · reprise answer r1 'pay?in-doubt1' '{"decision": "completed", "output": JSON}'
  · reprise answer r1 'pay?in-doubt1' '{"decision": "run_again"}'
  · reprise answer r1 'pay?in-doubt1' '{"decision": "failed", "message": "why"}'
`},
		"a text or the output of another call": {`{"type":"string"}`, ended, `take_over, completed with the output (a string), run_again, or failed:
  · reprise answer r1 'pay?in-doubt1' '{"decision": "take_over"}'
  · reprise answer r1 'pay?in-doubt1' '{"decision": "completed", "output": "..."}'
  · reprise answer r1 'pay?in-doubt1' '{"decision": "run_again"}'
  · reprise answer r1 'pay?in-doubt1' '{"decision": "failed", "message": "why"}'
`},
		"an output that cannot be quoted": {`{"enum":["it's"]}`, nil, `completed with the output, run_again, or failed:
  · reprise answer r1 'pay?in-doubt1' '{"decision": "completed", "output": JSON}'
  · reprise answer r1 'pay?in-doubt1' '{"decision": "run_again"}'
  · reprise answer r1 'pay?in-doubt1' '{"decision": "failed", "message": "why"}'
`},
	} {
		t.Run(name, func(t *testing.T) {
			r := record.Record{
				RunID: "r1", Kind: record.KindQuestion, Status: record.StatusAwaiting, Name: "pay?in-doubt1",
				Detail: &record.Detail{
					Message: `has it taken effect?`, Awaits: record.AwaitDecision,
					Schema: schema.ForDecision([]byte(tt.schema), tt.effect.CanBeTakenOver()), InDoubt: &record.CallInDoubt{Kind: record.KindTool, Name: "pay", Input: input, Effect: tt.effect, IdempotencyKey: "key-7"},
				},
			}
			assert.Equal(t, "⏸ QUESTION pay?in-doubt1: has it taken effect?\n  · input: {\"amount\":12}\n  · idempotency key: key-7\n  · answer "+tt.want, printed([]record.Record{r}))
		})
	}
}

func TestCancelledRunSaysByWhomAndWhy(t *testing.T) {
	cancelled := record.Record{RunID: "r1", Kind: record.KindRun, Status: record.StatusCancelled, Err: &record.InterruptedError{
		Reason: record.InterruptCancel, By: "ann", Message: "wrong customer",
	}}
	assert.Equal(t, "⏸ run r1 [CANCELLED] by ann: wrong customer\n", printed([]record.Record{cancelled}))
}

func TestSleepDoesNotSayHowToAnswer(t *testing.T) {
	var out strings.Builder
	store := memstore.New()
	nap := decorators.Tool("nap", "", func(ctx context.Context, _ struct{}) (bool, error) {
		return true, core.Sleep(ctx, time.Hour)
	})
	for range 2 {
		st, err := state.Open(t.Context(), store, "r1", state.WithPublisher(printer.New(&out)), state.WithParking(time.Minute))
		require.NoError(t, err)
		_, err = nap.Call(st.Context(t.Context()), struct{}{})
		require.ErrorIs(t, err, core.ErrInterrupted)
		require.NoError(t, st.Close())
	}
	assert.Contains(t, out.String(), "sleep")
	assert.NotContains(t, out.String(), "answer")
}

// TestSleepAndSignalAreNotQuestions prints waits that nobody can end with an answer.
func TestSleepAndSignalAreNotQuestions(t *testing.T) {
	var out strings.Builder
	st, err := state.Open(t.Context(), memstore.New(), "r1", state.WithPublisher(printer.New(&out)), state.WithParking(time.Second))
	require.NoError(t, err)
	nap := decorators.Tool("nap", "", func(ctx context.Context, _ struct{}) (bool, error) {
		return true, core.Sleep(ctx, time.Hour)
	})
	wait := decorators.Tool("wait", "", func(ctx context.Context, _ struct{}) (bool, error) {
		return core.Receive[bool](ctx, "go")
	})
	_, err = nap.Call(st.Context(t.Context()), struct{}{})
	require.ErrorIs(t, err, core.ErrAwaiting)
	_, err = wait.Call(st.Context(t.Context()), struct{}{})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
	assert.Contains(t, out.String(), "⏸ SLEEP nap?sleep1: sleeps for 1h")
	assert.Contains(t, out.String(), "⏸ AWAITS SIGNAL wait?1: go\n")
	assert.NotContains(t, out.String(), "QUESTION")
}
