package snapshot_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// randomRun returns a run whose records have random values in all fields.
func randomRun(t *testing.T, seed uint64) (run *snapshot.Run, records []record.Record) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 3))
	for seq := uint64(1); seq <= 50; seq++ {
		records = append(records, randomRecord(t, rng, seq))
	}
	s := &snapshot.Snapshot{Info: snapshot.Info{RunID: "run"}, Records: records}
	run, err := s.Run()
	require.NoError(t, err)
	for i := range records {
		records[i].RunID = "run"
	}
	return run, records
}

func TestScanHasTheRecordsOneAfterTheOther(t *testing.T) {
	for seed := range uint64(20) {
		run, want := randomRun(t, seed)
		seq := 0
		for rec, err := range run.Scan() {
			require.NoError(t, err)
			assertSameRecord(t, want[seq], *rec)
			seq++
		}
		assert.Len(t, want, seq)
	}
}

func TestRecordsOfARunStayAsTheyWere(t *testing.T) {
	run, want := randomRun(t, 1)
	var kept []record.Record
	for rec, err := range run.Records() {
		require.NoError(t, err)
		kept = append(kept, rec)
	}
	for range run.Scan() { // Scan reuses its memory
	}
	for i := range kept {
		if d := kept[i].Detail; d != nil { // appending must not overwrite the memory of other records
			_, _ = append(d.Input, "xxxx"...), append(d.Output, "xxxx"...)
		}
		assertSameRecord(t, want[i], kept[i])
		again, err := run.Record(uint64(i) + 1)
		require.NoError(t, err)
		assertSameRecord(t, want[i], again)
	}
}

func TestScanEndsWithTheRecordThatIsDamaged(t *testing.T) {
	var data []byte
	for seq := uint64(1); seq <= 3; seq++ {
		var err error
		data, err = snapshot.AppendRecord(data, &record.Record{Seq: seq, Name: "a", Kind: record.KindTool, Status: record.StatusStarted})
		require.NoError(t, err)
	}
	encoded, _, _, err := snapshot.CutRecord(data)
	require.NoError(t, err)
	data[len(encoded)+5] = 0xc3 // true, in place of the time of the second record
	run, _, err := new(snapshot.Run).Extend(data)
	require.NoError(t, err, "the damage is only found when the record is decoded")
	var numbers []uint64
	for rec, err := range run.Scan() {
		if err != nil {
			assert.ErrorContains(t, err, "record 2")
			assert.Nil(t, rec)
			numbers = append(numbers, 0)
			continue
		}
		numbers = append(numbers, rec.Seq)
	}
	assert.Equal(t, []uint64{1, 0}, numbers)
}

func TestOutputIsThatOfTheRecord(t *testing.T) {
	for seed := range uint64(20) {
		run, want := randomRun(t, seed)
		for i := range want {
			output, artifact, completed, err := run.Output(uint64(i) + 1)
			require.NoError(t, err)
			assert.Equal(t, want[i].Status == record.StatusCompleted, completed)
			if completed {
				assert.Equal(t, want[i].Artifact(), artifact)
				assert.Equal(t, string(want[i].Encoded()), string(output))
			}
		}
	}
	run, _ := randomRun(t, 1)
	for _, seq := range []uint64{0, 51} {
		_, _, _, err := run.Output(seq)
		assert.EqualError(t, err, fmt.Sprintf("snapshot: run run has no record %d; it has 50 records", seq))
	}
}
