package state_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// The number of random programs in the model tests. After a change in how calls are compared with
// records, use 5,000, which take several minutes.
var (
	modelSeeds = flag.Uint64("model-seeds", 200, "the number of random programs in the model tests")
	modelFirst = flag.Uint64("model-first", 0, "the seed of the first random program in the model tests")

	modelStride = flag.Int("model-stride", 0, "the maximum number of records between two places where a run is cut; 1 cuts at each record, and 0 at about ten")
)

// modelStores are functions that return a store with the given records, in the state in which a
// killed process would leave it.
var modelStores = map[string]func(t *testing.T, records []record.Record) snapshot.Store{
	"memory": func(_ *testing.T, records []record.Record) snapshot.Store {
		return &tape{records: slices.Clip(records)}
	},
	"file": func(t *testing.T, records []record.Record) snapshot.Store {
		s := fileStore(t, t.TempDir())
		last := records[len(records)-1]
		run, err := (&snapshot.Snapshot{
			Info:    snapshot.Info{RunID: "run-1", Status: snapshot.StatusRunning, Generation: last.Generation, LastSeq: last.Seq},
			Records: records,
		}).Run()
		require.NoError(t, err)
		_, err = s.Create(t.Context(), run)
		require.NoError(t, err)
		return s
	},
}

// askingTree returns a random program with agents that are retried and ask
// questions.
func askingTree(rng *rand.Rand) *node {
	program := randomTree(rng, 2)
	enrich(rng, program)
	for i, n := range program.nodes() {
		n.boxed = n.kind != record.KindAgent && n.kind != record.KindVersion && n.sleeps == 0 && !n.undone && rng.IntN(2) == 0
		if n.kind != record.KindAgent || n.failFast {
			continue
		}
		if rng.IntN(4) == 0 {
			n.failures = 1
		}
		if rng.IntN(4) == 0 {
			at := rng.IntN(len(n.children) + 1)
			n.children = slices.Insert(n.children, at, &node{name: fmt.Sprint("what now, ", i), kind: record.KindQuestion})
		}
	}
	program.rememberPaid()
	return program
}

// finish opens the run and answers its questions until the program ends. It
// returns early if the program is refused.
func finish(t *testing.T, s snapshot.Store, e *effects, program *node) (string, error) {
	t.Helper()
	return finishWith(t, s, e, program, 0)
}

// finishWith is like finish, but if n is not 0, it interrupts the first opening at its nth record.
func finishWith(t *testing.T, s snapshot.Store, e *effects, program *node, n int) (string, error) {
	t.Helper()
	for range 100 {
		out, err := openAt(t, s, e, program, n)
		n = 0
		switch {
		case errors.Is(err, core.ErrDivergence) || !core.IsSuspension(err):
			return out, err
		case errors.Is(err, core.ErrAwaiting):
			open, err := state.Questions(t.Context(), s, "run-1")
			require.NoError(t, err)
			for _, q := range open {
				require.NoError(t, state.Answer(t.Context(), s, "run-1", q.ID, "", "the answer to "+q.ID))
			}
		}
	}
	_, err := openAt(t, s, e, program, 0)
	require.FailNow(t, "the program does not end", "%v", err)
	return "", nil
}

// passing and passingDerived are interceptors that leave a call unchanged.
var (
	passing = core.Interceptor{Attempt: func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
		return next(ctx)
	}}
	passingDerived = core.Interceptor{Attempt: func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		return next(ctx)
	}}
)

// openAt opens the run once and, unless n is 0, interrupts it at its nth record.
func openAt(t *testing.T, s snapshot.Store, e *effects, program *node, n int) (string, error) {
	t.Helper()
	var st *state.ExecutionState
	interrupt := state.WithPublisher(testkit.Publisher(func(record.Record) {
		if n--; n == 0 && st != nil {
			st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
		}
	}))
	options := []state.Option{interrupt, program.compensations(t), state.WithSeed(1), state.WithSync(state.SyncNever)}
	if n%2 == 1 { // a run may be opened with or without interceptors
		options = append(options, state.WithInterceptors(passing, passingDerived))
	}
	st, err := state.Open(t.Context(), s, "run-1", options...)
	require.NoError(t, err)
	out, err := e.call(t, st.Context(t.Context()), program)
	if stopped := st.Interrupted(); stopped != nil {
		err = stopped
	}
	require.NoError(t, st.Close())
	return out, err
}

