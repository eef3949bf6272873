package state_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// page is an output with many parts that encoding and decoding lose or change.
type page struct {
	Title   string         `json:"title"`
	Links   []string       `json:"links,omitempty"`
	Any     map[string]any `json:"any"`
	At      *time.Time     `json:"at"`
	Session *page          `json:"-"`
	hidden  string
}

// shownPage holds all properties of a page that a program can observe.
type shownPage struct {
	title, hidden    string
	noLinks, session bool
	number           any
	at               time.Time
	zone             string
}

func (p *page) shown() shownPage {
	zone, _ := p.At.Zone()
	return shownPage{p.Title, p.hidden, p.Links == nil, p.Session != nil, p.Any["n"], p.At.UTC(), zone}
}

// For calls of every kind, a program sees the same output before and after a resume.
func TestLiveOutputIsThatOfTheResumedRun(t *testing.T) {
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.FixedZone("MESZ", 7200))
	made := func() *page {
		return &page{Title: "home", Links: []string{}, Any: map[string]any{"n": 3}, At: &at, Session: new(page), hidden: "secret"}
	}
	handled := made()
	tool := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool"}, func(context.Context, int) (*page, error) { return handled, nil })
	program := func(ctx context.Context) (all []*page) {
		add := func(out *page, err error) {
			require.NoError(t, err)
			all = append(all, out)
		}
		add(tool.Event().Execute(ctx, 1))
		add(core.Step(ctx, "step", func(context.Context) (*page, error) { return made(), nil }))
		branch := func(context.Context) (*page, error) { return made(), nil }
		both, err := actors.Parallel(ctx, actors.Group{Name: "g"}, branch, branch)
		require.NoError(t, err)
		for _, out := range both {
			add(out, nil)
		}
		add(actors.First(ctx, actors.Group{Name: "f"}, branch))
		return all
	}
	s := memstore.New()
	run := func() (shown []shownPage) {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		for _, out := range program(st.Context(t.Context())) {
			shown = append(shown, out.shown())
			assert.NotSame(t, handled, out, "the output is a decoded copy")
		}
		return shown
	}
	live := run()
	require.Len(t, live, 5)
	assert.Equal(t, shownPage{title: "home", noLinks: true, number: int64(3), at: at.UTC()}, live[0])
	assert.Equal(t, live, run())

	inMemory := state.New()
	defer inMemory.Close()
	out, err := tool.Event().Execute(inMemory.Context(t.Context()), 1)
	require.NoError(t, err)
	assert.Same(t, handled, out, "without a store, nothing is decoded")
}

func TestKeyIsComputedFromTheOriginalInput(t *testing.T) {
	for name, st := range map[string]func(t *testing.T) *state.ExecutionState{
		"stored": func(t *testing.T) *state.ExecutionState {
			st, err := state.Open(t.Context(), memstore.New(), "run-1")
			require.NoError(t, err)
			return st
		},
		"in memory": func(*testing.T) *state.ExecutionState { return state.New() },
	} {
		t.Run(name, func(t *testing.T) {
			var keys []string
			tool := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", Retry: &core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}},
				func(ctx context.Context, in []string) (int, error) {
					key, err := core.IdempotencyKey(ctx)
					require.NoError(t, err)
					keys = append(keys, key)
					in[0] = "changed by attempt " + key
					if core.ScopeOf(ctx).Attempt() < 2 {
						return 0, core.Retryable(errBoom)
					}
					return 1, nil
				})
			st := st(t)
			_, err := tool.Event().Execute(st.Context(t.Context()), []string{"100 EUR"})
			require.NoError(t, err)
			require.NoError(t, st.Close())
			require.Len(t, keys, 3)
			assert.Equal(t, keys[0], keys[1])
			assert.Equal(t, keys[0], keys[2])
		})
	}
}

// The idempotency key is computed from the input with which the call was made, even if the handler
// changes the input first. So a resumed run has the same key.
func TestKeyOfAChangedInputIsTheSameAfterACrash(t *testing.T) {
	s := new(tape)
	keys := make(map[string]int)
	tool := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay"}, func(ctx context.Context, in map[string]int) (int, error) {
		for len(in) < 3+len(keys) {
			in[string(rune('a'+len(in)))] = len(keys)
		}
		key, err := core.IdempotencyKey(ctx)
		keys[key]++
		return 1, err
	})
	for range 2 {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		_, err = tool.Event().Execute(st.Context(t.Context()), map[string]int{"cents": 100})
		require.NoError(t, err)
		require.NoError(t, st.Close())
		s = s.cut(2) // run, started
	}
	require.Len(t, keys, 1)
}
