package filestore_test

import (
	"bytes"
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

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// crashedRun returns the files of a run whose process ended without closing it: a snapshot with 6
// records, and a journal with 9. Records up to 12 were synced. The zeros at the end of the journal
// are cut off.
func crashedRun(t testing.TB) (files map[string][]byte) {
	t.Helper()
	dir := memoryDir(t)
	s := newFileStore(t, dir)
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Append(storetest.Records(1, 6)...))
	require.NoError(t, closeAs(j, snapshot.StatusPaused))
	j, err = s.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	for seq := uint64(7); seq <= 15; seq += 3 {
		require.NoError(t, j.Append(storetest.Records(seq, 2)...))
		require.NoError(t, j.Append(storetest.Records(seq+2, 1)...))
		if seq+2 <= syncedRecords {
			require.NoError(t, j.Sync(t.Context(), seq+2))
		}
	}
	filestore.Abandon(j)
	files = readRun(t, dir)
	files[journalFile] = framesAlone(t, files[journalFile])
	return files
}

const (
	crashedRecords, syncedRecords, compactedRecords = 15, 12, 6

	journalFile, snapshotFile, metaFile = "00000002.journal", "00000001.snapshot", "meta"
)

// framesAlone returns a journal without the zeros after its last frame.
func framesAlone(t testing.TB, journal []byte) []byte {
	t.Helper()
	offsets := filestore.Frames(journal)
	last := offsets[len(offsets)-1]
	end := last + 16 + int64(binary.BigEndian.Uint32(journal[last+4:]))
	require.Empty(t, bytes.Trim(journal[end:], "\x00"), "only zeros follow")
	return journal[:end:end]
}

func readRun(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	entries, err := os.ReadDir(filepath.Join(dir, "runs", "run"))
	require.NoError(t, err)
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		files[e.Name()], err = os.ReadFile(filepath.Join(dir, "runs", "run", e.Name()))
		require.NoError(t, err)
	}
	return files
}

// A place is a directory for a run whose files are replaced repeatedly.
type place struct {
	dir   string
	store *filestore.Store
}

func newPlace(t testing.TB) place {
	dir := memoryDir(t)
	return place{dir, newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))}
}

// write replaces the files of the run. The file with the given name gets data as its content.
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

// load loads the run. It returns the number of its records and whether it is damaged. The test
// fails unless the records are a prefix of those that were appended and the error says where the
// damage is.
func (p place) load(t testing.TB, file string) (n int, damaged bool) {
	t.Helper()
	run, err := p.store.Load(t.Context(), "run")
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
	sn := decoded(t, run)
	require.Len(t, sn.Records, run.Len())
	want := storetest.Records(1, len(sn.Records))
	for i := range want {
		want[i].RunID = "run"
	}
	require.LessOrEqual(t, len(want), crashedRecords)
	require.Equal(t, want, sn.Records)
	require.Equal(t, uint64(len(want)), sn.LastSeq)
	require.Equal(t, sn.Info, run.Info)
	for i := range want {
		rec, err := run.Record(uint64(i) + 1)
		require.NoError(t, err)
		require.Equal(t, want[i], rec, "the record is the same if only a part of the run is decoded")
	}
	return len(want), false
}

