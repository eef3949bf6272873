package state_test

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// shopper is a random program of retried agents that make payments in a loop, in branches and in
// inner agents. Each attempt's payments are random, but depend only on the scope, so a resumed
// program makes the same payments.
type shopper struct {
	seed     uint64
	declares bool
	inDoubt  core.InDoubtPolicy
}

func (s *shopper) rng(scope string) *rand.Rand {
	h := fnv.New64a()
	_, _ = h.Write([]byte(scope))
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

func (s *shopper) pay(t testing.TB) *core.Definition[string, string] {
	spec := core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: true, InDoubt: s.inDoubt}
	if s.rng("timeout").IntN(2) == 0 {
		spec.AttemptTimeout = time.Minute / 2 // otherwise, only its agents have timeouts
	}
	d := testkit.Define(t, spec, func(ctx context.Context, amount string) (string, error) {
		switch s.rng(core.ScopeOf(ctx).Path()).IntN(16) {
		case 0:
			<-time.After(time.Hour) // longer than the timeouts
		case 1:
			return "", core.Permanent(errors.New("no money"))
		case 2:
			return "", core.Retryable(errBankBusy)
		case 3:
			return "", io.ErrUnexpectedEOF
		case 4:
			panic("a bug")
		case 5:
			<-ctx.Done() // the output arrives just after the timeout
		case 6:
			_, _ = testkit.Call(ctx, testkit.Tool(t, "log", once, testkit.Listening(time.Hour)))
		case 7:
			return "no signature", nil
		}
		return "paid " + amount, nil
	}).Ensure(func(_ context.Context, _, receipt string) error {
		if receipt == "no signature" {
			return errors.New(receipt)
		}
		return nil
	})
	if s.declares {
		d = d.Identify(func(amount string) any { return amount })
	}
	return d
}

func (s *shopper) agent(t testing.TB, name string, depth int) *testkit.Definition {
	retry := core.RetryConfig{MaxAttempts: 3, InitialDelay: time.Second, AttemptTimeout: time.Minute}
	return testkit.Agent(t, name, retry, func(ctx context.Context, _ string) (string, error) {
		rng := s.rng(core.ScopeOf(ctx).Path())
		var out []string
		one := func(ctx context.Context) (string, error) {
			return s.pay(t).Event().Execute(ctx, fmt.Sprint(1+rng.IntN(2)))
		}
		for range rng.IntN(4) {
			var receipt string
			var err error
			switch kind := rng.IntN(6); {
			case kind == 0 && depth > 0:
				receipt, err = testkit.Call(ctx, s.agent(t, fmt.Sprint("agent", rng.IntN(2)), depth-1))
			case kind == 1:
				_, err = actors.Parallel(ctx, actors.Group{Name: "g", Workers: 1}, one, one)
			default:
				receipt, err = one(ctx)
			}
			if err != nil {
				return "", err
			}
			out = append(out, receipt)
		}
		if rng.IntN(2) == 0 {
			return "", core.Retryable(errors.New("a confirmation is missing"))
		}
		return strings.Join(out, ", "), nil
	})
}

// open runs the program once and answers its questions. Sometimes it then removes the last records,
// as if the process had ended earlier. It returns the store and whether the run has ended.
func (s *shopper) open(t *testing.T, rng *rand.Rand, store *memstore.Store, runID string) (*memstore.Store, bool) {
	t.Helper()
	st, err := state.Open(t.Context(), store, runID)
	require.NoError(t, err)
	_, _ = testkit.Call(st.Context(t.Context()), s.agent(t, "shop", 2))
	require.NoError(t, st.Close())
	found := testkit.LoadRun(t, store, runID)
	begun := slices.IndexFunc(found.Records, func(r record.Record) bool { return r.Generation == found.Generation })
	if n := begun + 1 + rng.IntN(len(found.Records)-max(begun, 0)); rng.IntN(2) == 0 && begun >= 0 && n < len(found.Records) && !found.Records[n-1].WillRetry {
		killed := *found
		killed.Status, killed.Records, killed.LastSeq = snapshot.StatusRunning, found.Records[:n], uint64(n)
		run, err := killed.Run()
		require.NoError(t, err)
		store = memstore.New()
		_, err = store.Create(t.Context(), run)
		require.NoError(t, err)
		return store, false
	}
	open, err := state.Questions(t.Context(), store, runID)
	require.NoError(t, err)
	for _, q := range open {
		answers := []state.InDoubtAnswer{state.InDoubtRunAgain(), state.InDoubtFailed("no"), state.InDoubtCompleted("as answered")}
		if q.InDoubt.Effect.CanBeTakenOver() {
			answers = append(answers, takeOver, takeOver)
		}
		require.NoError(t, state.Answer(t.Context(), store, runID, q.ID, "", answers[rng.IntN(len(answers))]))
	}
	return store, st.Status() == snapshot.StatusCompleted || st.Status() == snapshot.StatusFailed
}

