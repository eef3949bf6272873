package state

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

func randomRecord(t *testing.T, rng *rand.Rand) record.Record {
	a, err := record.ParseAddress(fmt.Sprintf("a%d/b#%d", rng.IntN(3), 2+rng.IntN(5)))
	require.NoError(t, err)
	rec := record.Record{
		Time: time.Unix(rng.Int64N(1e9), rng.Int64N(1e9)).UTC(), Address: a, Name: fmt.Sprint("n", rng.IntN(2)),
		Kind: record.Kind(1 + rng.IntN(5)), Status: record.Status(1 + rng.IntN(8)), Reason: record.Reason(rng.IntN(14)),
		Stage: record.Stage(rng.IntN(10)), Class: record.Class(rng.IntN(15)), DelaySource: record.Source(rng.IntN(3)),
		Attempt: rng.IntN(9), MaxAttempts: rng.IntN(9) - 1, Ordinal: rng.IntN(3), Replayed: rng.IntN(5) == 0,
		Duration: time.Duration(rng.Int64()), Elapsed: time.Duration(rng.Int64()), Delay: time.Duration(rng.Int64()),
	}
	if rng.IntN(3) == 0 {
		rec.Status, rec.WillRetry = record.StatusFailed, true
	}
	if rng.IntN(3) == 0 {
		rec.Err = errors.New("boom")
	}
	if rng.IntN(4) == 0 {
		rec.Detail = &record.Detail{Message: "detail"}
	}
	return rec
}

// randomStart returns a record that may be the start of the attempt that rec
// ends, or may differ from it in any field.
func randomStart(t *testing.T, rng *rand.Rand, rec record.Record) record.Record {
	start := record.Record{
		Time: rec.Time.Add(-rec.Duration), Address: rec.Address, Name: rec.Name, Kind: rec.Kind,
		Status: record.StatusStarted, Ordinal: rec.Ordinal, Attempt: rec.Attempt, MaxAttempts: rec.MaxAttempts,
	}
	other := randomRecord(t, rng)
	switch rng.IntN(17) {
	case 0:
		start.Time = other.Time
	case 1:
		start.Address, start.Name, start.Kind = other.Address, other.Name, other.Kind
	case 2:
		start.Attempt, start.MaxAttempts = other.Attempt, other.MaxAttempts
	case 3:
		start.Replayed = true
	case 4:
		start.Duration, start.Elapsed, start.Delay = other.Duration, other.Elapsed, other.Delay
	case 5:
		start.Reason, start.Stage, start.Class, start.DelaySource = other.Reason, other.Stage, other.Class, other.DelaySource
	case 6:
		start.Err, start.Detail = errors.New("boom"), &record.Detail{Message: "detail"}
	case 7:
		start.Ordinal = other.Ordinal
	}
	return start
}

// The history returns what was appended, including the starts of attempts and the
// retrying records of failed ones, both for a new run and for a restored one.
func TestHistoryIsWhatWasAppended(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, restored := range []int{0, 7} {
		h := history{runID: "run", generation: 2, restored: newStoredRun(t, restored)}
		var want []record.Record
		add := func(rec record.Record) {
			rec.RunID, rec.Generation, rec.Seq = "run", 2, uint64(restored+len(want))+1
			want = append(want, rec)
		}
		appended := func(rec record.Record) {
			h.append(&rec)
			add(rec)
			if rec.WillRetry {
				add(rec.Retrying())
			}
			require.Equal(t, restored+len(want), h.len())
		}
		for range 3 * chunkSize {
			rec := randomRecord(t, rng)
			rec.Duration %= time.Hour
			if rng.IntN(2) == 0 {
				appended(randomStart(t, rng, rec))
			}
			appended(rec)
		}
		require.Less(t, h.packs, len(want)*3/4)
		require.Equal(t, want, h.ownRecords())
		for _, i := range rng.Perm(len(want)) {
			require.Equal(t, want[i], h.at(restored+i))
		}
	}
}

func newStoredRun(t *testing.T, n int) *snapshot.Run {
	t.Helper()
	s := &snapshot.Snapshot{Records: make([]record.Record, n)}
	for i := range s.Records {
		s.Records[i].Seq = uint64(i) + 1
	}
	run, err := s.Run()
	if err != nil {
		t.Fatal(err)
	}
	return run
}