func TestAJournalCutAnywhereLoadsItsWholeFrames(t *testing.T) {
	t.Parallel()
	files := crashedRun(t)
	journal := files[journalFile]
	offsets := filestore.Frames(journal)
	require.Len(t, offsets, 7, "a header and six appends")
	ends := slices.Concat(offsets[1:], []int64{int64(len(journal))})
	counts := []int{6, 8, 9, 11, 12, 14, 15} // number of records up to the end of each frame
	p := newPlace(t)
	for cut := range journal {
		if !testkit.Sampled(cut) {
			continue
		}
		p.write(t, files, journalFile, journal[:cut])
		n, damaged := p.load(t, journalFile)
		if int64(cut) < ends[0] {
			require.True(t, damaged, "the header is written before the file gets its name")
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
		require.Equal(t, uint64(n), listed.Runs[0].LastSeq)

		if cut%3 > 0 && int64(cut) != ends[whole] {
			continue
		}
		j, err := p.store.Open(t.Context(), "run", snapshot.OpenOptions{})
		require.NoError(t, err)
		torn := j.(*filestore.Journal).Torn()
		if int64(cut) == ends[whole] {
			require.Nil(t, torn)
		} else {
			require.Equal(t, &filestore.TornTail{File: journalFile, Offset: ends[whole], Size: int64(cut) - ends[whole]}, torn)
		}
		require.NoError(t, j.Append(storetest.Records(uint64(n)+1, 1)...))
		require.NoError(t, closeAs(j, snapshot.StatusCompleted))
		requireRecords(t, load(t, p.store, "run").Records, n+1)
	}
}

// Each byte is changed in two ways or, without -long, in only one of them.
func TestAnyChangedByteIsFoundOrCutOff(t *testing.T) {
	t.Parallel()
	files := crashedRun(t)
	offsets := filestore.Frames(files[journalFile])
	synced := offsets[5] // offset of the first frame that was not synced
	files[journalFile] = append(files[journalFile], make([]byte, 20)...)
	end := int64(len(files[journalFile]) - 20)
	p := newPlace(t)
	for _, name := range []string{journalFile, snapshotFile, metaFile} {
		p.write(t, files, "", nil)
		for at := range files[name] {
			if !testkit.Sampled(at) {
				continue
			}
			flips := []byte{0x01, 0xff}
			if !*long {
				flips = flips[at%2 : at%2+1]
			}
			for _, flip := range flips {
				data := slices.Clone(files[name])
				data[at] ^= flip
				p.change(t, name, data)
				n, damaged := p.load(t, name)
				switch {
				case name == metaFile:
					require.False(t, damaged, "the meta file is not trusted")
					require.Equal(t, crashedRecords, n)
				case name == snapshotFile:
					require.True(t, damaged, "byte %d ^ %x", at, flip)
					require.LessOrEqual(t, n, compactedRecords)
				case int64(at) < synced:
					require.True(t, damaged, "byte %d ^ %x", at, flip)
					require.LessOrEqual(t, n, syncedRecords)
				case int64(at) < offsets[6]:
					require.False(t, damaged, "byte %d ^ %x: no later frame says that this one was synced", at, flip)
					require.Equal(t, 12, n)
				case int64(at) < end:
					require.False(t, damaged, "byte %d ^ %x: no complete frame follows", at, flip)
					require.Equal(t, 14, n)
				default:
					require.False(t, damaged, "byte %d ^ %x: the byte is after the last frame", at, flip)
					require.Equal(t, crashedRecords, n)
				}
				listed, err := p.store.List(t.Context(), snapshot.Filter{})
				require.NoError(t, err)
				require.Len(t, listed.Runs, 1, "a damaged run is listed, too")
			}
		}
	}
}

func TestASnapshotCutAnywhereIsDamaged(t *testing.T) {
	t.Parallel()
	files := crashedRun(t)
	p := newPlace(t)
	p.write(t, files, "", nil)
	for cut := range files[snapshotFile] {
		if !testkit.Sampled(cut) {
			continue
		}
		p.change(t, snapshotFile, files[snapshotFile][:cut])
		_, damaged := p.load(t, snapshotFile)
		require.True(t, damaged, "cut at %d", cut)
	}
}

func TestAMissingFileIsAHole(t *testing.T) {
	files := crashedRun(t)
	p := newPlace(t)
	delete(files, snapshotFile)
	p.write(t, files, "", nil)
	n, damaged := p.load(t, journalFile)
	require.True(t, damaged)
	require.Zero(t, n)
}

func TestRandomDamageNeverMakesAWrongRecord(t *testing.T) {
	t.Parallel()
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
			case 3: // a part is repeated
				data = slices.Insert(data, at, slices.Clone(data[at:min(len(data), at+r.IntN(200))])...)
			case 4: // a part is missing
				data = slices.Delete(data, at, min(len(data), at+r.IntN(200)))
			}
		}
		p.write(t, files, name, data)
		p.load(t, "")
	}
}

func TestAFrameInsideARecordIsIgnored(t *testing.T) {
	journal := crashedRun(t)[journalFile]
	dir := t.TempDir()
	s := newFileStore(t, dir, filestore.WithWarnings(func(string, error) {}))
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	records := storetest.Records(1, 2)
	records[1].Detail.Output = slices.Concat(journal, journal) // as if a tool had read a run's journal
	require.NoError(t, j.Append(records[0]))
	require.NoError(t, j.Append(records[1]))
	filestore.Abandon(j)

	name := filepath.Join(dir, "runs", "run", "00000001.journal")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(name, int64(len(framesAlone(t, data)))-1))
	require.Len(t, load(t, s, "run").Records, 1)
}

