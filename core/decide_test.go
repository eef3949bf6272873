package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/reprise-go/reprise/core"
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
		// 6: the class.
		{"transient", config{}, errFlaky, true},
		{"unknown", config{}, errBoom, false},
		{"EOF is no unexpected one", config{}, io.EOF, false},
		{"cancelled inside", config{}, context.Canceled, false},
		{"timeout inside", config{}, context.DeadlineExceeded, true},

		// 5 against 6: the mark Retryable.
		{"retryable unknown", config{}, core.Retryable(errBoom), true},
		{"retryable inside a wrap", config{}, fmt.Errorf("a: %w", core.Retryable(errBoom)), true},
		{"retryable inside a join", config{}, errors.Join(io.EOF, core.Retryable(errBoom)), true},

		// 4 against 5 and 6: RetryOn and RetryWhen.
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

		// 3 against 4, 5 and 6: Exclude and StopWhen.
		{"Exclude a transient one", config{Exclude: list(core.MatchIs(errFlaky))}, errFlaky, false},
		{"Exclude another", config{Exclude: list(core.MatchIs(errBoom))}, errFlaky, true},
		{"Exclude a marked one", config{Exclude: list(core.MatchIs(errBoom))}, core.Retryable(errBoom), false},
		{"Exclude what RetryOn picks", config{Exclude: list(core.MatchIs(errBoom)), RetryOn: every}, errBoom, false},
		{"Exclude where RetryWhen is true", config{Exclude: every, RetryWhen: yes}, errFlaky, false},
		{"StopWhen with a transient one", config{StopWhen: yes}, errFlaky, false},
		{"StopWhen with a marked one", config{StopWhen: yes}, core.Retryable(errBoom), false},
		{"StopWhen with what RetryOn picks", config{StopWhen: yes, RetryOn: every}, errFlaky, false},
		{"StopWhen with RetryWhen", config{StopWhen: yes, RetryWhen: yes}, errFlaky, false},
		{"StopWhen false leaves the word to the others", config{StopWhen: no}, errFlaky, true},
		{"StopWhen false is no yes", config{StopWhen: no}, errBoom, false},

		// 2 against all.
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
			_, ctx := run(t)
			out, err := call(ctx, tool(t, tt.cfg, fail(tt.err)))
			equal(t, "output", out, "")
			is(t, err, tt.err)
			if tt.want {
				equal(t, "attempts", failed(t, err, core.ReasonExhausted).Attempts, 2)
			} else {
				equal(t, "attempts", failed(t, err, core.ReasonPermanent).Attempts, 1)
			}
		})
	}
}

func TestWhatIsNeverRetriedIsNotJudged(t *testing.T) {
	asked := 0
	ask := func(core.Attempt) bool { asked++; return true }
	match := func(error) bool { asked++; return true }
	cfg := core.RetryConfig{RetryWhen: ask, StopWhen: ask, RetryOn: []core.Matcher{match}, Exclude: []core.Matcher{match}}
	_, ctx := run(t)
	for _, d := range []*definition{
		tool(t, cfg, fail(core.Permanent(errBoom))),
		tool(t, cfg, func(context.Context, string) (string, error) { panic("oops") }),
		tool(t, cfg, succeed).Require(func(context.Context, string) error { return errBoom }),
	} {
		if _, err := call(ctx, d); err == nil {
			t.Error("it did not fail")
		}
	}
	equal(t, "asked", asked, 0)
}

func TestExcludeIsAskedBeforeStopWhenAndThatBeforeTheOthers(t *testing.T) {
	var order []string
	matcher := func(name string, answer bool) []core.Matcher {
		return []core.Matcher{func(error) bool { order = append(order, name); return answer }}
	}
	when := func(name string, answer bool) func(core.Attempt) bool {
		return func(core.Attempt) bool { order = append(order, name); return answer }
	}
	_, ctx := run(t)
	_, err := call(ctx, tool(t, core.RetryConfig{
		InitialDelay: core.NoDelay, MaxAttempts: 2,
		Exclude: matcher("Exclude", false), StopWhen: when("StopWhen", false),
		RetryOn: matcher("RetryOn", true), RetryWhen: when("RetryWhen", true),
	}, attempts(fail(errBoom), fail(core.Permanent(errBoom)))))
	failed(t, err, core.ReasonPermanent)
	equal(t, "order", fmt.Sprint(order), "[Exclude StopWhen RetryOn RetryWhen]")
}

