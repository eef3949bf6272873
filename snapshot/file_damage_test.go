package snapshot_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A crashed run: 6 records in a snapshot, and 9 in a journal whose process
// has ended.
func crashedRun(t testing.TB) (files map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	s := newFileStore(t, dir)
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Append(storetest.Records(1, 6)...))
	require.NoError(t, j.Close(snapshot.StatusPaused))
	j, err = s.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	for seq := uint64(7); seq <= 15; seq += 3 {
		require.NoError(t, j.Append(storetest.Records(seq, 2)...))
		require.NoError(t, j.Append(storetest.Records(seq+2, 1)...))
	}
	snapshot.Abandon(j)
	return readRun(t, dir)
}

const crashedRecords, compactedRecords, journalFile = 15, 6, "journal-00000002"

func readRun(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	entries, err := os.ReadDir(filepath.Join(dir, "runs", "run"))
	require.NoError(t, err)
	for _, e := range entries {
		files[e.Name()], err = os.ReadFile(filepath.Join(dir, "runs", "run", e.Name()))
		require.NoError(t, err)
	}
	return files
}

// A place is a directory in which a run is written again and again.
type place struct {
	dir   string
	store *snapshot.FileStore
}

func newPlace(t testing.TB) place {
	dir := t.TempDir()
	return place{dir, newFileStore(t, dir, snapshot.WithWarnings(func(string, error) {}))}
}

// write replaces the run by these files, one of them changed.
func (p place) write(t testing.TB, files map[string][]byte, name string, data []byte) {
	t.Helper()
	run := filepath.Join(p.dir, "runs", "run")
	require.NoError(t, os.RemoveAll(run))
	require.NoError(t, os.MkdirAll(run, 0o700))
	for file, content := range files {
		if file == name {
			content = data
		}
		require.NoError(t, os.WriteFile(filepath.Join(run, file), content, 0o600))
	}
}

// change replaces one file of the run.
func (p place) change(t testing.TB, name string, data []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(p.dir, "runs", "run", name), data, 0o600))
}

// load loads the run and returns how many of its records there are, and
// whether it is damaged. Anything else than a prefix, or damage that says
// where it is, fails the test.
func (p place) load(t testing.TB, file string) (n int, damaged bool) {
	t.Helper()
	sn, err := p.store.Load(t.Context(), "run")
	lazy, lazyErr := p.store.LoadLazy(t.Context(), "run")
	require.Equal(t, err, lazyErr, "whether it is decoded makes no difference")
	if err != nil {
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
		var corrupt *snapshot.CorruptError
		require.ErrorAs(t, err, &corrupt)
		require.Equal(t, "run", corrupt.RunID)
		if file != "" {
			require.Equal(t, file, corrupt.File)
		}
		require.Contains(t, err.Error(), fmt.Sprintf("%s, byte %d, after record %d", corrupt.File, corrupt.Offset, corrupt.LastSeq))
		require.LessOrEqual(t, corrupt.LastSeq, uint64(crashedRecords))
		return int(corrupt.LastSeq), true
	}
	want := storetest.Records(1, len(sn.Records))
	for i := range want {
		want[i].RunID = "run"
	}
	require.LessOrEqual(t, len(want), crashedRecords)
	require.Equal(t, want, sn.Records)
	require.Equal(t, uint64(len(want)), sn.LastSeq)
	decoded, err := lazy.Snapshot()
	require.NoError(t, err)
	require.Equal(t, sn, decoded)
	return len(want), false
}

