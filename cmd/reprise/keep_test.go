package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestVerifyReadsEverything(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "one", false, snapshot.Metadata{})
	weather(t, dir, "two", true, snapshot.Metadata{})
	got := call(t, dir, "verify").text(t)
	assert.Regexp(t, `(?m)^ok       one \(\d+ records, 1 artifact\)$`, got)
	assert.Regexp(t, `(?m)^ok       two \(\d+ records, 0 artifacts\)$`, got)
	assert.NotContains(t, call(t, dir, "verify", "two").text(t), "one")
	call(t, dir, "verify", "two", "three").stderrIs(t, exitFailure, "reprise: "+noRun("three", dir)+"\n")
}

func TestRunThatIsDeletedWhileAllAreVerifiedIsSkipped(t *testing.T) {
	dir := t.TempDir()
	for _, id := range []string{"c", "b", "a"} { // verified in the opposite order
		weather(t, dir, id, false, snapshot.Metadata{})
	}
	inbox := filepath.Join(dir, "runs", "a", "inbox")
	require.NoError(t, os.MkdirAll(inbox, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(inbox, "junk"), []byte("x"), 0o600))
	warned := 0
	got := callWith(t, dir, func(env *environment) {
		env.stderr = writerFunc(func(p []byte) (int, error) { // the warning about the inbox of run a
			warned++
			assert.NoError(t, newStore(t, dir).Delete(t.Context(), "b"))
			return len(p), nil
		})
	}, "verify")
	assert.Equal(t, 1, warned)
	assert.Equal(t, exitOK, got.code)
	assert.Regexp(t, `^ok       a .*\nok       c .*\n$`, got.stdout)
}

func (r result) stderrIs(t *testing.T, code int, text string) {
	t.Helper()
	assert.Equal(t, code, r.code)
	assert.Equal(t, text, r.stderr)
}

func TestVerifyFindsDamageAndRepairSavesTheRest(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "good", false, snapshot.Metadata{})
	damage(t, dir, weather(t, dir, "oslo", false, snapshot.Metadata{}))
	got := call(t, dir, "verify")
	got.stderrIs(t, exitFailure, "reprise: 1 of 2 runs damaged or unreadable; `reprise repair RUN` saves what can be read of a damaged run\n")
	assert.Regexp(t, `(?m)^BAD      oslo: run oslo is damaged: 00000001.journal, byte \d+, after record \d+: .+$`, got.stdout)
	assert.Contains(t, got.stdout, "ok       good")

	var verdicts []verdict
	inJSON := call(t, dir, "verify", "--json")
	inJSON.stderrIs(t, exitFailure, "")
	require.NoError(t, json.Unmarshal([]byte(inJSON.stdout), &verdicts))
	require.Len(t, verdicts, 2)
	assert.NotEqual(t, verdicts[0].OK, verdicts[1].OK)

	shown := call(t, dir, "show", "oslo")
	assert.Equal(t, exitFailure, shown.code)
	assert.Regexp(t, "^reprise: run oslo is damaged: .*; `reprise repair oslo` saves what can be read\n$", shown.stderr)

	got = call(t, dir, "repair", "oslo")
	assert.Equal(t, exitFailure, got.code)
	assert.Regexp(t, `(?m)^repaired: \d+ records kept, [1-9]\d* known to be lost$`, got.stdout)
	assert.Regexp(t, `(?m)\.damaged$`, got.stdout)
	assert.Regexp(t, `^reprise: WARNING: run oslo lost \d+ records: calls whose outcomes were lost are made again.*; to continue it: open it again with its program; to end it instead: reprise cancel oslo\n$`, got.stderr)
	assert.Regexp(t, `(?m)^oslo +interrupted .* replay: a repair has lost \d+ records: `, call(t, dir, "runs").text(t))
	assert.Regexp(t, `^run oslo is not damaged \(\d+ records\); nothing was done\n$`, call(t, dir, "repair", "oslo").text(t))
	call(t, dir, "verify").text(t)
	assert.Contains(t, call(t, dir, "repair", "oslo", "--json").text(t), `"damaged": false`)
}