// errBankBusy is the error of a payment that was certainly not made.
var errBankBusy = errors.New("the bank is busy")

// madeBefore is an effect that the test finds in the records before a given record.
type madeBefore struct {
	run       string
	address   record.Address
	input     record.Hash
	completed bool
}

// effectsBefore returns the effects that are left before record i, according to their definition:
// the effects of calls that completed, or that began and did not end, unless a later call has taken
// them over.
func effectsBefore(records []record.Record, i int) (left []madeBefore) {
	taken := make(map[string]bool)
	last := make(map[record.Address]*record.Record)
	input := make(map[record.Address]record.Hash)
	var order []record.Address
	for n := range records[:i] {
		r := &records[n]
		if r.Detail != nil && r.Detail.Fork != nil {
			for _, e := range r.Detail.Fork.Effects {
				left = append(left, madeBefore{e.RunID, e.Address, e.Input, !e.InDoubt})
			}
		}
		if r.Name != "pay" || !r.Kind.IsCall() {
			continue
		}
		if r.IsSuspension() && r.Stage != record.StageHandler {
			continue // the record says nothing new about the call
		}
		if last[r.Address] == nil {
			order = append(order, r.Address)
		}
		last[r.Address] = r
		if r.Detail != nil && !r.Detail.InputHash.IsZero() {
			input[r.Address] = r.Detail.InputHash
		}
		if r.Detail != nil && r.Detail.Effect != nil {
			taken[r.Detail.Effect.RunID+" "+r.Detail.Effect.Address.String()] = true
		}
	}
	for _, a := range order {
		switch r := last[a]; {
		case r.Status == record.StatusCompleted:
			left = append(left, madeBefore{"", a, input[a], true})
		case r.Status == record.StatusStarted, r.Stage == record.StageHandler && r.IsSuspension(), r.Reason == record.ReasonInDoubt && r.Stage != record.StageEntry:
			left = append(left, madeBefore{"", a, input[a], false})
		}
	}
	return slices.DeleteFunc(left, func(e madeBefore) bool { return taken[e.run+" "+e.address.String()] })
}

// isOfEarlierAttempt reports whether the effect at address e was made in an earlier attempt of a
// call around the one at a.
func isOfEarlierAttempt(e, a string) bool {
	es, as := strings.Split(e, "/"), strings.Split(a, "/")
	for i := range min(len(es), len(as)) {
		if es[i] == as[i] {
			continue
		}
		ecall, eattempt, _ := strings.Cut(es[i], "@")
		acall, aattempt, _ := strings.Cut(as[i], "@")
		return ecall == acall && i < len(es)-1 && i < len(as)-1 && eattempt < aattempt // "" is the first
	}
	return false
}

// requireNoAttemptTwice checks that a payment is made again only if its previous attempt is certain
// to have failed, or if someone decided so.
func requireNoAttemptTwice(t *testing.T, records []record.Record) {
	t.Helper()
	inDoubt := make(map[string]bool)
	for i := range records {
		r := &records[i]
		if r.Kind == record.KindAnswer {
			call, _, _ := strings.Cut(r.Name, "?")
			delete(inDoubt, call)
		}
		if r.Name != "pay" || !r.Kind.IsCall() {
			continue
		}
		at := r.Address.String()
		switch {
		case r.Status == record.StatusStarted:
			require.False(t, inDoubt[at], "record %d: %s was made again without a question", r.Seq, at)
			inDoubt[at] = true
		case r.WillRetry:
			require.EqualError(t, r.Err, errBankBusy.Error(), "record %d: %s", r.Seq, at)
			delete(inDoubt, at)
		}
	}
}