func TestAJournalCutAnywhereLoadsWhatIsWhole(t *testing.T) {
	files := crashedRun(t)
	journal := files[journalFile]
	offsets := snapshot.Frames(journal)
	require.Len(t, offsets, 7, "a header and six appends")
	ends := slices.Concat(offsets[1:], []int64{int64(len(journal))})
	counts := []int{6, 8, 9, 11, 12, 14, 15} // records up to the end of each frame
	p := newPlace(t)
	for cut := range journal {
		p.write(t, files, journalFile, journal[:cut])
		n, damaged := p.load(t, journalFile)
		if int64(cut) < ends[0] {
			require.True(t, damaged, "the header was there before the file had its name")
			continue
		}
		whole := 0
		for whole+1 < len(ends) && ends[whole+1] <= int64(cut) {
			whole++
		}
		require.False(t, damaged, "cut at %d", cut)
		require.Equal(t, counts[whole], n, "cut at %d", cut)

		listed, err := p.store.List(t.Context(), snapshot.Filter{})
		require.NoError(t, err)
		require.Equal(t, uint64(n), listed[0].LastSeq)

		if cut%3 > 0 && int64(cut) != ends[whole] {
			continue
		}
		j, err := p.store.Open(t.Context(), "run", snapshot.OpenOptions{})
		require.NoError(t, err)
		torn := j.(*snapshot.FileJournal).Torn()
		if int64(cut) == ends[whole] {
			require.Nil(t, torn)
		} else {
			require.Equal(t, &snapshot.TornTail{File: journalFile, Offset: ends[whole], Size: int64(cut) - ends[whole]}, torn)
		}
		require.NoError(t, j.Append(storetest.Records(uint64(n)+1, 1)...))
		require.NoError(t, j.Close(snapshot.StatusCompleted))
		again, err := p.store.Load(t.Context(), "run")
		require.NoError(t, err)
		requireRecords(t, again.Records, n+1)
	}
}

func TestAnyChangedByteIsFoundOrCutOff(t *testing.T) {
	files := crashedRun(t)
	last := snapshot.Frames(files[journalFile])[6]
	p := newPlace(t)
	for _, name := range []string{journalFile, "snapshot", "meta"} {
		p.write(t, files, "", nil)
		for at := range files[name] {
			for _, flip := range []byte{0x01, 0xff} {
				data := slices.Clone(files[name])
				data[at] ^= flip
				p.change(t, name, data)
				n, damaged := p.load(t, name)
				switch {
				case name == "meta":
					require.False(t, damaged, "nobody believes it")
					require.Equal(t, crashedRecords, n)
				case name == "snapshot":
					require.True(t, damaged, "byte %d ^ %x", at, flip)
					require.LessOrEqual(t, n, compactedRecords)
				case int64(at) < last:
					require.True(t, damaged, "byte %d ^ %x", at, flip)
				default:
					require.False(t, damaged, "byte %d ^ %x: no whole frame follows", at, flip)
					require.Equal(t, 14, n)
				}
				listed, err := p.store.List(t.Context(), snapshot.Filter{})
				require.NoError(t, err)
				require.Len(t, listed, 1, "a run is listed whatever became of it")
			}
		}
	}
}

func TestASnapshotCutAnywhereIsDamaged(t *testing.T) {
	files := crashedRun(t)
	p := newPlace(t)
	p.write(t, files, "", nil)
	for cut := range files["snapshot"] {
		p.change(t, "snapshot", files["snapshot"][:cut])
		_, damaged := p.load(t, "snapshot")
		require.True(t, damaged, "cut at %d", cut)
	}
}

func TestAMissingFileIsAHole(t *testing.T) {
	files := crashedRun(t)
	p := newPlace(t)
	delete(files, "snapshot")
	p.write(t, files, "", nil)
	n, damaged := p.load(t, journalFile)
	require.True(t, damaged)
	require.Zero(t, n)
}

func TestRandomDamageNeverMakesAWrongRecord(t *testing.T) {
	files := crashedRun(t)
	p := newPlace(t)
	r := rand.New(rand.NewPCG(1, 2))
	sorted := slices.Sorted(maps.Keys(files))
	for range 700 {
		name := sorted[r.IntN(len(sorted))]
		data := slices.Clone(files[name])
		for range 1 + r.IntN(3) {
			if len(data) == 0 {
				break
			}
			at := r.IntN(len(data))
			switch r.IntN(5) {
			case 0:
				data = data[:at]
			case 1:
				data[at] ^= byte(1 + r.IntN(255))
			case 2: // a block of zeros
				clear(data[at:min(len(data), at+1+r.IntN(64))])
			case 3: // a part twice
				data = slices.Insert(data, at, slices.Clone(data[at:min(len(data), at+r.IntN(200))])...)
			case 4: // a part is gone
				data = slices.Delete(data, at, min(len(data), at+r.IntN(200)))
			}
		}
		p.write(t, files, name, data)
		p.load(t, "")
	}
}

