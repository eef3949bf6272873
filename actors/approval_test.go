package actors_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
)

type mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// office runs and resumes an agent that sends mail after approval.
type office struct {
	t     *testing.T
	store *memstore.Store
	model *script
	sent  []mail
	tool  actors.Tool[mail, string]
}

func newOffice(t *testing.T, opts ...actors.Option) *office {
	o := &office{t: t, store: memstore.New()}
	o.model = newScript(asks(call("send_mail", `{"to":"ada","text":"hi"}`), call("echo", `{"n":1}`)), says("done"))
	o.tool = decorators.Tool("send_mail", "Sends mail.", func(_ context.Context, in mail) (string, error) {
		o.sent = append(o.sent, in)
		return "sent to " + in.To, nil
	}, append(opts, actors.WithApproval())...).
		Require(func(_ context.Context, in mail) error {
			if in.To == "spam" {
				return errors.New("not to spam")
			}
			return nil
		}).
		Ensure(func(_ context.Context, in mail, out string) error {
			if out != "sent to "+in.To {
				return errors.New("sent to somebody else")
			}
			return nil
		})
	return o
}

// run starts or resumes the run and returns the answer and the open questions.
func (o *office) run() (string, []core.Question, error) {
	o.t.Helper()
	st, err := state.Open(o.t.Context(), o.store, "r")
	require.NoError(o.t, err)
	defer st.Close()
	answer, err := actors.NewAgent("assistant", o.model.llm(), actors.WithTools(o.tool, echo())).Call(st.Context(o.t.Context()), actors.Ask("?"))
	var questions []core.Question
	var e *core.InterruptedError
	if errors.As(err, &e) {
		questions = append(questions, core.Question{ID: e.Question, Text: e.Message})
	}
	return answer.Text, questions, err
}

func (o *office) answer(id string, v any) {
	o.t.Helper()
	require.NoError(o.t, state.Answer(o.t.Context(), o.store, "r", id, "", v))
}

func TestAToolWaitsForApproval(t *testing.T) {
	o := newOffice(t)
	_, questions, err := o.run()
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.Len(t, questions, 1)
	assert.Equal(t, `Approve send_mail {"to":"ada","text":"hi"}`, questions[0].Text)
	assert.Empty(t, o.sent)
	_, _, err = o.run()
	require.ErrorIs(t, err, core.ErrAwaiting, "still")

	o.answer(questions[0].ID, actors.Approve())
	text, _, err := o.run()
	require.NoError(t, err)
	assert.Equal(t, "done", text)
	assert.Equal(t, []mail{{"ada", "hi"}}, o.sent)
	assert.Equal(t, []actors.Message{actors.ToolResult("1", "sent to ada"), actors.ToolResult("2", "1")}, o.model.results())
	assert.Len(t, o.model.asked(), 2)
}

func TestAnApprovalCanChangeTheArguments(t *testing.T) {
	o := newOffice(t)
	_, questions, _ := o.run()
	changed, err := actors.ApproveWith(mail{"grace", "hello"})
	require.NoError(t, err)
	o.answer(questions[0].ID, changed)
	_, _, err = o.run()
	require.NoError(t, err)
	assert.Equal(t, []mail{{"grace", "hello"}}, o.sent)
	assert.Equal(t, "sent to grace", o.model.results()[0].Text)
	_, err = actors.ApproveWith(func() {})
	require.Error(t, err)
}

var unfit = map[string]string{
	`{"to":7,"text":"x"}`:        "arguments.to: got an integer, want a string",
	`{"to":"ada"}`:               "arguments.text: required field is missing",
	`{"to":7}`:                   "arguments.text: required field is missing\narguments.to: got an integer, want a string",
	`{"to":"a","text":"","x":1}`: "arguments.x: unknown field",
	`[]`:                         "arguments: got an array, want an object",
	`null`:                       "arguments: got null, want an object",
}