func TestConditionsSeeNumberErrorAndOutput(t *testing.T) {
	var seen []core.Attempt
	cfg := atOnce
	cfg.RetryWhen = func(a core.Attempt) bool { seen = append(seen, a); return a.Number < 3 }
	_, ctx := run(t)
	out, err := call(ctx, tool(t, cfg, attempts(fail(errBoom), func(context.Context, string) (string, error) { return "half", nil }, succeed)))
	completed(t, out, err)
	want := []core.Attempt{{Number: 1, Err: errBoom, Output: ""}, {Number: 2, Output: "half"}, {Number: 3, Output: "out"}}
	equal(t, "attempts", fmt.Sprint(seen), fmt.Sprint(want))
}

// An attempt that was abandoned or failed has no output, also where an
// earlier one, or the handler itself, had one.
func TestFailedAttemptHasNoOutput(t *testing.T) {
	cfg := atOnce
	cfg.RetryWhen = func(a core.Attempt) bool {
		if a.Err != nil {
			equal(t, "output of the failed attempt", a.Output, any(""))
		}
		return true
	}
	_, ctx := run(t)
	_, err := call(ctx, tool(t, cfg, func(context.Context, string) (string, error) { return "rest", errBoom }))
	failed(t, err, core.ReasonExhausted)
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
		{"Class", core.MatchClass(core.ClassConnection), errFlaky, true},
		{"one of Class", core.MatchClass(core.ClassEOF, core.ClassConnection), errFlaky, true},
		{"Class of another", core.MatchClass(core.ClassRateLimit), errFlaky, false},
		{"Class of none", core.MatchClass(), errFlaky, false},
		{"Any", core.MatchAny(), errBoom, true},
	} {
		equal(t, tt.name, tt.matcher(tt.err), tt.want)
	}
}

// The class that a matcher sees is the one in the record.
func TestMatchClassMatchesTheClassOfTheRecord(t *testing.T) {
	refuse := func(context.Context, string, string) error { return errBoom }
	for name, tt := range map[string]struct {
		cfg  core.RetryConfig
		want int
	}{
		"RetryOn condition": {core.RetryConfig{RetryOn: []core.Matcher{core.MatchClass(core.ClassCondition)}}, 3},
		"Exclude condition": {core.RetryConfig{Exclude: []core.Matcher{core.MatchClass(core.ClassCondition)}}, 1},
		"Exclude unknown":   {core.RetryConfig{Exclude: []core.Matcher{core.MatchClass(core.ClassUnknown)}}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.InitialDelay = core.NoDelay
			st, ctx := run(t)
			_, err := call(ctx, tool(t, tt.cfg, succeed).Ensure(refuse))
			is(t, err, core.ErrCondition, errBoom)
			last := calls(st)[len(calls(st))-1]
			equal(t, "class", last.Class, core.ClassCondition)
			equal(t, "attempts", last.TotalAttempts(), tt.want)
		})
	}
}

func TestUnlimitedAttemptsNeverEndByThemselves(t *testing.T) {
	cfg := core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: core.NoDelay}
	st, ctx := run(t)
	out, err := call(ctx, tool(t, cfg, failing(1000, errFlaky)))
	completed(t, out, err)
	last := calls(st)[len(calls(st))-1]
	equal(t, "attempts", last.TotalAttempts(), 1001)
	equal(t, "max attempts", last.MaxAttempts, core.Unlimited)
}

func TestFailureOfAChildIsJudgedByItsOwnError(t *testing.T) {
	for name, tt := range map[string]struct {
		child handler
		want  int
	}{
		"transient": {fail(errFlaky), 2},
		"unknown":   {fail(errBoom), 1},
		"permanent": {fail(core.Permanent(errFlaky)), 1},
		"panic":     {func(context.Context, string) (string, error) { panic("oops") }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, ctx := run(t)
				_, err := call(ctx, nested(t, twice, once, tt.child, call))
				var e *core.CallError
				if !errors.As(err, &e) {
					t.Fatal(err)
				}
				equal(t, "attempts of the parent", e.Attempts, tt.want)
			})
		})
	}
}
