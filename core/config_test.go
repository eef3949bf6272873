package core_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

func TestConfigurationOutOfRangeNamesFieldValueAndWhatIsAllowed(t *testing.T) {
	type config = core.RetryConfig
	for _, tt := range []struct {
		cfg  config
		want []string // parts of the message
	}{
		{config{MaxAttempts: -2}, []string{"MaxAttempts", "-2", "1 or more", "Unlimited"}},
		{config{Backoff: 5}, []string{"Backoff", "5", "Constant, Linear, Exponential or Fibonacci"}},
		{config{InitialDelay: -2}, []string{"InitialDelay", "-2ns", "NoDelay"}},
		{config{MaxDelay: -1}, []string{"MaxDelay", "-1ns", "more than 0"}},
		{config{Multiplier: 0.5}, []string{"Multiplier", "0.5", "1 or more"}},
		{config{Multiplier: -2}, []string{"Multiplier", "-2", "1 or more"}},
		{config{Multiplier: math.NaN()}, []string{"Multiplier", "NaN"}},
		{config{Multiplier: math.Inf(1)}, []string{"Multiplier", "+Inf", "finite"}},
		{config{Multiplier: math.Inf(-1)}, []string{"Multiplier", "-Inf"}},
		{config{Jitter: 1.5}, []string{"Jitter", "1.5", "fraction", "NoJitter", "FullJitter", "DecorrelatedJitter"}},
		{config{Jitter: -0.5}, []string{"Jitter", "-0.5"}},
		{config{Jitter: -4}, []string{"Jitter", "-4"}},
		{config{Jitter: core.Jitter(math.NaN())}, []string{"Jitter", "NaN"}},
		{config{AttemptTimeout: -1}, []string{"AttemptTimeout", "-1ns", "a positive duration"}},
		{config{RetryTimeout: -1}, []string{"RetryTimeout", "-1ns", "a positive duration"}},
		{config{MaxRetryAfter: -1}, []string{"MaxRetryAfter", "-1ns", "more than 0"}},
		{config{RetryOn: []core.Matcher{core.MatchAny(), nil}}, []string{"RetryOn", "nil"}},
		{config{Exclude: []core.Matcher{nil}}, []string{"Exclude", "nil"}},
		{config{MaxAttempts: -7, Multiplier: 0.25, MaxDelay: -3}, []string{"MaxAttempts", "-7", "Multiplier", "0.25", "MaxDelay", "-3ns"}},
		{config{MaxLosses: -3}, []string{"MaxLosses", "-3", "1 or more", "Unlimited"}},
		{config{MaxLosses: 2, LossesCount: true}, []string{"MaxLosses is 2 although LossesCount is set", "want 0, since MaxAttempts then limits losses"}},
		{config{MaxLosses: core.Unlimited, LossesCount: true}, []string{"MaxLosses is -1 although LossesCount is set", "want 0"}},
		{config{RetryOn: []core.Matcher{core.MatchIs(nil)}}, []string{"RetryOn is a list with a nil Matcher", "MatchIs(nil)"}},
		{config{Exclude: []core.Matcher{core.MatchAny(), core.MatchIs(nil)}}, []string{"Exclude is a list with a nil Matcher", "MatchIs(nil)"}},
	} {
		t.Run(strings.Join(tt.want[:2], " "), func(t *testing.T) {
			says := func(where string, err error) {
				t.Helper()
				if err == nil {
					t.Errorf("%s accepts it", where)
					return
				}
				for _, want := range tt.want {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%s: %q does not say %q", where, err, want)
					}
				}
			}
			says("Validate", tt.cfg.Validate())
			_, err := tt.cfg.Policy()
			says("NewPolicy", err)
			_, err = core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool", Retry: &tt.cfg}, testkit.Succeed)
			says("NewDefinition", err)

			ran := 0
			st, ctx := testkit.Run(t)
			d := testkit.Tool(t, "tool", steady, testkit.Counted(&ran, testkit.Succeed)).Require(func(context.Context, string) error { ran++; return nil })
			_, err = d.Event().WithRetry(tt.cfg).Execute(ctx, "in")
			says("Execute", err)
			e := testkit.Failed(t, err, record.ReasonPermanent)
			assert.Equal(t, record.StageDefinition, e.Stage, "stage")
			wantRecords(t, st, "failed(0,permanent,invalid,@definition)")
			_, err = d.Event().WithRetry(tt.cfg).Execute(t.Context(), "in")
			says("Execute outside a run", err)
			_, err = d.Event().WithRetry(tt.cfg).Prepare(ctx, "in").Execute(ctx)
			says("Prepare", err)
			assert.Equal(t, 0, ran, "ran")

			for name, option := range map[string]func() state.Option{
				"WithRetry":    func() state.Option { return state.WithRetry(tt.cfg) },
				"WithRetryFor": func() state.Option { return state.WithRetryFor(record.KindTool, tt.cfg) },
			} {
				func() {
					defer func() {
						err, _ := recover().(error)
						says(name, err)
					}()
					state.New(option())
				}()
			}
		})
	}
}

