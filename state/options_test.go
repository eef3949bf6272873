package state_test

import (
	"context"
	"strings"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestInvalidOptionsAreRefusedAndSayWhatIsAllowed(t *testing.T) {
	long := strings.Repeat("x", 129)
	for name, tt := range map[string]struct {
		option func() state.Option
		want   []string
	}{
		"nil option":                 {func() state.Option { return nil }, []string{"option is nil"}},
		"empty run ID":               {func() state.Option { return state.WithRunID("") }, []string{"run ID is empty", "want 1 to 128"}},
		"long run ID":                {func() state.Option { return state.WithRunID(long) }, []string{"129", "1 to 128"}},
		"slash":                      {func() state.Option { return state.WithRunID("a/b") }, []string{`"a/b"`, "want 1 to 128"}},
		"backslash":                  {func() state.Option { return state.WithRunID(`a\b`) }, []string{"want 1 to 128"}},
		"hidden":                     {func() state.Option { return state.WithRunID(".a") }, []string{`".a"`, "not beginning with a dot"}},
		"up":                         {func() state.Option { return state.WithRunID("..") }, []string{"not beginning with a dot"}},
		"space":                      {func() state.Option { return state.WithRunID("a b") }, []string{"want 1 to 128"}},
		"letter with dots":           {func() state.Option { return state.WithRunID("Ärger") }, []string{"want 1 to 128"}},
		"zero byte":                  {func() state.Option { return state.WithRunID("a\x00") }, []string{"want 1 to 128"}},
		"nil publisher":              {func() state.Option { return state.WithPublisher(nil) }, []string{"WithPublisher"}},
		"typed-nil publisher":        {func() state.Option { return state.WithPublisher((*listener)(nil)) }, []string{"WithPublisher got a *state_test.listener that is nil"}},
		"nil function to publish to": {func() state.Option { return state.WithPublisher(testkit.Publisher(nil)) }, []string{"WithPublisher got a testkit.Publisher that is nil"}},
		"typed-nil artifacts":        {func() state.Option { return state.WithArtifacts((*memstore.Artifacts)(nil)) }, []string{"WithArtifacts got a *memstore.Artifacts that is nil"}},
		"nil artifacts":              {func() state.Option { return state.WithArtifacts(nil) }, []string{"WithArtifacts"}},
		"nil checker":                {func() state.Option { return state.WithInterruptChecker(nil) }, []string{"WithInterruptChecker"}},
		"retry":                      {func() state.Option { return state.WithRetry(core.RetryConfig{MaxAttempts: -2}) }, []string{"MaxAttempts", "-2"}},
		"retry of a kind":            {func() state.Option { return state.WithRetryFor(record.KindTool, core.RetryConfig{MaxDelay: -2}) }, []string{"MaxDelay", "-2ns"}},
		"retry of no call":           {func() state.Option { return state.WithRetryFor(record.KindLog, core.RetryConfig{}) }, []string{"log", "KindTool, KindLLM or KindAgent"}},
		"retry of steps":             {func() state.Option { return state.WithRetryFor(record.KindStep, core.RetryConfig{}) }, []string{"step", "KindTool, KindLLM or KindAgent"}},
		"retry of groups":            {func() state.Option { return state.WithRetryFor(record.KindGroup, core.RetryConfig{}) }, []string{"state: WithRetryFor", "group", "KindTool, KindLLM or KindAgent"}},
		"retry of branches":          {func() state.Option { return state.WithRetryFor(record.KindBranch, core.RetryConfig{}) }, []string{"branch", "KindTool, KindLLM or KindAgent"}},
		"retry of compensations":     {func() state.Option { return state.WithRetryFor(record.KindCompensation, core.RetryConfig{}) }, []string{"compensation", "KindTool, KindLLM or KindAgent"}},
		"name of no actor":           {func() state.Option { return state.WithRetryForActor("", core.RetryConfig{}) }, []string{"state: WithRetryForActor: "}},
		"divergence":                 {func() state.Option { return state.WithDivergence(3) }, []string{"WithDivergence(3): want DivergenceFail, "}},
		"sync":                       {func() state.Option { return state.WithSync(3) }, []string{"WithSync(3): want SyncOutcomes, "}},
		"parking":                    {func() state.Option { return state.WithParking(0) }, []string{"WithParking(0s): want a positive duration"}},
		"losses":                     {func() state.Option { return state.WithMaxLosses(0) }, []string{"WithMaxLosses(0): want 1 or more"}},
		"nil actor":                  {func() state.Option { return state.WithCompensations(nil) }, []string{"WithCompensations: actor 1 has no compensation"}},
		"nil opening":                {func() state.Option { return state.WithOpening(nil) }, []string{"WithOpening got a func"}},
		"retry of no kind":           {func() state.Option { return state.WithRetryFor(200, core.RetryConfig{}) }, []string{"want KindTool, KindLLM or KindAgent"}},
	} {
		t.Run(name, func(t *testing.T) {
			check := func(function string, err error) {
				require.Error(t, err, function)
				for _, want := range tt.want {
					assert.ErrorContains(t, err, want, function)
				}
			}
			s := memstore.New()
			st, err := state.Open(t.Context(), s, runID)
			require.NoError(t, err)
			require.NoError(t, st.Close())
			_, err = state.Open(t.Context(), s, runID, tt.option())
			check("Open", err)
			_, err = state.Replay(t.Context(), s, runID, tt.option())
			check("Replay", err)
			_, err = state.Validate(t.Context(), s, runID, func(context.Context) error { return nil }, tt.option())
			check("Validate", err)
			defer func() {
				err, ok := recover().(error)
				require.True(t, ok, "New panics with an error")
				check("New", err)
			}()
			state.New(tt.option())
		})
	}
}

func TestAllInvalidOptionsAreNamed(t *testing.T) {
	_, err := state.Open(t.Context(), memstore.New(), runID, state.WithParking(-1), state.WithMaxLosses(-7), state.WithRunID("other"))
	for _, want := range []string{"WithParking(-1ns)", "WithMaxLosses(-7)", "WithRunID has no effect in Open"} {
		require.ErrorContains(t, err, want)
	}
}

func TestRunIDsThatAreAllowed(t *testing.T) {
	for _, id := range []string{"a", "A-1_b.c", "weather-42", "0", "_", strings.Repeat("x", 128)} {
		st, _ := testkit.Run(t, state.WithRunID(id))
		assert.Equal(t, id, st.RunID(), "id")
	}
	st, _ := testkit.Run(t)
	if err := snapshot.CheckRunID(st.RunID()); err != nil {
		t.Errorf("the random ID is not allowed: %v", err)
	}
}

func TestDescriptionIsInTheFirstRecord(t *testing.T) {
	st, _ := testkit.Run(t, state.WithMetadata(snapshot.Metadata{Description: "weather of Oslo", Pipeline: "nightly"}))
	first := testkit.Records(t, st)[0]
	assert.Equal(t, record.KindRun, first.Kind, "kind")
	assert.Equal(t, record.StatusStarted, first.Status, "status")
	assert.Equal(t, "nightly", first.Name, "name")
	assert.Equal(t, "weather of Oslo", first.Detail.Message, "message")
}

func TestNothingIsEncodedUnlessSomebodyNeedsIt(t *testing.T) {
	st, ctx := testkit.Run(t)
	d, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(_ context.Context, in func()) (any, error) { return in, nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Event().Execute(ctx, func() {}); err != nil {
		t.Error(err)
	}
	for _, r := range kinds(t, st, record.KindTool) {
		if r.Detail != nil {
			t.Errorf("%v has a detail: %+v", r.Status, r.Detail)
		}
	}
}

type listener struct{}

func (*listener) Publish(record.Record) {}

func TestTheStoreMustNotBeNil(t *testing.T) {
	ctx := t.Context()
	for name, use := range map[string]func(snapshot.Store) error{
		"Answer":       func(s snapshot.Store) error { return state.Answer(ctx, s, runID, "q", "", true) },
		"AwaitAnswers": func(s snapshot.Store) error { return state.AwaitAnswers(ctx, s, runID) },
		"AwaitsSignal": func(s snapshot.Store) error { _, err := state.AwaitsSignal(ctx, s, runID, nil); return err },
		"AwaitStop":    func(s snapshot.Store) error { _, err := state.AwaitStop(ctx, s, runID); return err },
		"Cancel":       func(s snapshot.Store) error { return state.Cancel(ctx, s, runID, snapshot.Stop{}) },
		"EffectsAfter": func(s snapshot.Store) error {
			_, err := state.EffectsAfter(ctx, s, runID, record.Address{}, state.ForkOptions{})
			return err
		},
		"Fork": func(s snapshot.Store) error {
			return state.Fork(ctx, s, runID, record.Address{}, "b", state.ForkOptions{})
		},
		"Input":         func(s snapshot.Store) error { _, err := state.Input[int](ctx, s, runID); return err },
		"Interrupt":     func(s snapshot.Store) error { return state.Interrupt(ctx, s, runID, snapshot.Stop{}) },
		"Questions":     func(s snapshot.Store) error { _, err := state.Questions(ctx, s, runID); return err },
		"Result":        func(s snapshot.Store) error { _, err := state.Result[int](ctx, s, runID); return err },
		"Resume":        func(s snapshot.Store) error { _, err := state.Resume(ctx, s, runID); return err },
		"Retry":         func(s snapshot.Store) error { _, err := state.Retry(ctx, s, runID); return err },
		"Signal":        func(s snapshot.Store) error { return state.Signal(ctx, s, runID, "paid", 1, state.SignalOptions{}) },
		"Uncompensated": func(s snapshot.Store) error { _, err := state.Uncompensated(ctx, s, runID); return err },
		"Values":        func(s snapshot.Store) error { _, err := state.Values(ctx, s, runID); return err },
	} {
		require.ErrorContains(t, use(nil), "the store is nil", name)
	}
}

func TestRunsAreOpenedWithAStoreAndAnID(t *testing.T) {
	for _, open := range []func(snapshot.Store, string) error{
		func(s snapshot.Store, id string) error { _, err := state.Open(t.Context(), s, id); return err },
		func(s snapshot.Store, id string) error { _, err := state.Replay(t.Context(), s, id); return err },
		func(s snapshot.Store, id string) error {
			_, err := state.Validate(t.Context(), s, id, func(context.Context) error { return nil })
			return err
		},
	} {
		require.ErrorContains(t, open(nil, runID), "the store is nil")
		require.ErrorContains(t, open(memstore.New(), "../run"), "../run")
	}
}
