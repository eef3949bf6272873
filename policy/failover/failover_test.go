package failover_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/openai"
	"github.com/reprise-go/reprise/actors/openai/openaitest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/failover"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

var (
	question = actors.Request{Messages: []actors.Message{actors.User("How are you?")}}
	once     = &core.RetryConfig{MaxAttempts: 1}
	busy     = &httperror.Error{Code: http.StatusServiceUnavailable}
)

// A model emits one word per second, and then answers with all words or fails.
type model struct {
	name  string
	words string
	fails error

	mu    sync.Mutex
	asked int
	as    string // name of the model in the last request
}

func (m *model) llm() actors.LLM {
	return actors.NewLLM(m.name, func(ctx context.Context, req actors.Request) (actors.Response, error) {
		m.mu.Lock()
		m.asked++
		m.as = req.Options.Model
		m.mu.Unlock()
		for word := range strings.FieldsSeq(m.words) {
			if err := testkit.Pause(ctx, time.Second); err != nil {
				return actors.Response{}, err
			}
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: word})
		}
		if m.fails != nil {
			return actors.Response{}, m.fails
		}
		return actors.Response{Message: actors.Assistant(strings.ReplaceAll(m.words, " ", "")), Usage: core.Usage{InputTokens: 10}}, nil
	})
}

func llms(models ...*model) (all []actors.LLM) {
	for _, m := range models {
		all = append(all, m.llm())
	}
	return all
}

// answeredBy returns the attribute answered_by in the record of the failover.
func answeredBy(t *testing.T, st *state.ExecutionState) any {
	for _, r := range slices.Backward(testkit.Records(t, st)) {
		if r.Address.String() == "any" && r.Status == record.StatusCompleted {
			return r.Detail.Metadata["answered_by"]
		}
	}
	return nil
}

func TestNextModelIsCalledIfOneIsUnavailable(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, b, c := &model{name: "a", fails: busy}, &model{name: "b", fails: core.Permanent(actors.ErrQuota)}, &model{name: "c", words: "yes"}
		st, ctx := testkit.Run(t)
		req := question
		req.Options.Model = "a-large"
		resp, err := failover.New("any", failover.Options{Retry: once}, llms(a, b, c)...).Call(ctx, req)
		require.NoError(t, err)
		assert.Equal(t, "yes", resp.Message.Text)
		assert.Equal(t, []int{1, 1, 1}, []int{a.asked, b.asked, c.asked})
		assert.Equal(t, []string{"a-large", "", ""}, []string{a.as, b.as, c.as})
		assert.Equal(t, "c", answeredBy(t, st))
		assert.Equal(t, 10, st.Report().Usage.InputTokens, "the usage counts once")
	})
}

// A call that was in doubt and has failed has no answer, no matter whether its actor or a person
// decided that it failed.
func TestNextModelIsCalledIfOneFailedInDoubt(t *testing.T) {
	for policy, want := range map[core.InDoubtPolicy]int{core.InDoubtFail: 1, core.InDoubtAsk: 2} {
		b, store := &model{name: "b", words: "yes"}, memstore.New()
		a := actors.NewLLM("a", func(context.Context, actors.Request) (r actors.Response, err error) {
			return r, core.InDoubt(errors.New("no response"))
		}, actors.WithInDoubt(policy))
		for opening := range want {
			st, err := state.Open(t.Context(), store, "run")
			require.NoError(t, err)
			resp, err := failover.New("any", failover.Options{}, a, b.llm()).Call(st.Context(t.Context()), question)
			require.NoError(t, st.Close())
			if opening+1 == want {
				require.NoError(t, err)
				assert.Equal(t, "yes", resp.Message.Text)
				continue
			}
			require.ErrorIs(t, err, core.ErrAwaiting)
			require.Zero(t, b.asked, "a person must be asked first")
			questions, err := state.Questions(t.Context(), store, "run")
			require.NoError(t, err)
			require.NoError(t, state.Answer(t.Context(), store, "run", questions[0].ID, "ops", state.InDoubtFailed("it is down")))
		}
		assert.Equal(t, 1, b.asked)
	}
}

func TestInvalidRequestIsNotSentToTheNextModel(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, hedge := range []time.Duration{0, time.Minute} {
			bad := &httperror.Error{Code: http.StatusBadRequest}
			a, b := &model{name: "a", fails: bad}, &model{name: "b", words: "yes"}
			_, ctx := testkit.Run(t)
			_, err := failover.New("any", failover.Options{HedgeAfter: hedge}, llms(a, b)...).Call(ctx, question)
			var e *httperror.Error
			require.ErrorAs(t, err, &e)
			assert.Equal(t, http.StatusBadRequest, e.Code)
			assert.Zero(t, b.asked)

			_, err = failover.New("any", failover.Options{HedgeAfter: hedge, On: func(error) bool { return true }}, llms(a, b)...).Call(ctx, question)
			require.NoError(t, err)
		}
	})
}