func TestRepairInJSONWarnsToo(t *testing.T) {
	dir := t.TempDir()
	damage(t, dir, weather(t, dir, "oslo", false, snapshot.Metadata{}))
	got := call(t, dir, "repair", "oslo", "--json")
	assert.Equal(t, exitFailure, got.code)
	var report repairJSON
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &report))
	assert.NotZero(t, report.Lost)
	assert.Regexp(t, `^{"error":"WARNING: run oslo lost .*","code":"lost"}\n$`, got.stderr)
}

func TestRepairThatLosesNothingExitsWithZero(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	compact(t, dir, "oslo")
	name := newest(t, dir, "oslo")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	at := bytes.LastIndex(data, []byte("checksums")) // after the records
	require.Positive(t, at)
	data[at] ^= 1
	require.NoError(t, os.WriteFile(name, data, 0o600))
	assert.Contains(t, call(t, dir, "repair", "oslo").text(t), " records kept, 0 known to be lost\n")
	assert.Regexp(t, `(?m)^oslo +completed `, call(t, dir, "runs").text(t))
}

func TestVerifyFindsMissingAndChangedArtifacts(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	names, err := filepath.Glob(filepath.Join(dir, "artifacts", "??", "*"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	require.NoError(t, os.WriteFile(names[0], []byte("other"), 0o600))
	got := call(t, dir, "verify")
	assert.Equal(t, exitFailure, got.code)
	assert.Regexp(t, `(?m)^BAD      oslo: record \d+, agent/tell: damaged: artifact [0-9a-f]{64}: the stored data has the hash [0-9a-f]{64}$`, got.stdout)
	assert.Equal(t, "reprise: 1 of 1 run damaged or unreadable; copy the missing artifacts into "+filepath.Join(dir, "artifacts")+
		", from a backup or from the store that the run came from\n", got.stderr, "repair changes nothing")
	require.NoError(t, os.Remove(names[0]))
	assert.Regexp(t, `(?m)^BAD      oslo: record \d+, agent/tell: no artifact "[0-9a-f]{64}"$`, call(t, dir, "verify").stdout)
}

// A fork refers to the outputs of those calls of its parent that it may take over. The parent
// itself may be deleted.
func TestVerifyAndImportMissTheEffectsThatAForkMayTakeOver(t *testing.T) {
	dir := t.TempDir()
	store := newStore(t, dir)
	ref, err := store.Put(t.Context(), []byte("the output of a payment"))
	require.NoError(t, err)
	j, err := store.Open(t.Context(), "fork", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	records := storetest.Records(1, 1)
	records[0].Detail = &record.Detail{Fork: &record.Fork{Effects: []record.Effect{{RunID: "original", Artifact: ref}}}}
	require.NoError(t, j.Append(records...))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusPaused}))
	file := export(t, dir, "fork")

	other := t.TempDir()
	newStore(t, other)
	assert.Contains(t, call(t, other, "import", file).stderr, "refers to 1 artifact that this store does not have")
	assert.Regexp(t, `(?m)^BAD      fork: record 1, .*: no artifact "`+ref+`"$`, call(t, other, "verify").stdout)
}

func TestGCRemovesWhatNoRunRefersTo(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	assert.Equal(t, "removed 0 artifacts\n", call(t, dir, "gc", "--grace", "0s").text(t))
	call(t, dir, "delete", "-y", "oslo").text(t)
	assert.Equal(t, "removed 0 artifacts\n", call(t, dir, "gc").text(t), "the artifact is too new")
	dry := call(t, dir, "gc", "--grace", "0s", "--dry-run")
	assert.Equal(t, exitOK, dry.code)
	assert.Regexp(t, `^[0-9a-f]{64}\n$`, dry.stdout)
	assert.Equal(t, "would remove 1 artifact\n", dry.stderr)
	assert.JSONEq(t, `{"would_remove": ["`+strings.TrimSpace(dry.stdout)+`"]}`, call(t, dir, "gc", "--grace", "0s", "--dry-run", "--json").text(t))
	assert.JSONEq(t, `{"would_remove": []}`, call(t, dir, "gc", "--dry-run", "--json").text(t))
	assert.Equal(t, "{\n  \"removed\": 1\n}\n", call(t, dir, "gc", "--grace", "0s", "--json").text(t))
	call(t, dir, "gc", "--grace", "-1s").failed(t, exitUsage, "--grace -1s: want 0 or more")

	damage(t, dir, weather(t, dir, "bad", false, snapshot.Metadata{}))
	got := call(t, dir, "gc")
	assert.Equal(t, exitFailure, got.code)
	assert.Contains(t, got.stderr, "run bad is damaged")
	assert.Contains(t, got.stderr, "`reprise verify` shows what cannot be read; repair or delete it first")
}