func TestTheErrorForANewerFormatSaysSo(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "run"), 0o700))
	newer := filestore.FramesOf(0, []byte("\x01\x82\xa6format\x02\xa4info\x07"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "run", "00000001.journal"), newer, 0o600))
	_, err := s.Load(t.Context(), "run")
	require.ErrorIs(t, err, snapshot.ErrFormat)
	require.NotErrorIs(t, err, snapshot.ErrCorrupt)
	_, err = s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.ErrorIs(t, err, snapshot.ErrFormat)
	_, err = s.Repair(t.Context(), "run")
	require.ErrorIs(t, err, snapshot.ErrFormat)
}

func TestARunUnderAnotherNameIsRefused(t *testing.T) {
	files := crashedRun(t)
	p := newPlace(t)
	p.write(t, files, "", nil)
	require.NoError(t, os.Rename(filepath.Join(p.dir, "runs", "run"), filepath.Join(p.dir, "runs", "copy")))
	_, err := p.store.Load(t.Context(), "copy")
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	require.ErrorContains(t, err, "belongs to run run")
	_, err = p.store.Repair(t.Context(), "copy")
	require.ErrorContains(t, err, "belongs to run run")
}

func TestRepairKeepsReadableRecords(t *testing.T) {
	files := crashedRun(t)
	offsets := filestore.Frames(files[journalFile])
	compacted := files[snapshotFile]
	firstRecord := int64(bytes.Index(compacted, []byte("assistant/get_weather")))
	require.Positive(t, firstRecord)
	for name, test := range map[string]struct {
		file       string
		at         int64
		kept, lost int
		damaged    []string // later files, which are damaged as well
	}{
		"header of the journal":        {journalFile, 4, 6, 0, nil},
		"first records of the journal": {journalFile, offsets[1] + 20, 6, 0, nil},
		"length of a frame":            {journalFile, offsets[3] + 4, 9, 0, nil},
		"checksum of a frame":          {journalFile, offsets[4] + 12, 11, 0, nil},
		"first byte of the snapshot":   {snapshotFile, 0, 0, 6, []string{journalFile}},
		"version of the snapshot":      {snapshotFile, int64(bytes.Index(compacted, []byte("version"))) + 7, 0, 6, []string{journalFile}},
		"records of the snapshot":      {snapshotFile, firstRecord, 0, 6, []string{journalFile}},
		"end of the snapshot":          {snapshotFile, int64(bytes.Index(compacted, []byte("checksums"))), 6, 0, []string{journalFile}},
		"checksums of the snapshot":    {snapshotFile, int64(len(compacted)) - 20, 6, 0, []string{journalFile}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			data := slices.Clone(files[test.file])
			data[test.at] ^= 0x40
			p.write(t, files, test.file, data)
			_, damaged := p.load(t, test.file)
			require.True(t, damaged)

			report, err := p.store.Repair(t.Context(), "run")
			require.NoError(t, err)
			require.Equal(t, uint64(test.kept), report.Kept)
			require.Equal(t, uint64(test.lost), report.Lost)
			require.False(t, report.IsWhole, "the run was open, so the number of its records is unknown")
			require.Equal(t, test.file, report.Damage.File)
			want := []string{test.file + ".damaged"}
			for _, file := range test.damaged {
				want = append(want, file+".damaged")
			}
			require.ElementsMatch(t, want, report.Damaged)
			for _, name := range report.Damaged {
				kept, err := os.ReadFile(filepath.Join(p.dir, "runs", "run", name))
				require.NoError(t, err)
				was := files[strings.TrimSuffix(name, ".damaged")]
				if name == want[0] {
					was = data
				}
				require.Equal(t, was, kept)
			}

			sn := load(t, p.store, "run")
			require.Len(t, sn.Records, test.kept)
			require.Equal(t, snapshot.StatusInterrupted, sn.Status)
			require.Equal(t, uint64(2), sn.Generation)
			requireRecords(t, sn.Records, test.kept)
			listed, err := p.store.List(t.Context(), snapshot.Filter{})
			require.NoError(t, err)
			require.Equal(t, []snapshot.Info{sn.Info}, listed.Runs)
			j, err := p.store.Open(t.Context(), "run", snapshot.OpenOptions{})
			require.NoError(t, err)
			require.NoError(t, j.Append(storetest.Records(sn.LastSeq+1, 1)...))
			require.NoError(t, closeAs(j, snapshot.StatusCompleted))
			require.Subset(t, names(t, filepath.Join(p.dir, "runs", "run")), report.Damaged)

			report, err = p.store.Repair(t.Context(), "run")
			require.NoError(t, err)
			require.Nil(t, report.Damage, "the run is whole after the repair")
			require.True(t, report.IsWhole)
			require.Equal(t, uint64(test.kept)+1, report.Kept)
		})
	}
}