func TestChangedArgumentsThatDoNotFitAreRefusedWhenTheyAreGiven(t *testing.T) {
	o := newOffice(t)
	_, questions, _ := o.run()
	for arguments, want := range unfit {
		err := state.Answer(t.Context(), o.store, "r", questions[0].ID, "", actors.Approval{Approved: true, Arguments: []byte(arguments)})
		require.ErrorIs(t, err, core.ErrUnfit)
		require.ErrorContains(t, err, want)
		answer, err := state.JSONAnswer([]byte(`{"approved":true,"arguments":` + arguments + `}`)) // of another program
		require.NoError(t, err)
		require.ErrorContains(t, state.Answer(t.Context(), o.store, "r", questions[0].ID, "", answer), want)
	}
	answer, err := state.JSONAnswer([]byte(`{"approved":true,"arguments":{"to":"grace","text":"hello"}}`))
	require.NoError(t, err)
	o.answer(questions[0].ID, answer)
	_, _, err = o.run()
	require.NoError(t, err)
	assert.Equal(t, []mail{{"grace", "hello"}}, o.sent)
}

// A handwritten schema with references is not part of the question, so changed arguments are
// checked only when the run continues.
func TestChangedArgumentsThatDoNotFitAreAskedAgain(t *testing.T) {
	o := newOffice(t)
	written, err := actors.ParseSchema([]byte(`{"type":"object","properties":{"to":{"$ref":"#/$defs/text"},"text":{"$ref":"#/$defs/text"}},"required":["to","text"],"additionalProperties":false,"$defs":{"text":{"type":"string"}}}`))
	require.NoError(t, err)
	o.tool = actors.NewTool("send_mail", "Sends mail.", written, func(_ context.Context, in mail) (string, error) {
		o.sent = append(o.sent, in)
		return "sent to " + in.To, nil
	}, actors.WithApproval())
	_, first, _ := o.run()
	for arguments := range unfit {
		o.answer(first[0].ID, actors.Approval{Approved: true, Arguments: []byte(arguments)})
		_, _, err = o.run()
		require.ErrorIs(t, err, core.ErrAwaiting)
		questions, err := state.Questions(t.Context(), o.store, "r")
		require.NoError(t, err)
		require.Len(t, questions, 1)
		assert.Equal(t, first[0].ID, questions[0].ID)
		assert.Equal(t, first[0].Text, questions[0].Text)
		assert.Contains(t, questions[0].Refused, "does not fit: the arguments: ")
	}
	answer, err := state.JSONAnswer([]byte(`{"approved":true}`))
	require.NoError(t, err)
	o.answer(first[0].ID, answer)
	_, _, err = o.run()
	require.NoError(t, err)
	assert.Equal(t, []mail{{"ada", "hi"}}, o.sent)
}

func TestADefaultThatDoesNotFitTheToolPanics(t *testing.T) {
	wrong, err := actors.ApproveWith(map[string]any{"to": 7})
	require.NoError(t, err)
	assert.PanicsWithValue(t, `actors: "send": ApprovalDefault: the answer does not fit: arguments.text: required field is missing`+"\narguments.to: got an integer, want a string", func() {
		decorators.Tool("send", "", func(context.Context, mail) (string, error) { return "", nil }, actors.WithApproval(actors.ApprovalDefault(time.Hour, wrong)))
	})
}

func TestChangedArgumentsMeetTheConditionsToo(t *testing.T) {
	o := newOffice(t)
	_, questions, _ := o.run()
	o.answer(questions[0].ID, actors.Approval{Approved: true, Arguments: []byte(`{"to":"spam","text":"x"}`)})
	_, _, err := o.run()
	require.NoError(t, err)
	assert.Empty(t, o.sent)
	assert.Equal(t, "error: not to spam", o.model.results()[0].Text)
}

func TestTheModelSeesWhyACallWasRefused(t *testing.T) {
	for reason, want := range map[string]string{"": "error: not approved", "too late": "error: not approved: too late"} {
		o := newOffice(t)
		_, questions, _ := o.run()
		o.answer(questions[0].ID, actors.Disapprove(reason))
		text, _, err := o.run()
		require.NoError(t, err)
		assert.Equal(t, "done", text)
		assert.Empty(t, o.sent)
		assert.Equal(t, want, o.model.results()[0].Text)
	}
}

func TestNobodyIsAskedAboutWhatConditionsRefuse(t *testing.T) {
	o := newOffice(t)
	o.model = newScript(asks(call("send_mail", `{"to":"spam","text":"hi"}`)), says("done"))
	_, _, err := o.run()
	require.NoError(t, err)
	assert.Equal(t, "error: not to spam", o.model.results()[0].Text)
}