func TestConfigurationAtTheEdgesIsAccepted(t *testing.T) {
	for _, cfg := range []core.RetryConfig{
		{},
		{MaxAttempts: 1},
		{MaxAttempts: core.Unlimited},
		{MaxAttempts: math.MaxInt},
		{InitialDelay: core.NoDelay},
		{InitialDelay: never, MaxDelay: never, AttemptTimeout: never, RetryTimeout: never, MaxRetryAfter: never},
		{InitialDelay: 1, MaxDelay: 1, AttemptTimeout: 1, RetryTimeout: 1, MaxRetryAfter: 1},
		{Multiplier: 1},
		{Multiplier: math.MaxFloat64},
		{Jitter: 1},
		{Jitter: core.Jitter(math.SmallestNonzeroFloat64)},
		{Jitter: core.NoJitter},
		{Jitter: core.FullJitter},
		{Jitter: core.DecorrelatedJitter},
		{Backoff: core.Fibonacci},
	} {
		if err := cfg.Validate(); err != nil {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
}

func TestLongestTimeoutsAreAsGoodAsNone(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, cfg := range []core.RetryConfig{{AttemptTimeout: never}, {RetryTimeout: never}, {AttemptTimeout: never, RetryTimeout: never, MaxRetryAfter: never}} {
			_, ctx := testkit.Run(t)
			out, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, testkit.Failing(2, errFlaky)))
			testkit.Completed(t, out, err)
		}
	})
}

func TestWrongDefinitionsAreErrorsThatSayWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name string
		spec core.Spec
		h    testkit.Handler
		want string
	}{
		{"nil handler", core.Spec{Kind: record.KindTool, Name: "tool"}, nil, `"tool" has no handler`},
		{"no kind", core.Spec{Name: "tool"}, testkit.Succeed, "not a kind of call"},
		{"kind of no call", core.Spec{Kind: record.KindLog, Name: "tool"}, testkit.Succeed, "want KindTool, KindLLM or KindAgent"},
		{"empty name", core.Spec{Kind: record.KindTool}, testkit.Succeed, "the name is empty"},
		{"long name", core.Spec{Kind: record.KindTool, Name: strings.Repeat("x", 129)}, testkit.Succeed, "129 bytes, want at most 128"},
		{"name that is not UTF-8", core.Spec{Kind: record.KindTool, Name: "a\xff"}, testkit.Succeed, "not UTF-8"},
		{"name with a space before", core.Spec{Kind: record.KindTool, Name: " a"}, testkit.Succeed, "space"},
		{"name with a space after", core.Spec{Kind: record.KindTool, Name: "a "}, testkit.Succeed, "space"},
		{"name with a control character", core.Spec{Kind: record.KindTool, Name: "a\x00b"}, testkit.Succeed, "not printable"},
		{"name with a newline", core.Spec{Kind: record.KindTool, Name: "a\nb"}, testkit.Succeed, "not printable"},
		{"negative attempt timeout", core.Spec{Kind: record.KindTool, Name: "tool", AttemptTimeout: -2}, testkit.Succeed, "-2ns"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := core.NewDefinition(tt.spec, tt.h)
			if err == nil || d != nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, %v; want an error with %q", d, err, tt.want)
			}
		})
	}
	_, err := core.NewDefinition[string, string](core.Spec{AttemptTimeout: -2, Retry: &core.RetryConfig{MaxAttempts: -2}}, nil)
	for _, want := range []string{"not a kind", "the name is empty", "no handler", "attempt timeout", "MaxAttempts"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q too", err, want)
		}
	}
	for _, name := range []string{"a", strings.Repeat("x", 128), "with space", "Köln", "a/b#2@3:c?%"} {
		if err := core.CheckName(name); err != nil {
			t.Error(err)
		}
	}
}