// endedRun returns the files of a closed run with these records.
func endedRun(t testing.TB, records []record.Record, status snapshot.Status) map[string][]byte {
	t.Helper()
	dir := memoryDir(t)
	s := newFileStore(t, dir)
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	for i := range records {
		records[i].Seq = uint64(i) + 1
		require.NoError(t, j.Append(records[i]))
	}
	require.NoError(t, closeAs(j, status))
	return readRun(t, dir)
}

func TestARepairedRunThatLostRecordsChangesItsStatus(t *testing.T) {
	t.Parallel()
	end := func(kind record.Kind, status record.Status) record.Record {
		return record.Record{Time: time.Unix(1_700_000_100, 0).UTC(), Kind: kind, Status: status}
	}
	const n = 2000 // in several blocks
	for ended, ending := range map[snapshot.Status][]record.Record{
		snapshot.StatusCompleted:   {end(record.KindRun, record.StatusCompleted)},
		snapshot.StatusFailed:      {end(record.KindRun, record.StatusFailed)},
		snapshot.StatusInterrupted: {end(record.KindRun, record.StatusInterrupted)},
		snapshot.StatusPaused:      {end(record.KindRun, record.StatusAwaiting), end(record.KindAnswer, record.StatusRecorded)},
		snapshot.StatusCancelled:   nil, // the records of a cancelled run do not show its end
	} {
		records := append(storetest.Records(1, n), ending...)
		files := endedRun(t, records, ended)
		behind := bytes.LastIndex(files[snapshotFile], []byte("\xa6values")) // where the records end
		require.Positive(t, behind)
		size := len(files[snapshotFile])
		part := func(of float64) int { return int(of * float64(behind)) }
		for name, test := range map[string]struct {
			from, to int // of the file
			want     snapshot.Status
			lost     bool
		}{
			"all":                          {part(0.01), size - 1, snapshot.StatusInterrupted, true},
			"the whole file":               {0, size, snapshot.StatusInterrupted, true},
			"the beginning":                {part(0.01), part(0.02), snapshot.StatusInterrupted, true},
			"the middle":                   {part(0.2), part(0.3), snapshot.StatusInterrupted, true},
			"the last records":             {part(0.97), part(0.99), snapshot.StatusInterrupted, true},
			"after the records":            {behind, behind + 3, ended, false},
			"the checksums of the records": {size - 40, size - 30, snapshot.StatusInterrupted, false},
			"records and all checksums":    {part(0.99), size - 1, snapshot.StatusInterrupted, true},
		} {
			t.Run(string(ended)+"/"+name, func(t *testing.T) {
				p := newPlace(t)
				data := slices.Clone(files[snapshotFile])
				for i := range data[test.from:test.to] {
					data[test.from+i] ^= 0xff
				}
				p.write(t, files, snapshotFile, data)

				report, err := p.store.Repair(t.Context(), "run")
				require.NoError(t, err)
				require.NotNil(t, report.Damage)
				require.Equal(t, test.lost, report.Lost > 0)
				require.Equal(t, uint64(len(records)), report.Kept+report.Lost)
				sn := load(t, p.store, "run")
				require.Len(t, sn.Records, int(report.Kept))
				requireRecords(t, sn.Records[:min(report.Kept, n)], int(min(report.Kept, n)))
				listed, err := p.store.List(t.Context(), snapshot.Filter{})
				require.NoError(t, err)
				require.Len(t, listed.Runs, 1)
				require.Equal(t, test.want, listed.Runs[0].Status)
				require.Equal(t, !test.lost && test.want == ended && name == "after the records", report.IsWhole)
				require.Equal(t, report.Kept, listed.Runs[0].LastSeq)
			})
		}
	}
}