func TestErrorNamesEachFailedModel(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, hedge := range []time.Duration{0, time.Minute} {
			a, b := &model{name: "a", fails: busy}, &model{name: "b", fails: core.Permanent(actors.ErrQuota)}
			_, ctx := testkit.Run(t)
			_, err := failover.New("any", failover.Options{Retry: once, HedgeAfter: hedge}, llms(a, b)...).Call(ctx, question)
			require.ErrorContains(t, err, `failover: all models of "any" failed: a: `)
			require.ErrorIs(t, err, actors.ErrQuota)
			require.ErrorIs(t, err, busy)
			var all *failover.Error
			require.ErrorAs(t, err, &all)
			assert.Equal(t, []string{"a", "b"}, all.Models)
			assert.Equal(t, 1, a.asked, "the failover itself is not retried")
		}
	})
}

func TestUnavailableDependsOnTheClass(t *testing.T) {
	for want, errs := range map[bool][]error{
		true: {
			busy, context.DeadlineExceeded, &httperror.Error{Code: 429}, &httperror.Error{Code: 401}, &httperror.Error{Code: 404},
			actors.ErrQuota, core.ErrBudget,
		},
		false: {
			&httperror.Error{Code: 400}, &httperror.Error{Code: 413}, actors.ErrContextTooLong, actors.ErrFiltered, errors.New("boom"),
		},
	} {
		for _, err := range errs {
			assert.Equal(t, want, failover.Unavailable(err), "%v", err)
			assert.Equal(t, want, failover.Unavailable(record.ErrorOf(err)), "%v, restored", err)
		}
	}
}

// deltas collects the emitted deltas, and checks that all have the address of the
// failover.
func deltas(t *testing.T, ctx context.Context, began time.Time) (context.Context, func() []string) {
	var mu sync.Mutex
	var shown []string
	watched := live.Watch(ctx, func(d live.Delta) {
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, "any", d.Address.String())
		shown = append(shown, strings.TrimSpace(time.Since(began).String()+" "+d.Part.String()+" "+d.Text))
	})
	return watched, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return shown
	}
}

func TestStreamOfAModelThatGaveUpIsWithdrawn(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, b := &model{name: "a", words: "no well", fails: busy}, &model{name: "b", words: "yes sir"}
		_, ctx := testkit.Run(t)
		ctx, shown := deltas(t, ctx, time.Now())
		resp, err := failover.New("any", failover.Options{Retry: once}, llms(a, b)...).Call(ctx, question)
		require.NoError(t, err)
		assert.Equal(t, "yessir", resp.Message.Text)
		assert.Equal(t, []string{"0s begin", "1s text no", "2s text well", "2s begin", "3s text yes", "4s text sir", "4s end"}, shown())
	})
}

// A second model is called if the first one is slow. The deltas of only one of them are shown.
func TestHedgingTakesTheFirstAnswer(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, b, c := &model{name: "a", words: strings.Repeat("hm ", 60)}, &model{name: "b", words: "yes sir"}, &model{name: "c", words: "no"}
		st, ctx := testkit.Run(t)
		began := time.Now()
		ctx, shown := deltas(t, ctx, began)
		resp, err := failover.New("any", failover.Options{HedgeAfter: 3500 * time.Millisecond}, llms(a, b, c)...).Call(ctx, question)
		require.NoError(t, err)
		assert.Equal(t, "yessir", resp.Message.Text)
		assert.Equal(t, 5500*time.Millisecond, time.Since(began))
		assert.Equal(t, []int{1, 1, 0}, []int{a.asked, b.asked, c.asked})
		assert.Equal(t, "b", answeredBy(t, st))
		assert.Equal(t, []string{
			"0s begin", "1s text hm", "2s text hm", "3s text hm", "4s text hm", "5s text hm",
			"5.5s begin", "5.5s text yes", "5.5s text sir", "5.5s end",
		}, shown())
	})
}

func TestHedgingCallsTheNextAtOnceIfOneFails(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		a, b := &model{name: "a", words: "well", fails: busy}, &model{name: "b", words: "yes"}
		_, ctx := testkit.Run(t)
		began := time.Now()
		resp, err := failover.New("any", failover.Options{HedgeAfter: time.Hour, Retry: once}, llms(a, b)...).Call(ctx, question)
		require.NoError(t, err)
		assert.Equal(t, "yes", resp.Message.Text)
		assert.Equal(t, 2*time.Second, time.Since(began))
	})
}

