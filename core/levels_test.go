package core_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// The levels of retry configuration, most specific first.
const (
	eventLevel = iota
	nameLevel
	actorLevel
	kindLevel
	globalLevel
	levels
)

var levelNames = [levels]string{"event", "actor by name", "actor", "kind", "global"}

// atLevels calls a failing actor of the given kind with the given configurations, and returns the
// records of the call.
func atLevels(t *testing.T, kind record.Kind, set [levels]*core.RetryConfig) []record.Record {
	t.Helper()
	var options []state.Option
	if cfg := set[globalLevel]; cfg != nil {
		options = append(options, state.WithRetry(*cfg))
	}
	if cfg := set[nameLevel]; cfg != nil {
		options = append(options, state.WithRetryForActor("actor", *cfg), state.WithRetryForActor("other", once))
	}
	if cfg := set[kindLevel]; cfg != nil {
		options = append(options, state.WithRetryFor(kind, *cfg))
	}
	st, ctx := testkit.Run(t, options...)
	e := testkit.Define(t, core.Spec{Kind: kind, Name: "actor", Retry: set[actorLevel]}, testkit.Fail(errFlaky)).Event()
	if cfg := set[eventLevel]; cfg != nil {
		e = e.WithRetry(*cfg)
	}
	_, err := e.Execute(ctx, "in")
	testkit.Failed(t, err, record.ReasonExhausted)
	return calls(t, st)
}

func TestMostSpecificLevelDecidesAlone(t *testing.T) {
	for _, kind := range []record.Kind{record.KindTool, record.KindLLM, record.KindAgent} {
		for mask := 1; mask < 1<<levels; mask++ {
			var set [levels]*core.RetryConfig
			winner, names := -1, []string(nil)
			for level := range levels {
				if mask&(1<<level) != 0 {
					// Each level has a different number of attempts and a different delay.
					set[level] = &core.RetryConfig{MaxAttempts: level + 2, InitialDelay: time.Duration(level+1) * time.Minute, MaxDelay: time.Hour, Jitter: core.NoJitter}
					names = append(names, levelNames[level])
					if winner < 0 {
						winner = level
					}
				}
			}
			t.Run(fmt.Sprint(kind, names), func(t *testing.T) {
				testkit.Bubble(t, func(t *testing.T) {
					records := atLevels(t, kind, set)
					last := records[len(records)-1]
					assert.Equal(t, winner+2, last.TotalAttempts(), "attempts")
					assert.Equal(t, winner+2, last.MaxAttempts, "max attempts")
					assert.Equal(t, time.Duration(winner+1)*time.Minute, records[1].Delay, "first delay")
				})
			})
		}
	}
}

func TestDisabledLevelEndsTheSearch(t *testing.T) {
	for level := range levels {
		t.Run(levelNames[level], func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				var set [levels]*core.RetryConfig
				set[level] = &once
				for below := level + 1; below < levels; below++ {
					set[below] = &core.RetryConfig{MaxAttempts: 5}
				}
				records := atLevels(t, record.KindTool, set)
				assert.Equal(t, 1, records[len(records)-1].TotalAttempts(), "attempts")
				assert.Equal(t, 1, records[0].MaxAttempts, "max attempts")
			})
		})
	}
}

func TestLevelAboveADisabledOneDecides(t *testing.T) {
	for level := range levels - 1 {
		testkit.Bubble(t, func(t *testing.T) {
			var set [levels]*core.RetryConfig
			set[level] = &core.RetryConfig{MaxAttempts: 2}
			for below := level + 1; below < levels; below++ {
				set[below] = &once
			}
			records := atLevels(t, record.KindTool, set)
			assert.Equal(t, 2, records[len(records)-1].TotalAttempts(), levelNames[level])
		})
	}
}

func TestEmptyConfigurationIsSetToo(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		records := atLevels(t, record.KindAgent, [levels]*core.RetryConfig{eventLevel: {}, globalLevel: &once})
		assert.Equal(t, 3, records[len(records)-1].TotalAttempts(), "attempts")
	})
}

func TestBuiltInLevelDependsOnTheKind(t *testing.T) {
	for kind, want := range map[record.Kind]int{record.KindTool: 3, record.KindLLM: 3, record.KindAgent: 1} {
		testkit.Bubble(t, func(t *testing.T) {
			records := atLevels(t, kind, [levels]*core.RetryConfig{})
			assert.Equal(t, want, records[len(records)-1].TotalAttempts(), kind.String())
		})
	}
}

func TestBuiltInDelaysAreExponentialFromOneSecondWithJitter(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		records := atLevels(t, record.KindTool, [levels]*core.RetryConfig{})
		var ds []time.Duration
		for _, r := range records {
			if r.Status == record.StatusRetrying {
				ds = append(ds, r.Delay)
			}
		}
		for i, d := range ds {
			center := time.Second << i
			if d < center*3/4 || d > center*5/4 {
				t.Errorf("delay %d is %v; want %v ± 25%%", i+1, d, center)
			}
		}
	})
}

func TestKindLevelIsForItsKindOnly(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t, state.WithRetryFor(record.KindLLM, core.RetryConfig{MaxAttempts: 7}))
		for _, kind := range []record.Kind{record.KindTool, record.KindLLM, record.KindAgent} {
			_, _ = testkit.Call(ctx, testkit.Define(t, core.Spec{Kind: kind, Name: "actor"}, testkit.Fail(errFlaky)))
		}
		var got []int
		for _, r := range calls(t, st) {
			if r.IsOutcome() {
				got = append(got, r.TotalAttempts())
			}
		}
		if !slices.Equal(got, []int{3, 7, 1}) {
			t.Errorf("attempts of tool, LLM and agent: %v", got)
		}
	})
}

func TestConfigurationIsCopiedWhereItIsGiven(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		cfg := core.RetryConfig{MaxAttempts: 2, RetryOn: []core.Matcher{core.MatchIs(errBoom)}}
		d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &cfg}, testkit.Fail(errBoom))
		cfg.MaxAttempts, cfg.RetryOn[0] = 9, core.MatchIs(errFlaky)
		st, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, d)
		assert.Equal(t, 2, testkit.Failed(t, err, record.ReasonExhausted).Attempts, "attempts")
		assert.Len(t, delays(t, st), 1, "delays")
		assert.Equal(t, 2, d.Spec().Retry.MaxAttempts, "spec")
	})
}
