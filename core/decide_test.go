package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
)

type temporaryError struct{ code int }

func (e *temporaryError) Error() string { return fmt.Sprintf("code %d", e.code) }

func TestDecisionsAreMadeInOrder(t *testing.T) {
	yes := func(core.Attempt) bool { return true }
	no := func(core.Attempt) bool { return false }
	list := func(ms ...core.Matcher) []core.Matcher { return ms }
	every := list(core.MatchAny())
	type config = core.RetryConfig
	for _, tt := range []struct {
		name string
		cfg  config
		err  error
		want bool
	}{
		// Rule 6: the class.
		{"transient", config{}, errFlaky, true},
		{"unknown", config{}, errBoom, false},
		{"EOF is not an unexpected one", config{}, io.EOF, false},
		{"cancelled inside", config{}, context.Canceled, false},
		{"timeout inside", config{}, context.DeadlineExceeded, true},

		// Rule 5 comes before rule 6: the mark Retryable.
		{"retryable unknown", config{}, core.Retryable(errBoom), true},
		{"retryable inside a wrap", config{}, fmt.Errorf("a: %w", core.Retryable(errBoom)), true},
		{"retryable inside a join", config{}, errors.Join(io.EOF, core.Retryable(errBoom)), true},

		// Rule 4 comes before rules 5 and 6: RetryOn and RetryWhen.
		{"RetryOn picks an unknown one", config{RetryOn: list(core.MatchIs(errBoom))}, errBoom, true},
		{"RetryOn leaves out a transient one", config{RetryOn: list(core.MatchIs(errBoom))}, errFlaky, false},
		{"RetryOn leaves out a marked one", config{RetryOn: list(core.MatchIs(io.EOF))}, core.Retryable(errBoom), false},
		{"RetryOn any", config{RetryOn: every}, errBoom, true},
		{"one of RetryOn", config{RetryOn: list(core.MatchIs(io.EOF), core.MatchIs(errBoom))}, errBoom, true},
		{"RetryWhen true", config{RetryWhen: yes}, errBoom, true},
		{"RetryWhen false", config{RetryWhen: no}, errFlaky, false},
		{"RetryWhen false for a marked one", config{RetryWhen: no}, core.Retryable(errBoom), false},
		{"RetryOn and RetryWhen", config{RetryOn: every, RetryWhen: yes}, errBoom, true},
		{"RetryOn without RetryWhen", config{RetryOn: every, RetryWhen: no}, errBoom, false},

		// Rule 3 comes before rules 4, 5 and 6: Exclude and StopWhen.
		{"Exclude a transient one", config{Exclude: list(core.MatchIs(errFlaky))}, errFlaky, false},
		{"Exclude another", config{Exclude: list(core.MatchIs(errBoom))}, errFlaky, true},
		{"Exclude a marked one", config{Exclude: list(core.MatchIs(errBoom))}, core.Retryable(errBoom), false},
		{"Exclude what RetryOn picks", config{Exclude: list(core.MatchIs(errBoom)), RetryOn: every}, errBoom, false},
		{"Exclude where RetryWhen is true", config{Exclude: every, RetryWhen: yes}, errFlaky, false},
		{"StopWhen with a transient one", config{StopWhen: yes}, errFlaky, false},
		{"StopWhen with a marked one", config{StopWhen: yes}, core.Retryable(errBoom), false},
		{"StopWhen with what RetryOn picks", config{StopWhen: yes, RetryOn: every}, errFlaky, false},
		{"StopWhen with RetryWhen", config{StopWhen: yes, RetryWhen: yes}, errFlaky, false},
		{"StopWhen false leaves the decision to the others", config{StopWhen: no}, errFlaky, true},
		{"StopWhen false does not mean a retry", config{StopWhen: no}, errBoom, false},

		// Rule 2 comes before all others: Permanent.
		{"permanent transient", config{}, core.Permanent(errFlaky), false},
		{"permanent in RetryOn", config{RetryOn: every}, core.Permanent(errFlaky), false},
		{"permanent where RetryWhen is true", config{RetryWhen: yes}, core.Permanent(errFlaky), false},
		{"permanent and retryable", config{}, core.Retryable(core.Permanent(errFlaky)), false},
		{"retryable and permanent", config{}, core.Permanent(core.Retryable(errFlaky)), false},
		{"permanent inside a wrap", config{RetryOn: every}, fmt.Errorf("a: %w", core.Permanent(errFlaky)), false},
		{"permanent inside a join", config{RetryOn: every}, errors.Join(errFlaky, core.Permanent(errBoom)), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.InitialDelay, tt.cfg.MaxAttempts = core.NoDelay, 2
			_, ctx := testkit.Run(t)
			out, err := testkit.Call(ctx, testkit.Tool(t, "tool", tt.cfg, testkit.Fail(tt.err)))
			assert.Empty(t, out, "output")
			assert.ErrorIs(t, err, tt.err)
			if tt.want {
				assert.Equal(t, 2, testkit.Failed(t, err, record.ReasonExhausted).Attempts, "attempts")
			} else {
				assert.Equal(t, 1, testkit.Failed(t, err, record.ReasonPermanent).Attempts, "attempts")
			}
		})
	}
}

