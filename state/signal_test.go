package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// receiving returns a tool that receives n signals, one after another.
func receiving(t testing.TB, n int) *testkit.Definition {
	return testkit.Tool(t, "receive", once, func(ctx context.Context, _ string) (string, error) {
		var got []string
		for range n {
			value, err := core.Receive[string](ctx, "news")
			if err != nil {
				return "", err
			}
			got = append(got, value)
		}
		return strings.Join(got, " "), nil
	})
}

// receive opens the run, makes its call and closes it.
func receive(t testing.TB, s snapshot.Store, n int) (string, error) {
	t.Helper()
	st := openRun(t, s)
	out, err := testkit.Call(st.Context(t.Context()), receiving(t, n))
	require.NoError(t, st.Close())
	return out, err
}

func send(t testing.TB, s snapshot.Store, value any, o state.SignalOptions) {
	t.Helper()
	require.NoError(t, state.Signal(t.Context(), s, askedRun, "news", value, o))
}

func TestSignalsAreReceivedOnceAndInOrder(t *testing.T) {
	s := memstore.New()
	_, err := receive(t, s, 3)
	require.ErrorIs(t, err, core.ErrAwaiting)
	send(t, s, "a", state.SignalOptions{ID: "1", By: "ann"})
	send(t, s, "b", state.SignalOptions{ID: "2"})
	send(t, s, "again", state.SignalOptions{ID: "1"})
	require.NoError(t, state.Signal(t.Context(), s, askedRun, "other", "x", state.SignalOptions{}))
	_, err = receive(t, s, 3)
	require.ErrorIs(t, err, core.ErrAwaiting)
	send(t, s, "again", state.SignalOptions{ID: "2"}) // a signal with this ID was already received
	_, err = receive(t, s, 3)
	require.ErrorIs(t, err, core.ErrAwaiting)
	send(t, s, "c", state.SignalOptions{})
	out, err := receive(t, s, 3)
	require.NoError(t, err)
	assert.Equal(t, "a b c", out)
	out, err = receive(t, s, 3) // recalled
	require.NoError(t, err)
	assert.Equal(t, "a b c", out)
	messages, err := s.Messages(t.Context(), askedRun)
	require.NoError(t, err)
	require.Len(t, messages, 1, "a signal that no call has received stays in the inbox")
	assert.Equal(t, "other", messages[0].Record.Name)
}

func TestRunThatWaitsForASignalAsksNobody(t *testing.T) {
	s := memstore.New()
	_, err := receive(t, s, 1)
	require.ErrorIs(t, err, core.ErrAwaiting)
	open, err := state.Questions(t.Context(), s, askedRun)
	require.NoError(t, err)
	assert.Empty(t, open)
	require.ErrorIs(t, state.Answer(t.Context(), s, askedRun, "receive?1", "", "x"), state.ErrNotAsked)
	require.NoError(t, state.Signal(t.Context(), s, askedRun, "other", "x", state.SignalOptions{}))
	messages, err := s.Messages(t.Context(), askedRun)
	require.NoError(t, err)
	awaited, err := state.AwaitsSignal(t.Context(), s, askedRun, messages)
	require.NoError(t, err)
	assert.False(t, awaited)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, state.AwaitAnswers(ctx, s, askedRun), context.Canceled, "it waits")
	send(t, s, "x", state.SignalOptions{})
	require.NoError(t, state.AwaitAnswers(t.Context(), s, askedRun))
}