// requireNoEffectTwice checks the records of a run against the table in the documentation of
// actors.WithIrreversible: a call was made only if there was no effect that it might repeat, or if
// someone decided so, and a call took over an effect only if it might repeat that effect.
func requireNoEffectTwice(t *testing.T, records []record.Record, declares bool) {
	t.Helper()
	kept := slices.IndexFunc(records, func(r record.Record) bool { return r.Detail != nil && r.Detail.Fork != nil }) // the records before this one are the parent's
	seen, decided := make(map[record.Address]bool), make(map[string]bool)
	for i := range records {
		r := &records[i]
		if r.Kind == record.KindAnswer {
			call, _, _ := strings.Cut(r.Name, "?")
			decided[call] = true
		}
		if r.Name != "pay" || !r.Kind.IsCall() || seen[r.Address] {
			continue
		}
		if r.IsSuspension() {
			continue // it has not begun
		}
		if seen[r.Address] = true; i < kept {
			continue
		}
		at := r.Address.String()
		var found []madeBefore
		for _, e := range effectsBefore(records, i) {
			if e.run != "" || isOfEarlierAttempt(e.address.String(), at) {
				found = append(found, e)
			}
		}
		place := func(a record.Address) string {
			return a.WithoutAttempts()[:strings.LastIndex(a.WithoutAttempts(), "/")]
		}
		if r.Status == record.StatusCompleted { // without an attempt
			require.NotNil(t, r.Detail.Effect, "record %d: %s completed without an attempt", r.Seq, at)
			i := slices.IndexFunc(found, func(e madeBefore) bool {
				return e.address == r.Detail.Effect.Address && e.run == r.Detail.Effect.RunID
			})
			require.GreaterOrEqual(t, i, 0, "record %d: %s took over an effect that is not left: %s", r.Seq, at, r.Detail.Effect)
			same := found[i].completed && found[i].input == r.Detail.InputHash && (declares || place(found[i].address) == place(r.Address))
			require.True(t, same || decided[at], "record %d: %s took over %s, although nobody has decided so", r.Seq, at, r.Detail.Effect)
			continue
		}
		if decided[at] || r.Status == record.StatusFailed {
			continue
		}
		for _, e := range found {
			require.False(t, e.input == r.Detail.InputHash || place(e.address) == place(r.Address),
				"record %d: %s was made without a question, although %s of run %q is left", r.Seq, at, e.address, e.run)
		}
	}
}

// requirePassedOn checks that a fork that keeps the records in kept knows each of its parent's
// effects exactly once.
func requirePassedOn(t *testing.T, parent []record.Record, parentID string, kept []record.Record) {
	t.Helper()
	of := func(e madeBefore) string {
		if e.run == "" {
			e.run = parentID
		}
		return e.run + " " + e.address.String()
	}
	known := make(map[string]int)
	for _, e := range effectsBefore(kept, len(kept)) {
		known[of(e)]++
	}
	took := make(map[string]string) // effects, by the call that took each of them over
	for i := range parent {
		if r := &parent[i]; r.Status == record.StatusCompleted && r.Detail != nil && r.Detail.Effect != nil && r.Kind.IsCall() {
			took[of(madeBefore{"", r.Address, record.Hash{}, true})] = of(madeBefore{r.Detail.Effect.RunID, r.Detail.Effect.Address, record.Hash{}, true})
		}
	}
	for _, e := range effectsBefore(parent, len(parent)) {
		times := 0
		for effect := of(e); effect != ""; effect = took[effect] {
			times += known[effect]
		}
		require.Equal(t, 1, times, "how often the fork knows %s", of(e))
	}
}

// TestNoEffectIsMadeTwiceWithoutAQuestion runs random programs that are killed, resumed, answered
// and forked, and checks their records against the table in the documentation of
// actors.WithIrreversible.
func TestNoEffectIsMadeTwiceWithoutAQuestion(t *testing.T) {
	seeds := testkit.Seeds(300)
	if testing.Short() {
		seeds = 60
	}
	var took, asked, forked int
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 24))
			s := shopper{seed: seed, declares: rng.IntN(2) == 0}
			if rng.IntN(4) == 0 {
				s.inDoubt = core.InDoubtFail
			}
			store, runID := memstore.New(), "run-0"
			for n := range 12 {
				var ended bool
				store, ended = s.open(t, rng, store, runID)
				records := testkit.LoadRun(t, store, runID).Records
				requireNoEffectTwice(t, records, s.declares)
				requireNoAttemptTwice(t, records)
				for i := range records {
					if r := &records[i]; r.Status == record.StatusCompleted && r.Detail != nil && r.Detail.Effect != nil {
						took++
					} else if r.Kind == record.KindQuestion {
						asked++
					}
				}
				if ended && rng.IntN(2) == 0 {
					forked += s.fork(t, rng, store, &runID, fmt.Sprint("run-", n+1))
				}
			}
			<-time.After(2 * time.Hour) // until the abandoned handlers have returned
		})
	}
	require.Greater(t, took, int(seeds)/4)
	require.Greater(t, asked, int(seeds)/4)
	require.Greater(t, forked, int(seeds)/4)
}

// fork forks the run at a random call.
func (s *shopper) fork(t *testing.T, rng *rand.Rand, store snapshot.Store, runID *string, newID string) int {
	t.Helper()
	parent := testkit.LoadRun(t, store, *runID).Records
	var places []record.Address
	for i := range parent {
		if r := &parent[i]; r.Kind.IsCall() {
			places = append(places, r.Address)
		}
	}
	at := places[rng.IntN(len(places))]
	require.NoError(t, state.Fork(t.Context(), store, *runID, at, newID, state.ForkOptions{Effects: state.RepeatEffects}), "at %s", at)
	requirePassedOn(t, parent, *runID, testkit.LoadRun(t, store, newID).Records)
	*runID = newID
	return 1
}