func TestWhatLooksLikeAFrameInsideARecordIsNone(t *testing.T) {
	journal := crashedRun(t)[journalFile]
	dir := t.TempDir()
	s := newFileStore(t, dir, snapshot.WithWarnings(func(string, error) {}))
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	records := storetest.Records(1, 2)
	records[1].Detail.Output = slices.Concat(journal, journal) // a tool has read the file of a run
	require.NoError(t, j.Append(records[0]))
	require.NoError(t, j.Append(records[1]))
	snapshot.Abandon(j)

	name := filepath.Join(dir, "runs", "run", "journal-00000001")
	stat, err := os.Stat(name)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(name, stat.Size()-1))
	sn, err := s.Load(t.Context(), "run")
	require.NoError(t, err)
	require.Len(t, sn.Records, 1)
}

func TestARunOfANewerFormatIsAnErrorThatSaysSo(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	snapshot.WriteNewer(t, filepath.Join(dir, "runs", "run"))
	_, err := s.Load(t.Context(), "run")
	require.ErrorIs(t, err, snapshot.ErrFormat)
	require.NotErrorIs(t, err, snapshot.ErrCorrupt)
	_, err = s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.ErrorIs(t, err, snapshot.ErrFormat)
	_, err = snapshot.Repair(dir, "run")
	require.ErrorIs(t, err, snapshot.ErrFormat)
}

func TestARunUnderAnotherNameIsRefused(t *testing.T) {
	files := crashedRun(t)
	p := newPlace(t)
	p.write(t, files, "", nil)
	require.NoError(t, os.Rename(filepath.Join(p.dir, "runs", "run"), filepath.Join(p.dir, "runs", "copy")))
	_, err := p.store.Load(t.Context(), "copy")
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	require.ErrorContains(t, err, "is of run run")
	_, err = snapshot.Repair(p.dir, "copy")
	require.ErrorContains(t, err, "is of run run")
}

func TestRepairSavesWhatCanBeRead(t *testing.T) {
	files := crashedRun(t)
	offsets := map[string][]int64{}
	for name, data := range files {
		offsets[name] = snapshot.Frames(data)
	}
	for name, test := range map[string]struct {
		file       string
		at         int64
		kept, lost int
	}{
		"header of the journal":        {journalFile, 4, 15, 0},
		"first records of the journal": {journalFile, offsets[journalFile][1] + 12, 13, 2},
		"length of a frame":            {journalFile, offsets[journalFile][3], 13, 2},
		"header of the snapshot":       {"snapshot", 0, 15, 0},
		"records of the snapshot":      {"snapshot", offsets["snapshot"][1] + 30, 9, 6},
		"end of the snapshot":          {"snapshot", offsets["snapshot"][2] + 3, 15, 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			data := slices.Clone(files[test.file])
			data[test.at] ^= 0x40
			p.write(t, files, test.file, data)
			_, damaged := p.load(t, test.file)
			require.True(t, damaged)

			report, err := snapshot.Repair(p.dir, "run")
			require.NoError(t, err)
			require.Equal(t, test.kept, report.Kept)
			require.Equal(t, uint64(test.lost), report.Lost)
			require.Equal(t, test.file, report.Damage.File)
			require.Equal(t, []string{test.file + ".damaged"}, report.Damaged)
			kept, err := os.ReadFile(filepath.Join(p.dir, "runs", "run", report.Damaged[0]))
			require.NoError(t, err)
			require.Equal(t, data, kept)

			sn, err := p.store.Load(t.Context(), "run")
			require.NoError(t, err)
			require.Len(t, sn.Records, test.kept)
			require.Equal(t, snapshot.StatusInterrupted, sn.Status)
			require.Equal(t, uint64(2), sn.Generation)
			for i, r := range sn.Records {
				require.Equal(t, uint64(i)+1, r.Seq)
			}
			listed, err := p.store.List(t.Context(), snapshot.Filter{})
			require.NoError(t, err)
			require.Equal(t, []snapshot.Info{sn.Info}, listed)
			j, err := p.store.Open(t.Context(), "run", snapshot.OpenOptions{})
			require.NoError(t, err)
			require.NoError(t, j.Append(storetest.Records(sn.LastSeq+1, 1)...))
			require.NoError(t, j.Close(snapshot.StatusCompleted))
			require.Contains(t, names(t, filepath.Join(p.dir, "runs", "run")), report.Damaged[0])

			report, err = snapshot.Repair(p.dir, "run")
			require.NoError(t, err)
			require.Nil(t, report.Damage, "it is whole now")
			require.Equal(t, test.kept+1, report.Kept)
		})
	}
}