func TestAnApprovalHoldsForRetries(t *testing.T) {
	o := newOffice(t, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	tries := 0
	tool := o.tool
	o.tool = tool.Ensure(func(context.Context, mail, string) error {
		if tries++; tries < 3 {
			return errBoom
		}
		return nil
	})
	_, questions, _ := o.run()
	o.answer(questions[0].ID, actors.Approve())
	_, _, err := o.run()
	require.NoError(t, err)
	assert.Equal(t, 3, tries)
	assert.Len(t, o.sent, 3)
}

func TestARefusalIsRecordedAsWhatItIs(t *testing.T) {
	o := newOffice(t)
	store := o.store
	call := func() error {
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		defer st.Close()
		_, err = o.tool.Call(st.Context(t.Context()), mail{"ada", "hi"})
		return err
	}
	err := call()
	var e *core.InterruptedError
	require.ErrorAs(t, err, &e)
	o.answer(e.Question, actors.Disapprove("no"))
	for range 2 {
		err = call()
		require.ErrorIs(t, err, actors.ErrNotApproved)
		require.ErrorIs(t, err, core.ErrPermanent)
	}
}

type wire struct {
	Euros int    `json:"euros"`
	To    string `json:"to"`
}

// bank runs an agent that makes one transfer.
func bank(t *testing.T, store *memstore.Store, made *[]wire, in wire, how ...actors.ApprovalOption) (string, error) {
	t.Helper()
	send := decorators.Tool("send", "", func(_ context.Context, in wire) (string, error) {
		*made = append(*made, in)
		return "sent", nil
	}, actors.WithApproval(how...))
	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	out, err := send.Call(st.Context(t.Context()), in)
	require.NoError(t, st.Close())
	return out, err
}

func above100(t wire) bool { return t.Euros > 100 }

func TestOnlyCallsThatNeedApprovalWaitForIt(t *testing.T) {
	var made []wire
	out, err := bank(t, memstore.New(), &made, wire{100, "ada"}, actors.ApprovalIf(above100))
	require.NoError(t, err)
	assert.Equal(t, "sent", out)

	store := memstore.New()
	words := actors.ApprovalQuestion(func(t wire) string { return fmt.Sprintf("Send %d EUR to %s?", t.Euros, t.To) })
	for range 2 {
		_, err = bank(t, store, &made, wire{101, "ada"}, actors.ApprovalIf(above100), words)
		var e *core.InterruptedError
		require.ErrorAs(t, err, &e)
		assert.Equal(t, "Send 101 EUR to ada?", e.Message)
	}
	changed, err := actors.ApproveWith(map[string]any{"euros": "many"})
	require.NoError(t, err)
	require.ErrorIs(t, state.Answer(t.Context(), store, "r", "approve_send?1", "", changed), core.ErrUnfit)
	require.NoError(t, state.Answer(t.Context(), store, "r", "approve_send?1", "", actors.Approve()))
	out, err = bank(t, store, &made, wire{101, "ada"}, actors.ApprovalIf(above100), words)
	require.NoError(t, err)
	assert.Equal(t, "sent", out)
	assert.Equal(t, []wire{{100, "ada"}, {101, "ada"}}, made)
}

func TestDefaultAnswersForAHuman(t *testing.T) {
	for _, c := range []struct {
		answer actors.Approval
		err    error
		made   []wire
	}{
		{actors.Disapprove("nobody has answered"), actors.ErrNotApproved, nil},
		{actors.Approve(), nil, []wire{{500, "ada"}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var made []wire
			store := memstore.New()
			def := actors.ApprovalDefault(24*time.Hour, c.answer)
			_, err := bank(t, store, &made, wire{500, "ada"}, def)
			require.ErrorIs(t, err, core.ErrAwaiting)
			info, err := store.Info(t.Context(), "r")
			require.NoError(t, err)
			assert.Equal(t, 24*time.Hour, time.Until(info.Due))
			time.Sleep(24 * time.Hour) //nolint:forbidigo // on the fake clock
			_, err = bank(t, store, &made, wire{500, "ada"}, def)
			require.ErrorIs(t, err, c.err)
			assert.Equal(t, c.made, made)
		})
	}
}

func TestBadOptionsOfAnApprovalPanic(t *testing.T) {
	tool := func(how ...actors.ApprovalOption) func() {
		return func() {
			decorators.Tool("send", "", func(context.Context, wire) (string, error) { return "", nil }, actors.WithApproval(how...))
		}
	}
	assert.PanicsWithValue(t, `actors: "send": ApprovalIf got a func(string) bool, want a function that takes a actors_test.wire, as the tool does`,
		tool(actors.ApprovalIf(func(string) bool { return true })))
	assert.PanicsWithValue(t, `actors: "send": ApprovalQuestion got a func(int) string, want a function that takes a actors_test.wire, as the tool does`,
		tool(actors.ApprovalQuestion(func(int) string { return "" })))
	assert.PanicsWithValue(t, `actors: "send": an option of WithApproval is nil`, tool(nil))
	assert.PanicsWithValue(t, "actors: ApprovalDefault(0s, …): want a positive duration", func() { actors.ApprovalDefault(0, actors.Approve()) })
	assert.Panics(t, func() { actors.ApprovalIf[wire](nil) })
	assert.Panics(t, func() { actors.ApprovalQuestion[wire](nil) })
}

// If the condition panics, it is not known whether the call needs approval.
func TestConditionOfAnApprovalThatPanicsFailsTheCall(t *testing.T) {
	var made []wire
	_, err := bank(t, memstore.New(), &made, wire{1, "ada"}, actors.ApprovalIf(func(wire) bool { panic("boom") }))
	require.ErrorIs(t, err, core.ErrPanic)
	assert.Empty(t, made)
}

func TestWithApprovalIsForToolsInRuns(t *testing.T) {
	o := newOffice(t)
	_, err := o.tool.Call(t.Context(), mail{"ada", "hi"})
	require.ErrorIs(t, err, core.ErrNoRun)
	assert.Panics(t, func() { actors.NewAgent("a", o.model.llm(), actors.WithApproval()) })
	assert.Panics(t, func() { o.model.llm(actors.WithApproval()) })
	assert.Equal(t, "send_mail", o.tool.Name())
	assert.Equal(t, "send_mail", o.tool.Describe().Name)
}

// place is a type whose JSON schema has references.
type place struct {
	Name   string `json:"name"`
	Within *place `json:"within,omitempty"`
}

func TestChangedArgumentsOfATypeWithReferences(t *testing.T) {
	oslo, err := actors.ApproveWith(place{Name: "Oslo", Within: &place{Name: "Norway"}})
	require.NoError(t, err)
	for name, options := range map[string][]actors.ApprovalOption{
		"answer": nil, "default": {actors.ApprovalDefault(time.Hour, oslo)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				visit := decorators.Tool("visit", "", func(_ context.Context, in place) (string, error) {
					return in.Name + ", " + in.Within.Name, nil
				}, actors.WithApproval(options...))
				var out string
				for range 2 {
					st, err := state.Open(t.Context(), store, "r")
					require.NoError(t, err)
					out, err = visit.Call(st.Context(t.Context()), place{Name: "Bergen"})
					require.NoError(t, st.Close())
					if open, _ := state.Questions(t.Context(), store, "r"); len(open) > 0 && options == nil {
						require.NoError(t, state.Answer(t.Context(), store, "r", open[0].ID, "", oslo))
					}
					if err != nil {
						require.ErrorIs(t, err, core.ErrAwaiting)
					}
					time.Sleep(2 * time.Hour) //nolint:forbidigo // on the fake clock
				}
				assert.Equal(t, "Oslo, Norway", out)
			})
		})
	}
}

func TestADefaultThatCannotBeDecodedPanics(t *testing.T) {
	anything, err := actors.ParseSchema([]byte(`{"type":"object"}`))
	require.NoError(t, err)
	wrong, err := actors.ApproveWith(map[string]any{"to": 7})
	require.NoError(t, err)
	assert.Panics(t, func() {
		actors.NewTool("send", "", anything, func(context.Context, mail) (string, error) { return "", nil },
			actors.WithApproval(actors.ApprovalDefault(time.Hour, wrong)))
	})
}