func TestErrorsThatAreNeverRetriedAreNotJudged(t *testing.T) {
	asked := 0
	ask := func(core.Attempt) bool { asked++; return true }
	match := func(error) bool { asked++; return true }
	cfg := core.RetryConfig{RetryWhen: ask, StopWhen: ask, RetryOn: []core.Matcher{match}, Exclude: []core.Matcher{match}}
	_, ctx := testkit.Run(t)
	for _, d := range []*testkit.Definition{
		testkit.Tool(t, "tool", cfg, testkit.Fail(core.Permanent(errBoom))),
		testkit.Tool(t, "tool", cfg, func(context.Context, string) (string, error) { panic("oops") }),
		testkit.Tool(t, "tool", cfg, testkit.Succeed).Require(func(context.Context, string) error { return errBoom }),
	} {
		if _, err := testkit.Call(ctx, d); err == nil {
			t.Error("the call did not fail")
		}
	}
	assert.Equal(t, 0, asked, "asked")
}

func TestExcludeIsCalledFirstAndThenStopWhen(t *testing.T) {
	var order []string
	matcher := func(name string, answer bool) []core.Matcher {
		return []core.Matcher{func(error) bool { order = append(order, name); return answer }}
	}
	when := func(name string, answer bool) func(core.Attempt) bool {
		return func(core.Attempt) bool { order = append(order, name); return answer }
	}
	_, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, testkit.Tool(t, "tool", core.RetryConfig{
		InitialDelay: core.NoDelay, MaxAttempts: 2,
		Exclude: matcher("Exclude", false), StopWhen: when("StopWhen", false),
		RetryOn: matcher("RetryOn", true), RetryWhen: when("RetryWhen", true),
	}, testkit.Attempts(testkit.Fail(errBoom), testkit.Fail(core.Permanent(errBoom)))))
	testkit.Failed(t, err, record.ReasonPermanent)
	assert.Equal(t, "[Exclude StopWhen RetryOn RetryWhen]", fmt.Sprint(order), "order")
}

func TestConditionsSeeNumberErrorAndOutput(t *testing.T) {
	var seen []core.Attempt
	cfg := atOnce
	cfg.RetryWhen = func(a core.Attempt) bool { seen = append(seen, a); return a.Number < 3 }
	st, ctx := testkit.Run(t)
	out, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, testkit.Attempts(testkit.Fail(errBoom), func(context.Context, string) (string, error) { return "half", nil }, testkit.Succeed)))
	testkit.Completed(t, out, err)
	id, at := st.RunID(), calls(t, st)[0].Address
	assert.Equal(t, "tool", at.String(), "address")
	want := []core.Attempt{{1, errBoom, "", id, at}, {2, nil, "half", id, at}, {3, nil, "out", id, at}}
	assert.Equal(t, fmt.Sprint(want), fmt.Sprint(seen), "attempts")
}