// endedRun is a run with these records that was closed.
func endedRun(t testing.TB, records []core.Record, status snapshot.Status) map[string][]byte {
	t.Helper()
	dir := t.TempDir()
	s := newFileStore(t, dir)
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	for i := range records {
		records[i].Seq = uint64(i) + 1
		require.NoError(t, j.Append(records[i]))
	}
	require.NoError(t, j.Close(status))
	return readRun(t, dir)
}

func TestARunThatLostRecordsIsNotWhatItWas(t *testing.T) {
	end := func(kind core.Kind, status core.Status) core.Record {
		return core.Record{Time: time.Unix(1_700_000_100, 0).UTC(), Kind: kind, Status: status}
	}
	last := end(core.KindRun, core.StatusCompleted)
	for name, test := range map[string]struct {
		ending   []core.Record
		status   snapshot.Status
		from, to float64 // of the file
		want     snapshot.Status
	}{
		"all":                        {[]core.Record{last}, snapshot.StatusCompleted, 0.01, 0.99, snapshot.StatusInterrupted},
		"the whole file":             {[]core.Record{last}, snapshot.StatusCompleted, 0, 1, snapshot.StatusInterrupted},
		"its end":                    {[]core.Record{last}, snapshot.StatusCompleted, 0.9, 0.97, snapshot.StatusInterrupted},
		"but not how it ended":       {[]core.Record{last}, snapshot.StatusCompleted, 0.2, 0.3, snapshot.StatusCompleted},
		"but not that it failed":     {[]core.Record{end(core.KindRun, core.StatusFailed)}, snapshot.StatusFailed, 0.2, 0.3, snapshot.StatusFailed},
		"but not that it is stopped": {[]core.Record{end(core.KindRun, core.StatusInterrupted)}, snapshot.StatusInterrupted, 0.2, 0.3, snapshot.StatusInterrupted},
		"but not that it pauses": {
			[]core.Record{end(core.KindRun, core.StatusAwaiting), end(core.KindAnswer, core.StatusRecorded)},
			snapshot.StatusPaused, 0.2, 0.3, snapshot.StatusPaused,
		},
		"of one that does not tell": {nil, snapshot.StatusCompleted, 0.2, 0.3, snapshot.StatusInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			const n = 2000 // in several frames
			files := endedRun(t, append(storetest.Records(1, n), test.ending...), test.status)
			p := newPlace(t)
			data := slices.Clone(files["snapshot"])
			from, to := int(test.from*float64(len(data))), int(test.to*float64(len(data)))
			for i := range data[from:to] {
				data[from+i] ^= 0xff
			}
			p.write(t, files, "snapshot", data)

			report, err := snapshot.Repair(p.dir, "run")
			require.NoError(t, err)
			require.NotZero(t, report.Lost)
			require.Equal(t, n+len(test.ending), report.Kept+int(report.Lost))
			listed, err := p.store.List(t.Context(), snapshot.Filter{})
			require.NoError(t, err)
			require.Len(t, listed, 1)
			require.Equal(t, test.want, listed[0].Status)
			require.Equal(t, uint64(report.Kept), listed[0].LastSeq)
		})
	}
}

func TestRepairOfAnythingEndsWithARunThatLoads(t *testing.T) {
	files := crashedRun(t)
	p := newPlace(t)
	r := rand.New(rand.NewPCG(3, 4))
	for range 150 {
		data := slices.Clone(files[journalFile])
		for range 1 + r.IntN(5) {
			data[r.IntN(len(data))] ^= byte(1 + r.IntN(255))
		}
		p.write(t, files, journalFile, data)
		if _, damaged := p.load(t, ""); !damaged {
			continue
		}
		report, err := snapshot.Repair(p.dir, "run")
		require.NoError(t, err)
		sn, err := p.store.Load(t.Context(), "run")
		require.NoError(t, err)
		require.Len(t, sn.Records, report.Kept)
		require.GreaterOrEqual(t, report.Kept, compactedRecords)
		require.True(t, slices.ContainsFunc(names(t, filepath.Join(p.dir, "runs", "run")), func(name string) bool {
			return strings.HasSuffix(name, ".damaged")
		}))
	}
}