// modelCuts calls f with some of the prefixes of the records after which a process may have been
// killed. Unless a flag says otherwise, a long run is cut at about ten points, because a few
// programs repeat the same calls and have thousands of records: with a cut every 40 records, they
// took longer than all the others together.
func modelCuts(rng *rand.Rand, records []record.Record, f func(prefix []record.Record)) {
	stride := *modelStride
	if stride == 0 {
		stride = max(40, len(records)/5)
	}
	for n := 1; n < len(records); n += 1 + rng.IntN(stride) {
		if !records[n-1].WillRetry { // a failed record and its retrying record are written together
			f(records[:n])
		}
	}
}

// forEachModel runs f for each combination of seed and store.
func forEachModel(t *testing.T, f func(t *testing.T, seed uint64, cut func([]record.Record) snapshot.Store)) {
	t.Helper()
	for name, store := range modelStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			step := uint64(1)
			if name == "file" {
				step = 10 // a store on disk is slow
			}
			for seed := *modelFirst; seed < *modelFirst+testkit.Seeds(*modelSeeds); seed += step {
				synctest.Test(t, func(t *testing.T) {
					f(t, seed, func(records []record.Record) snapshot.Store { return store(t, records) })
				})
			}
		})
	}
}

// TestUnchangedProgramIsNeverRefused resumes programs with groups, retried agents, steps and
// questions. Their process was killed after a record, or they were interrupted at one.
func TestUnchangedProgramIsNeverRefused(t *testing.T) {
	forEachModel(t, func(t *testing.T, seed uint64, cut func([]record.Record) snapshot.Store) {
		rng := rand.New(rand.NewPCG(seed, 31))
		program := askingTree(rng)
		whole := new(tape)
		want, err := finish(t, whole, newEffects(), program)
		require.NoError(t, err)
		modelCuts(rng, whole.records, func(prefix []record.Record) {
			s, again := cut(prefix), newEffects()
			got, err := finishWith(t, s, again, program, 1+rng.IntN(20))
			require.NoError(t, err, "seed %d, cut after record %d", seed, len(prefix))
			require.Equal(t, want, got, "seed %d, cut after record %d", seed, len(prefix))
			if records := testkit.LoadRun(t, s, "run-1").Records; rng.IntN(4) == 0 {
				testkit.RequireLedger(t, records, func(int) bool { return rng.IntN(40) == 0 })
			}
			for address := range completedLeaves(prefix) {
				require.Zero(t, again.ran[address], "seed %d: %s had ended before the cut after record %d", seed, address, len(prefix))
			}
		})
	})
}

const (
	fieldRenamed  = "a field renamed"
	groupLoosened = "a group was replaced by goroutines"
)

// mutateFurther makes one change to a program: it changes an input or the type of an output,
// replaces a group with goroutines, or does what [node.mutate] does.
func (n *node) mutateFurther(rng *rand.Rand) string {
	all := n.nodes()
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	how := rng.IntN(6)
	for _, at := range all {
		switch {
		case how == 0 && at.kind == record.KindTool:
			at.input = 7
			return "an input changed"
		case how == 1 && at.boxed:
			at.renamed = true
			return fieldRenamed
		case how == 2 && at.parallel:
			at.loose = true
			return groupLoosened
		}
	}
	return n.mutate(rng)
}

// mutateInput changes a tool's input or, if it cannot, does what [node.mutate] does.
func (n *node) mutateInput(rng *rand.Rand) string {
	all := n.nodes()
	if at := all[rng.IntN(len(all))]; at.kind == record.KindTool {
		at.input = 7
		return "an input changed"
	}
	return n.mutate(rng)
}

