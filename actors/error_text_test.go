package actors_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The text of an error does not repeat itself: neither in the first execution, nor after a resume,
// nor when every error has been encoded and decoded.
func TestErrorOfACallSaysNothingTwice(t *testing.T) {
	weather := testkit.Tool(t, "weather", core.RetryConfig{MaxAttempts: 1}, testkit.Fail(errBoom))
	flaky := testkit.Tool(t, "flaky", core.RetryConfig{InitialDelay: core.NoDelay}, testkit.Fail(core.Retryable(errBoom)))
	once := testkit.Tool(t, "once", core.RetryConfig{MaxAttempts: 1}, testkit.Fail(core.Retryable(errBoom)))
	calls := func(d *testkit.Definition) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) { return testkit.Call(ctx, d) }
	}
	group := func(g actors.Group, branches ...func(context.Context) (string, error)) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			_, err := actors.Parallel(ctx, g, branches...)
			return "", err
		}
	}
	sleeps := func(ctx context.Context) (string, error) { return "", testkit.Pause(ctx, time.Hour) }
	all := actors.Group{Name: "g", CollectAll: true}
	for name, program := range map[string]struct {
		handler func(context.Context) (string, error)
		want    string
	}{
		"a call": {calls(weather), "a/weather: permanent: boom"},
		"a step": {func(ctx context.Context) (string, error) {
			return core.Step(ctx, "look", func(context.Context) (string, error) { return "", errBoom })
		}, "a/step:look: permanent: boom"},
		"a call, wrapped": {func(ctx context.Context) (string, error) {
			_, err := testkit.Call(ctx, flaky)
			return "", fmt.Errorf("collect: %w", err)
		}, "a: collect: a/flaky: exhausted after 3 attempts: boom"},
		"a call, and another reason": {func(ctx context.Context) (string, error) {
			_, err := testkit.Call(ctx, flaky)
			return "", core.Permanent(err)
		}, "a: permanent: a/flaky: exhausted after 3 attempts: boom"},
		"a call that is allowed one attempt":           {calls(once), "a/once: boom"},
		"text that begins with the word of the reason": {failWith("permanently closed"), "a: permanent: permanently closed"},
		"a group": {group(actors.Group{Name: "g"}, calls(weather)), "a/group:g: 1 of 1 branches failed; a/group:g/1/weather: permanent: boom"},
		"a group of all": {
			group(all, calls(weather), failWith("no"), calls(flaky)),
			"a/group:g: 3 of 3 branches failed; a/group:g/1/weather: permanent: boom; a/group:g/2: permanent: no; " +
				"a/group:g/3/flaky: exhausted after 3 attempts: boom",
		},
		"a group in a group": {
			group(all, group(actors.Group{Name: "h"}, calls(weather))),
			"a/group:g: 1 of 1 branches failed; a/group:g/1/group:h: 1 of 1 branches failed; a/group:g/1/group:h/1/weather: permanent: boom",
		},
		"a group whose time is over": {
			group(actors.Group{Name: "g", Timeout: time.Second, CollectAll: true}, sleeps, calls(weather)),
			"a: permanent: a/group:g: group timeout, 1 of 2 branches not ended; 1 of 2 branches failed; a/group:g/2/weather: permanent: boom",
		},
		"a group of one whose time is over": {
			group(actors.Group{Name: "g", Timeout: time.Second}, sleeps),
			"a: permanent: a/group:g: group timeout, 1 of 1 branches not ended",
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			agent := testkit.Agent(t, "a", core.RetryConfig{MaxAttempts: 1}, func(ctx context.Context, _ string) (string, error) { return program.handler(ctx) })
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				for _, when := range []string{"live", "resumed"} {
					st, err := state.Open(t.Context(), store, "run")
					require.NoError(t, err)
					_, err = testkit.Call(st.Context(t.Context()), agent)
					require.NoError(t, st.Close())
					want := program.want
					if when == "resumed" {
						want += " (the recorded failure: nothing ran again); to make the failed calls again: reprise --dir DIR retry run (state.Retry, state.WithRerunFailed)"
					}
					require.EqualError(t, err, want, when)
				}
				_, ctx := testkit.Run(t, state.WithRoundTrip())
				_, err := testkit.Call(ctx, agent)
				assert.EqualError(t, err, program.want, "through its recorded form")
			})
		})
	}
}

// failWith returns a function that fails with the given text.
func failWith(text string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return "", fmt.Errorf("%s", text) }
}