func TestInvalidSignalIsRefused(t *testing.T) {
	s := memstore.New()
	_, err := receive(t, s, 1)
	require.ErrorIs(t, err, core.ErrAwaiting)
	for _, c := range []struct {
		name  string
		value any
		id    string
	}{
		{"", 1, ""},
		{"a b", 1, ""},
		{strings.Repeat("n", 65), 1, ""},
		{"news", func() {}, ""},
		{"news", strings.Repeat("x", 2<<20), ""},
		{"news", 1, strings.Repeat("i", 257)},
	} {
		err := state.Signal(t.Context(), s, askedRun, c.name, c.value, state.SignalOptions{ID: c.id})
		require.ErrorIs(t, err, state.ErrSignal, c.name)
		assert.Less(t, len(err.Error()), 400)
	}
	require.ErrorIs(t, state.Signal(t.Context(), s, "none", "news", 1, state.SignalOptions{}), snapshot.ErrNotFound)
	for i := range 1000 {
		require.NoError(t, s.Post(t.Context(), askedRun, snapshot.Message{Record: record.Record{
			Time: time.Now().UTC(), Name: "flood", Kind: record.KindAnswer, Status: record.StatusRecorded,
			Detail: &record.Detail{Output: testkit.Encoded(t, i), Signal: fmt.Sprint("flood-", i)},
		}}))
	}
	require.ErrorIs(t, state.Signal(t.Context(), s, askedRun, "flood", 1, state.SignalOptions{}), state.ErrTooManySignals)

	ended := memstore.New()
	_, err = receive(t, ended, 0)
	require.NoError(t, err)
	require.ErrorIs(t, state.Signal(t.Context(), ended, askedRun, "news", 1, state.SignalOptions{}), state.ErrEnded)
	require.NoError(t, state.Cancel(t.Context(), s, askedRun, snapshot.Stop{}))
	require.ErrorIs(t, state.Signal(t.Context(), s, askedRun, "news", 1, state.SignalOptions{}), state.ErrCancelled)
}

func TestSignalThatDoesNotFitIsAnError(t *testing.T) {
	s := memstore.New()
	_, err := receive(t, s, 2)
	require.ErrorIs(t, err, core.ErrAwaiting)
	send(t, s, 7, state.SignalOptions{})
	for range 2 { // the second time, the call is recalled
		_, err = receive(t, s, 2)
		require.ErrorIs(t, err, core.ErrUnfit)
	}
	_, err = core.Receive[string](t.Context(), "news")
	require.ErrorIs(t, err, core.ErrNoRun)
	bad := testkit.Tool(t, "bad", once, func(ctx context.Context, _ string) (string, error) { return core.Receive[string](ctx, "a b") })
	st := openRun(t, memstore.New())
	_, err = testkit.Call(st.Context(t.Context()), bad)
	require.ErrorContains(t, err, `the name is "a b"; want 1 to 64 letters`)
	require.NoError(t, st.Close())
}

// A call that is tried again receives the signal that its previous attempt received.
func TestAttemptReceivesTheSignalOfThePreviousAttempt(t *testing.T) {
	s := memstore.New()
	tries := 0
	tool := testkit.Tool(t, "receive", core.RetryConfig{MaxAttempts: 3, InitialDelay: 1}, func(ctx context.Context, _ string) (string, error) {
		value, err := core.Receive[string](ctx, "news")
		if tries++; err == nil && tries < 3 {
			return "", errFlaky
		}
		return value, err
	})
	call := func() (string, error) {
		st := openRun(t, s)
		out, err := testkit.Call(st.Context(t.Context()), tool)
		require.NoError(t, st.Close())
		return out, err
	}
	_, err := call()
	require.ErrorIs(t, err, core.ErrAwaiting)
	send(t, s, "a", state.SignalOptions{})
	send(t, s, "b", state.SignalOptions{})
	out, err := call()
	require.NoError(t, err)
	assert.Equal(t, "a", out)
}

// TestSignalsSurviveCrashes kills a run between any two records while signals are being sent. The
// next process finds the signals that were waiting or not yet removed. Each signal is received
// once. If one call receives them, they arrive in order. If two branches wait for the same name,
// each signal is received by only one of them.
func TestSignalsSurviveCrashes(t *testing.T) {
	for seed := range testkit.Seeds(60) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { signalsInARandomWorld(t, seed) })
	}
}