// verify checks only runs, and the link is not a run.
func TestGCDoesNotReferToVerifyBecauseOfALink(t *testing.T) {
	dir := t.TempDir()
	newStore(t, dir)
	require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dir, "runs", "link")))
	got := call(t, dir, "gc")
	assert.Equal(t, exitFailure, got.code)
	assert.Regexp(t, "run link: .*; replace the link by its target, or delete it\n$", got.stderr)
	call(t, dir, "verify").text(t)
}

func TestRunOfANewerVersionIsReported(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	compact(t, dir, "oslo")
	name := newest(t, dir, "oslo")
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	setVersion99(t, data)
	require.NoError(t, os.WriteFile(name, data, 0o600))
	const want = "run oslo: 00000001.snapshot: unsupported format: the document has version 99, and this version of Reprise reads up to version 1; use a newer Reprise"
	for _, args := range [][]string{{"show", "oslo"}, {"repair", "oslo"}, {"questions", "oslo"}} {
		got := call(t, dir, args...)
		assert.Equal(t, exitFailure, got.code)
		assert.Contains(t, got.stderr, want)
	}
	assert.Contains(t, call(t, dir, "verify").stdout, want)
	assert.Contains(t, call(t, dir, "show", "oslo", "--json").stderr, `"code":"format"`)
}

// compact rewrites a run as one document.
func compact(t *testing.T, dir, runID string) {
	t.Helper()
	s := newStore(t, dir)
	j, err := s.Open(t.Context(), runID, snapshot.OpenOptions{})
	require.NoError(t, err)
	run := j.Restored()
	require.NoError(t, j.Append(record.Record{
		Seq: run.LastSeq + 1, Kind: record.KindLog, Status: record.StatusRecorded, Generation: run.Generation,
		Detail: &record.Detail{Message: strings.Repeat("a long line ", 2000)},
	}))
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: run.Status, Usage: run.Usage, Summary: run.Summary}))
	require.Equal(t, ".snapshot", filepath.Ext(newest(t, dir, runID)))
}

// setVersion99 sets the version of a document to 99. docs/format.md describes where it is.
func setVersion99(t *testing.T, data []byte) {
	t.Helper()
	at := bytes.Index(data, []byte("\xa7version\x01"))
	require.Positive(t, at)
	data[at+len("\xa7version")] = 99

	// Recompute the checksums at the end; otherwise the file would count as damaged.
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	lines := int(binary.BigEndian.Uint32(data[len(data)-8:]))
	table := data[len(data)-8-12*lines:]
	first := binary.BigEndian.Uint64(table)
	binary.BigEndian.PutUint32(table[8:], crc32.Checksum(data[:first], castagnoli))
	binary.BigEndian.PutUint32(table[len(table)-4:], crc32.Checksum(table[:len(table)-4], castagnoli))
}

func TestRunInTheDirectoryOfAnotherIsNotOfferedARepair(t *testing.T) {
	dir := t.TempDir()
	weather(t, dir, "oslo", false, snapshot.Metadata{})
	require.NoError(t, os.CopyFS(filepath.Join(dir, "runs", "paris"), os.DirFS(filepath.Join(dir, "runs", "oslo"))))
	for _, name := range []string{"show", "repair"} {
		call(t, dir, name, "paris").failed(t, exitFailure, "run paris: 00000001.journal belongs to run oslo: move it to that run, or delete it")
	}
}

// loadRun reads a run with its records.
func loadRun(t testing.TB, dir, runID string) *snapshot.Snapshot {
	t.Helper()
	run, err := newStore(t, dir).Load(t.Context(), runID)
	require.NoError(t, err)
	found, err := run.Snapshot()
	require.NoError(t, err)
	return found
}