func TestRepairOfAnythingEndsWithARunThatLoads(t *testing.T) {
	t.Parallel()
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
		report, err := p.store.Repair(t.Context(), "run")
		require.NoError(t, err)
		requireRecords(t, load(t, p.store, "run").Records, int(report.Kept))
		require.GreaterOrEqual(t, report.Kept, uint64(compactedRecords))
		require.True(t, slices.ContainsFunc(names(t, filepath.Join(p.dir, "runs", "run")), func(name string) bool {
			return strings.HasSuffix(name, ".damaged")
		}))
	}
}

func TestRepairKeepsWhatComesBeforeARecordThatCannotBeDecoded(t *testing.T) {
	files := crashedRun(t)
	payloads := [][]byte{filestore.Bodies(files[journalFile])[0]}
	for _, r := range storetest.Records(7, 3) {
		encoded, err := snapshot.AppendRecord([]byte{2}, &r)
		require.NoError(t, err)
		if r.Seq == 8 { // turn its time into a float, in a frame with the right checksum
			at := bytes.IndexByte(encoded, 0xcf)
			require.Positive(t, at)
			encoded[at] = 0xcb
		}
		payloads = append(payloads, encoded)
	}
	p := newPlace(t)
	journal := filestore.FramesOf(0, payloads...)
	p.write(t, files, journalFile, journal)
	run, err := p.store.Load(t.Context(), "run")
	require.NoError(t, err)
	_, err = run.Snapshot()
	require.ErrorIs(t, err, snapshot.ErrCorrupt)

	report, err := p.store.Repair(t.Context(), "run")
	require.NoError(t, err)
	require.Equal(t, uint64(7), report.Kept)
	require.Equal(t, uint64(7), report.Damage.LastSeq)
	require.False(t, report.IsWhole)
	require.Equal(t, []string{snapshotFile + ".damaged", journalFile + ".damaged"}, report.Damaged)
	requireRecords(t, load(t, p.store, "run").Records, 7)
	kept := readRun(t, p.dir)
	require.Equal(t, files[snapshotFile], kept[snapshotFile+".damaged"])
	require.Equal(t, journal, kept[journalFile+".damaged"])
}

func TestRepairLeavesAWholeRunAlone(t *testing.T) {
	files := crashedRun(t)
	p := newPlace(t)
	p.write(t, files, "", nil)
	report, err := p.store.Repair(t.Context(), "run")
	require.NoError(t, err)
	require.Nil(t, report.Damage)
	require.True(t, report.IsWhole)
	require.Equal(t, uint64(crashedRecords), report.Kept)
	after := readRun(t, p.dir)
	delete(files, "lock")
	delete(after, "lock")
	require.Equal(t, files, after)

	_, err = p.store.Repair(t.Context(), "none")
	require.ErrorIs(t, err, snapshot.ErrNotFound)
	_, err = p.store.Repair(t.Context(), "../run")
	require.Error(t, err)
	j, err := p.store.Open(t.Context(), "run", snapshot.OpenOptions{})
	require.NoError(t, err)
	_, err = p.store.Repair(t.Context(), "run")
	require.ErrorIs(t, err, snapshot.ErrLocked)
	require.NoError(t, closeAs(j, snapshot.StatusCompleted))
}

func TestTheChecksumsAreThoseOfTheFormat(t *testing.T) {
	journal := crashedRun(t)[journalFile]
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	offsets := filestore.Frames(journal)
	syncedTo := []int64{0, offsets[1], offsets[1], offsets[3], offsets[3], offsets[5], offsets[5]}
	for i, at := range offsets {
		check := binary.BigEndian.Uint32(journal[at:])
		length := binary.BigEndian.Uint32(journal[at+4:])
		unsynced := binary.BigEndian.Uint32(journal[at+8:])
		sum := binary.BigEndian.Uint32(journal[at+12:])
		head := append(binary.BigEndian.AppendUint64(nil, uint64(at)), journal[at+4:at+16]...)
		require.Equal(t, crc32.Checksum(head, castagnoli), check)
		require.Equal(t, crc32.Checksum(journal[at+16:at+16+int64(length)], castagnoli), sum)
		require.Equal(t, syncedTo[i], at-int64(unsynced))
	}
}

