package actorstest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// trip is an agent that makes three calls: one with a large output, one that is retried, and one
// that is irreversible.
func trip(made *[]string) actors.Agent[city, string] {
	look := decorators.Tool("look", "", func(_ context.Context, in city) (string, error) {
		*made = append(*made, "look")
		return in.Name + strings.Repeat(".", 64<<10), nil
	})
	pay := decorators.Tool("pay", "", func(_ context.Context, in city) (string, error) {
		*made = append(*made, "pay")
		return "paid for " + in.Name, nil
	}, actors.WithIrreversible())
	waits := weather(1)
	return decorators.Agent("trip", "", func(ctx context.Context, in city) (string, error) {
		seen, err := look.Call(ctx, in)
		if err != nil {
			return "", err
		}
		if _, err := waits.Call(ctx, in); err != nil {
			return "", err
		}
		paid, err := pay.Call(ctx, in)
		return fmt.Sprint(paid, ", ", len(seen)), err
	})
}

func goOn(ctx context.Context, store snapshot.Store, made *[]string) (string, snapshot.Status, error) {
	st, err := state.Open(ctx, store, "run")
	if err != nil {
		return "", "", err
	}
	out, err := trip(made).Call(st.Context(ctx), city{"Oslo"})
	err = errors.Join(err, st.Close())
	return out, st.Status(), err
}

func TestARunContinuesAfterEachOfItsRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, made := memstore.New(), []string(nil)
		want, _, err := goOn(t.Context(), store, &made)
		require.NoError(t, err)
		require.Equal(t, []string{"look", "pay"}, made)
		whole, err := store.Load(t.Context(), "run")
		require.NoError(t, err)

		cuts, asked := 0, 0
		for records, left := range actorstest.AfterEachRecord(t, store, "run") {
			cuts++
			require.Len(t, records, cuts)
			info, err := left.Info(t.Context(), "run")
			require.NoError(t, err)
			assert.Equal(t, record.InterruptCrash, info.Stop.Reason)
			assert.Equal(t, uint64(cuts), info.LastSeq)
			assert.Zero(t, info.Usage)
			assert.Zero(t, info.Summary)

			made = nil
			got, status, err := goOn(t.Context(), left, &made)
			if status == snapshot.StatusPaused {
				asked++
				questions, err := state.Questions(t.Context(), left, "run")
				require.NoError(t, err)
				require.NoError(t, state.Answer(t.Context(), left, "run", questions[0].ID, "ann", state.InDoubtCompleted("paid for Oslo")))
				got, _, err = goOn(t.Context(), left, &made)
				require.NoError(t, err)
				made = append(made, "pay") // in the process that died
			} else {
				require.NoError(t, err)
			}
			assert.Equal(t, want, got)
			var expected []string
			for _, tool := range []string{"look", "pay"} {
				if !slices.Contains(actorstest.Endings(records), "trip/"+tool+" completed") {
					expected = append(expected, tool)
				}
			}
			assert.Equal(t, expected, made, "after %s %s", records[cuts-1].Address, records[cuts-1].Status)
		}
		assert.Equal(t, whole.Len(), cuts)
		assert.Equal(t, 1, asked, "only where the payment had begun and not ended")
		again, err := store.Load(t.Context(), "run")
		require.NoError(t, err)
		assert.Equal(t, whole, again, "the run itself is not changed")
	})
}

func TestAfterEachRecordEndsWhenTheLoopDoes(t *testing.T) {
	store, made := memstore.New(), []string(nil)
	_, _, err := goOn(t.Context(), store, &made)
	require.NoError(t, err)
	for records := range actorstest.AfterEachRecord(t, store, "run") {
		assert.Len(t, records, 1)
		break
	}
}

func TestARunThatCannotBeReadIsReported(t *testing.T) {
	fake := new(fakeT)
	for range actorstest.AfterEachRecord(fake, memstore.New(), "run") {
		t.Error("there is no run")
	}
	require.Len(t, fake.reported, 1)
	assert.Contains(t, fake.reported[0], "actorstest: AfterEachRecord: ")

	store := memstore.New()
	run, err := (&snapshot.Snapshot{Info: snapshot.Info{RunID: "run", Status: snapshot.StatusCompleted}, Records: []record.Record{{
		Seq: 1, Kind: record.KindValue, Name: "v", Status: record.StatusRecorded, Detail: &record.Detail{Artifact: "sha256:" + strings.Repeat("0", 64)},
	}}}).Run()
	require.NoError(t, err)
	_, err = store.Create(t.Context(), run)
	require.NoError(t, err)
	for range actorstest.AfterEachRecord(fake, store, "run") {
		t.Error("there is no artifact")
	}
	require.Len(t, fake.reported, 2)
	assert.Contains(t, fake.reported[1], "actorstest: AfterEachRecord: after record 1: ")
}

func ExampleAfterEachRecord() {
	sent := 0
	notify := decorators.Agent("notify", "", func(ctx context.Context, in city) (string, error) {
		return decorators.Tool("send", "", func(context.Context, city) (string, error) {
			sent++
			return "sent", nil
		}).Call(ctx, in)
	})
	call := func(store snapshot.Store) error {
		st, err := state.Open(context.Background(), store, "notify-1")
		if err != nil {
			return err
		}
		_, err = notify.Call(st.Context(context.Background()), city{"Oslo"})
		return errors.Join(err, st.Close())
	}
	store := memstore.New()
	if err := call(store); err != nil {
		panic(err)
	}
	t := new(fakeT) // a *testing.T in a test
	for records, left := range actorstest.AfterEachRecord(t, store, "notify-1") {
		sent = 0
		err := call(left)
		last := records[len(records)-1]
		fmt.Printf("%s %s: sent %d times, %v\n", last.Kind, last.Status, sent, err)
	}
	// Output:
	// run started: sent 1 times, <nil>
	// agent_call started: sent 1 times, <nil>
	// tool_call started: sent 1 times, <nil>
	// tool_call completed: sent 0 times, <nil>
	// agent_call completed: sent 0 times, <nil>
	// run completed: sent 0 times, <nil>
}