func TestOutputThatCouldNeverBeStoredIsRefused(t *testing.T) {
	type hooks struct {
		Name string
		Done struct{ C [2]chan int }
	}
	type hidden struct {
		hooks // encoded even though its type is unexported
		Done  string
	}
	refused := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	refused(returning[chan int](core.Spec{}), `the output of "tool" could never be stored: codec: a chan int cannot be encoded`)
	refused(returning[func()](core.Spec{}), "a func() cannot be encoded")
	refused(returning[hidden](core.Spec{}), "field .hooks.Done.C[0]: a chan int cannot be encoded")
	refused(returning[hooks](core.Spec{}), "field .Done.C[0]: a chan int cannot be encoded; return something else, or mark the actor NoStore")
	for name, err := range map[string]error{
		"not stored":       returning[chan int](core.Spec{NoStore: true}),
		"perhaps empty":    returning[[]func()](core.Spec{}),
		"perhaps nil":      returning[*hooks](core.Spec{}),
		"perhaps anything": returning[any](core.Spec{}),
		"left out": returning[struct {
			Done chan int `json:"-"`
		}](core.Spec{}),
		"left out if nil": returning[struct {
			Done chan int `json:",omitempty"`
		}](core.Spec{}),
		"not exported": returning[struct {
			Name string
			done chan int
		}](core.Spec{}),
		"encoding itself":    returning[named](core.Spec{}),
		"one that is within": returning[struct{ Inner named }](core.Spec{}),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	st, ctx := testkit.Run(t)
	defer st.Close()
	_, err := core.Step(ctx, "step", func(context.Context) (chan int, error) { return nil, nil })
	refused(err, `the output of "step" could never be stored`)
}

// returning returns the error from defining an actor whose handler returns an Out.
func returning[Out any](spec core.Spec) error {
	spec.Kind, spec.Name = record.KindTool, "tool"
	_, err := core.NewDefinition(spec, func(context.Context, string) (out Out, err error) { return out, nil })
	return err
}

// named is a channel type whose values are encoded as a name.
type named chan int

func (named) MarshalText() ([]byte, error) { return []byte("named"), nil }
func (*named) UnmarshalText([]byte) error  { return nil }

func TestNilConditionsPanic(t *testing.T) {
	d := testkit.Tool(t, "tool", steady, testkit.Succeed)
	var undefined *testkit.Definition
	for name, f := range map[string]func(){
		"Require":                     func() { d.Require(nil) },
		"Ensure":                      func() { d.Ensure(nil) },
		"Require of a nil definition": func() { undefined.Require(func(context.Context, string) error { return nil }) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, "core: ") {
					t.Errorf("%s: %q", name, text)
				}
			}()
			f()
		}()
	}
}

func TestConditionIsAddedOnlyToTheCopy(t *testing.T) {
	plain := testkit.Tool(t, "tool", steady, testkit.Succeed)
	refusing := func(context.Context, string) error { return errBoom }
	one, two := plain.Require(refusing), plain.Ensure(func(context.Context, string, string) error { return core.Permanent(errBoom) })
	_, ctx := testkit.Run(t)
	out, err := testkit.Call(ctx, plain)
	testkit.Completed(t, out, err)
	_, err = testkit.Call(ctx, one)
	testkit.Failed(t, err, record.ReasonPrecondition)
	_, err = testkit.Call(ctx, two)
	testkit.Failed(t, err, record.ReasonCondition)

	// Conditions added to one copy do not appear in the other.
	base := plain.Require(func(context.Context, string) error { return nil })
	a := base.Require(refusing)
	b := base.Require(func(context.Context, string) error { return nil })
	_, err = testkit.Call(ctx, a)
	testkit.Failed(t, err, record.ReasonPrecondition)
	out, err = testkit.Call(ctx, b)
	testkit.Completed(t, out, err)
}

func TestDefaultsAreFilledInOnce(t *testing.T) {
	for _, cfg := range []core.RetryConfig{
		{},
		{InitialDelay: core.NoDelay},
		{InitialDelay: never},
		{MaxAttempts: math.MaxInt, Jitter: core.NoJitter},
		{MaxAttempts: core.Unlimited, MaxLosses: core.Unlimited, MaxDelay: 1},
	} {
		once, err := cfg.WithDefaults()
		require.NoError(t, err)
		twice, err := once.WithDefaults()
		require.NoError(t, err)
		assert.Equal(t, once, twice)
	}
}

func TestUndefinedActorFails(t *testing.T) {
	var d *testkit.Definition
	_, ctx := testkit.Run(t)
	for _, ctx := range []context.Context{ctx, t.Context()} {
		if _, err := d.Event().Execute(ctx, "in"); err == nil {
			t.Error("Execute of an undefined actor succeeds")
		}
		if _, err := d.Event().Prepare(ctx, "in").Execute(ctx); err == nil {
			t.Error("a prepared call of an undefined actor succeeds")
		}
	}
	assert.Equal(t, core.Spec{}, d.Spec(), "spec")
}

func TestEventMethodsReturnCopies(t *testing.T) {
	st, ctx := testkit.Run(t)
	e := testkit.Tool(t, "tool", steady, testkit.Succeed).Event()
	_ = e.WithTag("other")
	_ = e.WithRetry(core.RetryConfig{MaxAttempts: -9})
	out, err := e.Execute(ctx, "in")
	testkit.Completed(t, out, err)
	out, err = e.Execute(ctx, "in") // executing an event twice makes two calls
	testkit.Completed(t, out, err)
	wantRecords(t, st, "tool:started(0) tool:completed(0) tool#2:started(0) tool#2:completed(0)")
}