func TestRepairLeavesAWholeRunAlone(t *testing.T) {
	files := crashedRun(t)
	p := newPlace(t)
	p.write(t, files, "", nil)
	report, err := snapshot.Repair(p.dir, "run")
	require.NoError(t, err)
	require.Nil(t, report.Damage)
	require.Equal(t, crashedRecords, report.Kept)
	after := readRun(t, p.dir)
	delete(files, "lock")
	delete(after, "lock")
	require.Equal(t, files, after)

	_, err = snapshot.Repair(p.dir, "none")
	require.ErrorIs(t, err, snapshot.ErrNotFound)
	_, err = snapshot.Repair(p.dir, "../run")
	require.Error(t, err)
	j, err := p.store.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	_, err = snapshot.Repair(p.dir, "run")
	require.ErrorIs(t, err, snapshot.ErrLocked)
	require.NoError(t, j.Close(snapshot.StatusCompleted))
}

func TestTheChecksumIsThatOfOffsetLengthAndPayload(t *testing.T) {
	journal := crashedRun(t)[journalFile]
	for _, at := range snapshot.Frames(journal) {
		length := binary.BigEndian.Uint32(journal[at:])
		sum := binary.BigEndian.Uint32(journal[at+4:])
		covered := binary.BigEndian.AppendUint64(nil, uint64(at))
		covered = append(covered, journal[at:at+4]...)
		covered = append(covered, journal[at+8:at+8+int64(length)]...)
		require.Equal(t, crc32.Checksum(covered, crc32.MakeTable(crc32.Castagnoli)), sum)
	}
}

func FuzzFilesOfARun(f *testing.F) {
	files := crashedRun(f)
	f.Add(files["snapshot"], files[journalFile])
	f.Add([]byte{}, files[journalFile][:100])
	f.Fuzz(func(t *testing.T, compacted, journal []byte) {
		fuzzInterpret(t, compacted, journal)
	})
}

// FuzzFrames frames what it is given, so that the checksums are right and the
// fuzzer reaches what is behind them.
func FuzzFrames(f *testing.F) {
	files := crashedRun(f)
	for _, name := range []string{"snapshot", journalFile} {
		bodies := snapshot.Bodies(files[name])
		f.Add(bodies[0], bodies[1], bodies[len(bodies)-1])
	}
	f.Fuzz(func(t *testing.T, first, second, third []byte) {
		data := snapshot.FramesOf(first, second, third)
		fuzzInterpret(t, nil, data)
		fuzzInterpret(t, data, nil)
	})
}

func fuzzInterpret(t *testing.T, compacted, journal []byte) {
	records, salvaged, err := snapshot.Interpret("run", compacted, journal)
	if err != nil && !errors.Is(err, snapshot.ErrCorrupt) && !errors.Is(err, snapshot.ErrFormat) {
		t.Fatal(err)
	}
	lazy, lazyErr := snapshot.InterpretLazily("run", compacted, journal)
	require.Equal(t, fmt.Sprint(err), fmt.Sprint(lazyErr))
	for i := range records {
		require.Equal(t, uint64(i)+1, records[i].Seq)
		require.Equal(t, "run", records[i].RunID)
		again, err := lazy.Record(uint64(i) + 1)
		require.NoError(t, err)
		want, wantErr := snapshot.AppendRecord(nil, &records[i]) // NaN is not equal to itself, but its bytes are
		got, gotErr := snapshot.AppendRecord(nil, &again)
		require.Equal(t, want, got)
		require.Equal(t, wantErr, gotErr)
	}
	if err == nil {
		require.Len(t, salvaged, len(records))
	}
	for i := 1; i < len(salvaged); i++ {
		require.Less(t, salvaged[i-1].Seq, salvaged[i].Seq)
	}
}

func TestJournalsThatAreCoveredAreNotReadHoweverManyAreStillThere(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	covered := make(map[string][]byte)
	for seq := uint64(1); seq <= 10; seq += 2 {
		j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		require.NoError(t, j.Append(storetest.Records(seq, 2)...))
		if seq == 5 {
			require.NoError(t, j.Close(snapshot.StatusPaused)) // which makes a snapshot
		} else {
			snapshot.Abandon(j)
		}
		maps.Copy(covered, readRun(t, dir))
		for name, data := range covered { // as if nothing had been removed
			if strings.HasPrefix(name, "journal-") {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "run", name), data, 0o600))
			}
		}
		sn, err := s.Load(t.Context(), "run")
		require.NoError(t, err)
		requireRecords(t, sn.Records, int(seq)+1)
	}
	require.Greater(t, len(names(t, filepath.Join(dir, "runs", "run"))), 5)
}