// finishedOf reports whether a call of one of the kinds has an outcome in the records. The outcome
// of an agent or a branch is trusted, even though it may be that of another program.
func finishedOf(records []record.Record, kinds ...record.Kind) bool {
	return slices.ContainsFunc(records, func(r record.Record) bool { return r.IsOutcome() && slices.Contains(kinds, r.Kind) })
}

// TestChangedProgramIsRefusedOrHasTheSameResult cuts the records of a random program, changes one
// or two things in the program, and resumes the run. No finished call runs again, and no call gets
// the result of another: the changed program is either refused or continues with every recorded
// call where it belongs. After any number of refused openings, the original program finishes with
// the same result.
func TestChangedProgramIsRefusedOrHasTheSameResult(t *testing.T) {
	var refused, wentOn atomic.Int64
	t.Cleanup(func() {
		assert.NotZero(t, refused.Load())
		assert.NotZero(t, wentOn.Load())
		t.Logf("%d openings of changed programs were refused, %d continued", refused.Load(), wentOn.Load())
	})
	forEachModel(t, func(t *testing.T, seed uint64, cut func([]record.Record) snapshot.Store) {
		rng := rand.New(rand.NewPCG(seed, 23))
		program := askingTree(rng)
		program.collectAll()
		for i, n := range program.nodes() { // calls with the same name and input cannot be distinguished
			n.name = fmt.Sprint(n.name, "-", i)
		}
		program.rememberPaid()
		whole := new(tape)
		want, err := finish(t, whole, newEffects(), program)
		require.NoError(t, err)
		modelCuts(rng, whole.records, func(prefix []record.Record) {
			s, done := cut(prefix), completedLeaves(prefix)
			for range 1 + rng.IntN(3) {
				changed := program.clone()
				how := changed.mutateFurther(rng)
				if rng.IntN(2) == 0 && how != fieldRenamed && how != groupLoosened {
					// The original program cannot read an output that a refused program recorded
					// with another type. So if there are two changes, neither changes a type.
					how += " and " + changed.mutateInput(rng)
				}
				at := fmt.Sprintf("seed %d, %s, cut after record %d", seed, how, len(prefix))
				again, before := newEffects(), testkit.LoadRun(t, s, "run-1").Records
				_, err := openAt(t, s, again, changed, 0)
				for address := range done {
					require.Zero(t, again.ran[address], "%s: %s had ended", at, address)
				}
				if errors.Is(err, core.ErrDivergence) {
					refused.Add(1)
					continue
				}
				wentOn.Add(1)
				if slices.ContainsFunc(changed.nodes(), func(n *node) bool { return n.loose }) {
					return // its goroutines may start in another order, so it may be refused later
				}
				got, err := finish(t, s, again, changed)
				for address := range done {
					require.Zero(t, again.ran[address], "%s: %s had ended", at, address)
				}
				if errors.Is(err, core.ErrDivergence) { // an earlier opening had stopped at a question before the change
					refused.Add(1)
					continue
				}
				require.NoError(t, err, at)
				if !finishedOf(before, record.KindAgent, record.KindBranch) {
					fresh, err := finish(t, new(tape), newEffects(), changed)
					require.NoError(t, err)
					require.Equal(t, fresh, got, at)
				}
				return
			}
			if records := testkit.LoadRun(t, s, "run-1").Records; rng.IntN(4) == 0 {
				testkit.RequireLedger(t, records, func(int) bool { return rng.IntN(40) == 0 })
			}
			old, refusedUpTo := newEffects(), len(testkit.LoadRun(t, s, "run-1").Records)
			got, err := finish(t, s, old, program)
			require.NoError(t, err, "seed %d, cut after record %d: the old program", seed, len(prefix))
			if !finishedOf(testkit.LoadRun(t, s, "run-1").Records[len(prefix):refusedUpTo], record.KindAgent) { // a branch of a refused opening runs again
				require.Equal(t, want, got, "seed %d, cut after record %d: the old program", seed, len(prefix))
			}
			for address := range done {
				require.Zero(t, old.ran[address], "seed %d: %s had ended before the cut after record %d", seed, address, len(prefix))
			}
		})
	})
}