// An attempt that was abandoned or failed has no output, even if an earlier
// attempt or the handler itself returned one.
func TestFailedAttemptHasNoOutput(t *testing.T) {
	cfg := atOnce
	cfg.RetryWhen = func(a core.Attempt) bool {
		if a.Err != nil {
			assert.Empty(t, a.Output, "output of the failed attempt")
		}
		return true
	}
	_, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, func(context.Context, string) (string, error) { return "rest", errBoom }))
	testkit.Failed(t, err, record.ReasonExhausted)
}

func TestMatchers(t *testing.T) {
	wrapped := fmt.Errorf("get: %w", &temporaryError{7})
	for _, tt := range []struct {
		name    string
		matcher core.Matcher
		err     error
		want    bool
	}{
		{"Is", core.MatchIs(errBoom), fmt.Errorf("a: %w", errBoom), true},
		{"Is joined", core.MatchIs(errBoom), errors.Join(io.EOF, errBoom), true},
		{"Is another", core.MatchIs(errBoom), io.EOF, false},
		{"As", core.MatchAs[*temporaryError](), wrapped, true},
		{"As another", core.MatchAs[*temporaryError](), errBoom, false},
		{"Class", core.MatchClass(record.ClassConnection), errFlaky, true},
		{"one of Class", core.MatchClass(record.ClassEOF, record.ClassConnection), errFlaky, true},
		{"Class of another", core.MatchClass(record.ClassRateLimit), errFlaky, false},
		{"Class of none", core.MatchClass(), errFlaky, false},
		{"Any", core.MatchAny(), errBoom, true},
	} {
		assert.Equal(t, tt.want, tt.matcher(tt.err), tt.name)
	}
}

// A matcher sees the class that is in the record.
func TestMatchClassMatchesTheClassOfTheRecord(t *testing.T) {
	refuse := func(context.Context, string, string) error { return errBoom }
	for name, tt := range map[string]struct {
		cfg  core.RetryConfig
		want int
	}{
		"RetryOn condition": {core.RetryConfig{RetryOn: []core.Matcher{core.MatchClass(record.ClassCondition)}}, 3},
		"Exclude condition": {core.RetryConfig{Exclude: []core.Matcher{core.MatchClass(record.ClassCondition)}}, 1},
		"Exclude unknown":   {core.RetryConfig{Exclude: []core.Matcher{core.MatchClass(record.ClassUnknown)}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.InitialDelay = core.NoDelay
			st, ctx := testkit.Run(t)
			_, err := testkit.Call(ctx, testkit.Tool(t, "tool", tt.cfg, testkit.Succeed).Ensure(refuse))
			assert.ErrorIs(t, err, core.ErrCondition)
			assert.ErrorIs(t, err, errBoom)
			last := calls(t, st)[len(calls(t, st))-1]
			assert.Equal(t, record.ClassCondition, last.Class, "class")
			assert.Equal(t, tt.want, last.TotalAttempts(), "attempts")
		})
	}
}

func TestUnlimitedAttemptsNeverEndByThemselves(t *testing.T) {
	cfg := core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: core.NoDelay}
	st, ctx := testkit.Run(t)
	out, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, testkit.Failing(1000, errFlaky)))
	testkit.Completed(t, out, err)
	last := calls(t, st)[len(calls(t, st))-1]
	assert.Equal(t, 1001, last.TotalAttempts(), "attempts")
	assert.Equal(t, core.Unlimited, last.MaxAttempts, "max attempts")
}

func TestFailureOfAChildIsJudgedByItsOwnError(t *testing.T) {
	for name, tt := range map[string]struct {
		child testkit.Handler
		want  int
	}{
		"transient": {testkit.Fail(errFlaky), 2},
		"unknown":   {testkit.Fail(errBoom), 1},
		"permanent": {testkit.Fail(core.Permanent(errFlaky)), 1},
		"panic":     {func(context.Context, string) (string, error) { panic("oops") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				_, ctx := testkit.Run(t)
				_, err := testkit.Call(ctx, nested(t, twice, once, tt.child, testkit.Call))
				var e *core.CallError
				if !errors.As(err, &e) {
					t.Fatal(err)
				}
				assert.Equal(t, tt.want, e.Attempts, "attempts of the parent")
			})
		})
	}
}