func FuzzFilesOfARun(f *testing.F) {
	files := crashedRun(f)
	f.Add(files[snapshotFile], files[journalFile])
	f.Add([]byte{}, files[journalFile][:100])
	f.Fuzz(func(t *testing.T, compacted, journal []byte) {
		fuzzInterpret(t, compacted, journal)
	})
}

// FuzzFrames puts its input into frames with correct checksums, so that the
// fuzzer reaches the code after the check.
func FuzzFrames(f *testing.F) {
	bodies := filestore.Bodies(crashedRun(f)[journalFile])
	f.Add(bodies[0], bodies[1], bodies[len(bodies)-1], 0)
	f.Add(filestore.Header("run", 0, 0), bodies[1], bodies[2], 200)
	f.Fuzz(func(t *testing.T, first, second, third []byte, synced int) {
		data := filestore.FramesOf(int64(max(synced, 0)), first, second, third)
		fuzzInterpret(t, nil, data)
		fuzzInterpret(t, crashedRun(t)[snapshotFile], data)
	})
}

func fuzzInterpret(t *testing.T, compacted, journal []byte) {
	run, damage, err := filestore.Interpret("run", compacted, journal)
	if err != nil {
		if !errors.Is(err, snapshot.ErrCorrupt) && !errors.Is(err, snapshot.ErrFormat) {
			t.Fatal(err)
		}
		return
	}
	require.Equal(t, "run", run.RunID)
	require.Equal(t, uint64(run.Len()), run.LastSeq)
	if damage != nil {
		require.LessOrEqual(t, damage.LastSeq, run.LastSeq)
	}
	seq := uint64(0)
	for rec, err := range run.Records() {
		if err != nil { // only the number and the length were checked before
			require.True(t, errors.Is(err, snapshot.ErrCorrupt) || errors.Is(err, snapshot.ErrFormat), "%v", err)
			return
		}
		seq++
		require.Equal(t, seq, rec.Seq)
		require.Equal(t, "run", rec.RunID)
		again, err := run.Record(seq)
		require.NoError(t, err)
		want, wantErr := snapshot.AppendRecord(nil, &rec) // compare encoded records, because NaN is not equal to itself
		got, gotErr := snapshot.AppendRecord(nil, &again)
		require.Equal(t, want, got)
		require.Equal(t, wantErr, gotErr)
	}
	require.Equal(t, run.LastSeq, seq)
}

func TestCoveredJournalsAreNotRead(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	covered := make(map[string][]byte)
	for seq := uint64(1); seq <= 10; seq += 2 {
		j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		require.NoError(t, j.Append(storetest.Records(seq, 2)...))
		if seq == 5 {
			require.NoError(t, closeAs(j, snapshot.StatusPaused)) // compacts the run
		} else {
			filestore.Abandon(j)
		}
		maps.Copy(covered, readRun(t, dir))
		for name, data := range covered { // as if the compaction had not removed them
			if strings.HasSuffix(name, ".journal") {
				require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "run", name), data, 0o600))
			}
		}
		requireRecords(t, load(t, s, "run").Records, int(seq)+1)
	}
	require.Greater(t, len(names(t, filepath.Join(dir, "runs", "run"))), 5)
}

// If a file system loses the blocks at the end of a snapshot, a hole remains.
func TestRepairKeepsWhatComesBeforeTheHoleAtTheEndOfASnapshot(t *testing.T) {
	const n = 3000
	files := endedRun(t, storetest.Records(1, n), snapshot.StatusCompleted)
	whole := files[snapshotFile]
	cut := len(whole) * 3 / 4 / 4096 * 4096
	p := newPlace(t)
	p.write(t, files, snapshotFile, whole[:cut])
	require.NoError(t, os.Truncate(filepath.Join(p.dir, "runs", "run", snapshotFile), int64(len(whole))))
	_, err := p.store.Load(t.Context(), "run")
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
	report, err := p.store.Repair(t.Context(), "run")
	require.NoError(t, err)
	require.Greater(t, report.Kept, uint64(n/2))
	require.Equal(t, uint64(n), report.Kept+report.Lost)
	requireRecords(t, load(t, p.store, "run").Records, int(report.Kept))
}