// The first model has failed, and the run is interrupted before the second model has answered. When
// the run is resumed, the second model is called at once, or not at all.
func TestHedgingRemembersAFailureWhenTheRunIsResumed(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		t.Run(fmt.Sprint("failover allowed: ", allowed), func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				a, b, c := &model{name: "a", words: "well", fails: busy}, &model{name: "b", words: "yes sir"}, &model{name: "c", words: "no"}
				llm := failover.New("any", failover.Options{HedgeAfter: time.Hour, Retry: once, On: func(error) bool { return allowed }}, llms(a, b, c)...)
				store := memstore.New()
				var st *state.ExecutionState
				st, err := state.Open(t.Context(), store, "run", state.WithPublisher(testkit.Publisher(func(rec record.Record) {
					if rec.Kind == record.KindBranch && rec.Status == record.StatusFailed {
						st.Interrupt(snapshot.Stop{})
					}
				})))
				require.NoError(t, err)
				_, err = llm.Call(st.Context(t.Context()), question)
				require.ErrorIs(t, err, core.ErrInterrupted)
				require.NoError(t, st.Close())

				st, err = state.Open(t.Context(), store, "run")
				require.NoError(t, err)
				began := time.Now()
				resp, err := llm.Call(st.Context(t.Context()), question)
				require.NoError(t, st.Close())
				if allowed {
					require.NoError(t, err)
					assert.Equal(t, "yessir", resp.Message.Text)
					assert.Equal(t, 2*time.Second, time.Since(began))
					assert.Equal(t, []int{1, 0}, []int{a.asked, c.asked})
					return
				}
				require.ErrorContains(t, err, "503")
				assert.NotContains(t, err.Error(), "not called", "the error is that of the first model")
				assert.Zero(t, time.Since(began))
				assert.Equal(t, []int{1, 0, 0}, []int{a.asked, b.asked, c.asked})
			})
		})
	}
}

func TestInterruptDoesNotCallTheNextModel(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, hedge := range []time.Duration{0, time.Minute} {
			a, b := &model{name: "a", words: "hm hm hm"}, &model{name: "b", words: "yes"}
			st, ctx := testkit.Run(t)
			time.AfterFunc(time.Second, func() { st.Interrupt(snapshot.Stop{}) })
			_, err := failover.New("any", failover.Options{HedgeAfter: hedge}, llms(a, b)...).Call(ctx, question)
			require.ErrorIs(t, err, core.ErrInterrupted)
			assert.Zero(t, b.asked)
		}
	})
}

// The test uses real HTTP: the first service breaks off its stream, and the second answers.
func TestServiceThatBreaksOffIsReplaced(t *testing.T) {
	first := openaitest.New(t, openaitest.Text("It is four").CutAfter(2))
	second := openaitest.New(t, openaitest.Text("It is 4 degrees."))
	llm := failover.New("any", failover.Options{Retry: once},
		openai.New("first", openai.WithBaseURL(first.URL()), openai.WithAPIKey("key")),
		openai.New("second", openai.WithBaseURL(second.URL()), openai.WithAPIKey("key")))
	var answer actors.Answer
	text := ""
	_, ctx := testkit.Run(t)
	for d, err := range actors.Stream(ctx, actors.NewAgent("assistant", llm), actors.Ask("How warm is it?"), &answer) {
		require.NoError(t, err)
		switch d.Part {
		case live.PartBegin:
			text = ""
		case live.PartText:
			text += d.Text
		}
	}
	assert.Equal(t, "It is 4 degrees.", answer.Text)
	assert.Equal(t, answer.Text, text)
}

func TestBadInputPanicsAndSaysWhatIsAllowed(t *testing.T) {
	a, b := (&model{name: "a"}).llm(), (&model{name: "b"}).llm()
	for want, f := range map[string]func(){
		`failover: "any" has 1 models; want 2 or more`:                                          func() { failover.New("any", failover.Options{}, a) },
		`failover: "any" has two models named "a"; names must be unique`:                        func() { failover.New("any", failover.Options{}, a, b, a) },
		`failover: model 2 of "any" is the zero LLM`:                                            func() { failover.New("any", failover.Options{}, a, actors.LLM{}) },
		`failover: Options.HedgeAfter of "any" is -1s; want a positive duration, or 0 for none`: func() { failover.New("any", failover.Options{HedgeAfter: -time.Second}, a, b) },
		`failover: Options.Retry of "any": core: RetryConfig.MaxDelay is -1ns; want more than 0, or 0 for the default of 1m0s (or InitialDelay, if longer)`: func() {
			failover.New("any", failover.Options{Retry: &core.RetryConfig{MaxDelay: -1}}, a, b)
		},
	} {
		assert.PanicsWithValue(t, want, f)
	}
}