func signalsInARandomWorld(t *testing.T, seed uint64) {
	const each = 6
	world := rand.New(rand.NewPCG(seed, 3)) //nolint:gosec // a test
	shared := func(ctx context.Context) (string, error) {
		return testkit.Call(ctx, testkit.Tool(t, "branch", once, func(ctx context.Context, _ string) (string, error) {
			return core.Receive[string](ctx, "shared")
		}))
	}
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		var got []string
		for range each / 2 {
			both, err := group(ctx, "group", shared, shared)
			if err != nil {
				return "", err
			}
			for range 2 {
				value, err := core.Receive[string](ctx, "news")
				if err != nil {
					return "", err
				}
				got = append(got, value)
			}
			got = append(got, both...)
		}
		return strings.Join(got, " "), nil
	})
	var store snapshot.Store = memstore.New()
	sent := map[string]int{}
	sendOne := func(s snapshot.Store) {
		name := []string{"news", "shared"}[world.IntN(2)]
		if sent[name] == each {
			return
		}
		value := fmt.Sprint(name, sent[name])
		// A sender that was interrupted sends the signal again with the same ID.
		require.NoError(t, state.Signal(t.Context(), s, askedRun, name, value, state.SignalOptions{ID: value}))
		if sent[name]++; world.IntN(3) == 0 {
			require.NoError(t, state.Signal(t.Context(), s, askedRun, name, value, state.SignalOptions{ID: value}))
		}
	}
	for round := 0; ; round++ {
		require.Less(t, round, 200)
		var mu sync.Mutex
		var crashed *memstore.Store
		n, left := 0, 1+world.IntN(30)
		st, err := state.Open(t.Context(), store, askedRun, state.WithSeed(seed), state.WithPublisher(testkit.Publisher(func(record.Record) {
			mu.Lock()
			defer mu.Unlock()
			if n++; n == left {
				crashed = afterCrash(t, store)
			}
		})))
		require.NoError(t, err)
		if round > 0 {
			sendOne(store)
		}
		out, err := testkit.Call(st.Context(t.Context()), agent)
		require.NoError(t, st.Close())
		if err == nil && world.IntN(2) == 0 { // otherwise, the process was killed before reporting the result
			checkSignals(t, strings.Fields(out), each)
			return
		}
		require.True(t, err == nil || errors.Is(err, core.ErrAwaiting), err)
		mu.Lock()
		if crashed != nil && world.IntN(2) == 0 {
			// The signals that were sent after the crash are sent again.
			store = crashed
			for name, k := range sent {
				for i := range k {
					value := fmt.Sprint(name, i)
					require.NoError(t, state.Signal(t.Context(), store, askedRun, name, value, state.SignalOptions{ID: value}))
				}
			}
		}
		mu.Unlock()
		if info, err := store.Info(t.Context(), askedRun); err == nil && info.Status == snapshot.StatusCompleted {
			continue
		}
		sendOne(store)
	}
}

func checkSignals(t *testing.T, got []string, each int) {
	t.Helper()
	var news, shared, wantNews, wantShared []string
	for _, value := range got {
		if strings.HasPrefix(value, "news") {
			news = append(news, value)
		} else {
			shared = append(shared, value)
		}
	}
	for i := range each {
		wantNews, wantShared = append(wantNews, fmt.Sprint("news", i)), append(wantShared, fmt.Sprint("shared", i))
	}
	assert.Equal(t, wantNews, news)
	assert.ElementsMatch(t, wantShared, shared)
}

func TestShownValuesAreReadFromOutside(t *testing.T) {
	s := memstore.New()
	st := openRun(t, s)
	put := func(name string, fails bool, opts ...state.PutOption) {
		_, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, name, once, func(ctx context.Context, _ string) (string, error) {
			if err := state.Put(ctx, "progress", map[string]any{"by": name}, opts...); err != nil || fails {
				return "", errors.Join(err, errBoom)
			}
			return "", state.Put(ctx, "secret", 7)
		}))
		require.Equal(t, fails, err != nil)
	}
	values := func() string {
		shown, err := state.Values(t.Context(), s, askedRun)
		require.NoError(t, err)
		require.LessOrEqual(t, len(shown), 1)
		return string(shown["progress"])
	}
	put("first", false, state.PutShown())
	assert.Equal(t, `{"by":"first"}`, values())
	put("failing", true, state.PutShown())
	put("second", false, state.PutShown())
	assert.Equal(t, `{"by":"second"}`, values())
	put("third", false)
	require.NoError(t, st.Close())
	assert.Empty(t, values(), "the value is hidden")
	_, err := state.Values(t.Context(), s, "none")
	require.ErrorIs(t, err, snapshot.ErrNotFound)
}
