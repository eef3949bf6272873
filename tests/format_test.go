package tests

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

var addGolden = flag.Bool("add-golden", false, "write testdata/vN.snapshot and vN.json for the current version of the format, unless they exist")

// goldenSnapshots returns the names of the snapshot files of all released versions. A file is added
// for each new version, but files are never edited.
func goldenSnapshots(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("testdata/v*.snapshot")
	require.NoError(t, err)
	require.Len(t, files, snapshot.FormatVersion, "run go test ./tests -run TestAddGoldenSnapshot -add-golden once for a new version")
	return files
}

func TestSnapshotsOfEveryVersionAreRead(t *testing.T) {
	for _, file := range goldenSnapshots(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			got, err := json.Marshal(exported(t, data))
			require.NoError(t, err)
			want, err := os.ReadFile(goldenJSON(file))
			require.NoError(t, err)
			assert.JSONEq(t, string(want), string(got))
		})
	}
}

func TestErrorsOfAGoldenSnapshotAreStillFound(t *testing.T) {
	data, err := os.ReadFile("testdata/v1.snapshot")
	require.NoError(t, err)
	s := decoded(t, data)
	found := make(map[string]bool)
	for _, r := range s.Records {
		for name, is := range map[string]bool{
			"registered": errors.Is(r.Err, errOutOfStock), "standard": errors.Is(r.Err, io.ErrUnexpectedEOF),
			"reason": errors.Is(r.Err, core.ErrExhausted), "interrupt": r.Interrupt() != nil, "typed": isRefused(r.Err, 7),
		} {
			found[name] = found[name] || is
		}
	}
	assert.Equal(t, map[string]bool{"registered": true, "standard": true, "reason": true, "interrupt": true, "typed": true}, found)
}

func TestAddGoldenSnapshot(t *testing.T) {
	if !*addGolden {
		t.Skip("only with -add-golden, for a new version of the format")
	}
	file := fmt.Sprintf("testdata/v%d.snapshot", snapshot.FormatVersion)
	data, err := sample(t).Encode()
	require.NoError(t, err)
	text, err := json.MarshalIndent(exported(t, data), "", "  ")
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll("testdata", 0o755))
	add(t, file, data)
	add(t, goldenJSON(file), append(text, '\n'))
}

// add writes a new file. It fails if the file exists, because golden files are never edited.
func add(t *testing.T, name string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	require.NoError(t, err)
	_, err = f.Write(data)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

func goldenJSON(file string) string {
	return file[:len(file)-len(filepath.Ext(file))] + ".json"
}

// errOutOfStock and refusedError are errors that a user has registered.
var errOutOfStock = errors.New("out of stock")

type refusedError struct {
	Code int `json:"code"`
}

func (e *refusedError) Error() string { return fmt.Sprint("refused with code ", e.Code) }

func init() {
	record.RegisterError("tests.errOutOfStock", errOutOfStock)
	record.RegisterErrorType[*refusedError]("tests.refusedError")
}

func isRefused(err error, code int) bool {
	var e *refusedError
	return errors.As(err, &e) && e.Code == code
}

// groupPath is a path to a group.
type groupPath string

func (p groupPath) Path() string { return string(p) }

// sample returns a snapshot with records of every status and of most kinds.
func sample(t *testing.T) *snapshot.Snapshot {
	t.Helper()
	begin := time.Date(2026, 11, 20, 8, 30, 0, 123456789, time.UTC)
	s := &snapshot.Snapshot{Info: snapshot.Info{
		RunID: "run-2026-11-20", ParentID: "run-2026-11-19", Status: snapshot.StatusPaused, Generation: 2,
		Usage:   record.Usage{InputTokens: 1200, OutputTokens: 34, Cost: 0.0125},
		Created: begin, Updated: begin.Add(time.Hour),
		Metadata: snapshot.Metadata{
			Description: "größte Städte", Pipeline: "weather", Tags: []string{"prod", "eu"},
			Custom: map[string]string{"team": "blue", "cost centre": "12"},
		},
		Retry: snapshot.RetryLevels{
			snapshot.RetryOfAll: {MaxAttempts: core.Unlimited, Backoff: "fibonacci", InitialDelay: time.Second, MaxDelay: time.Hour, Multiplier: 2, Jitter: "0.25"},
			"llm_call":          {MaxAttempts: 5, Backoff: "exponential", Multiplier: 1.5, Jitter: "none", RetryTimeout: time.Minute, Functions: []string{"RetryOn", "StopWhen"}},
		},
	}}
	add := func(path string, r record.Record) {
		var err error
		r.Address, err = record.ParseAddress(path)
		require.NoError(t, err)
		r.RunID, r.Seq = s.RunID, uint64(len(s.Records))+1
		r.Time = begin.Add(time.Duration(len(s.Records)) * 1234567891 * time.Nanosecond)
		s.Records = append(s.Records, r)
	}
	encode := func(v any) []byte {
		data, err := record.Encode(v)
		require.NoError(t, err)
		return data
	}
	hash, err := record.HashOf("Oslo")
	require.NoError(t, err)

	add("", record.Record{Kind: record.KindRun, Status: record.StatusStarted, Name: "weather", Detail: &record.Detail{Message: "größte Städte"}})
	add("assistant", record.Record{
		Kind: record.KindAgent, Status: record.StatusStarted, Name: "assistant", MaxAttempts: 1,
		Detail: &record.Detail{InputHash: hash, Input: encode("Oslo")},
	})
	add("assistant/plan", record.Record{
		Kind: record.KindLLM, Status: record.StatusStarted, Name: "plan", MaxAttempts: core.Unlimited,
		Detail: &record.Detail{InputHash: hash, WholeInput: record.Hash{1, 2, 15: 16}},
	})
	add("assistant/plan", record.Record{
		Kind: record.KindLLM, Status: record.StatusCompleted, Name: "plan", MaxAttempts: core.Unlimited,
		Duration: 1530 * time.Millisecond, Elapsed: 1530 * time.Millisecond,
		Detail: &record.Detail{
			Output: encode(map[string]any{"cities": []string{"Oslo", "Bergen"}, "n": 2}),
			Usage:  core.Usage{InputTokens: 1200, OutputTokens: 34, Cost: 0.0125},
		},
	})
	collect, err := record.ParseAddress("assistant/collect")
	require.NoError(t, err)
	add("assistant/step:collect", record.Record{
		Kind: record.KindTool, Status: record.StatusStarted, Name: "get_weather", MaxAttempts: 3, Generation: 2, Ordinal: 3,
		Detail: &record.Detail{InputHash: hash, Unrecorded: []record.Claim{{Address: collect, Ordinal: 2, Kind: record.KindTool, Name: "collect", Input: hash}}},
	})
	add("assistant/group:all", record.Record{
		Kind: record.KindGroup, Status: record.StatusStarted, Name: "all", MaxAttempts: 1, Generation: 2, Ordinal: 4,
		Detail: &record.Detail{Branches: 3},
	})
	failure := record.Record{
		Kind: record.KindTool, Status: record.StatusFailed, Name: "get_weather", Stage: record.StageHandler, Class: record.ClassEOF,
		DelaySource: record.SourceServer, MaxAttempts: 3, WillRetry: true,
		Duration: 250 * time.Millisecond, Elapsed: 250 * time.Millisecond, Delay: 200 * 24 * time.Hour,
		Err: fmt.Errorf("get weather: %w", io.ErrUnexpectedEOF),
	}
	add("assistant/step:collect", failure)
	failure.Status, failure.WillRetry, failure.Duration, failure.Detail = record.StatusRetrying, false, 0, nil
	failure.Attempt++
	add("assistant/step:collect", failure)
	add("assistant/step:collect", record.Record{
		Kind: record.KindTool, Status: record.StatusFailed, Name: "get_weather", Reason: record.ReasonPermanent,
		Stage: record.StagePostcondition, Class: record.ClassPermanent, Attempt: 1, MaxAttempts: 3,
		Err: core.Permanent(fmt.Errorf("%w: %w", errOutOfStock, &refusedError{Code: 7})),
	})
	add("assistant@2/group:all/3/report#2", record.Record{
		Kind: record.KindAgent, Status: record.StatusFailed, Name: "report", Reason: record.ReasonExhausted, Stage: record.StageArtifact,
		Class: record.ClassServer, Attempt: 2, MaxAttempts: 3,
		Err: &core.CallError{Name: "fetch", Reason: record.ReasonExhausted, Attempts: 3, Err: &record.Error{
			Message: "503 Service Unavailable", Type: "*weather.Error", Class: record.ClassServer, Status: 503, After: 1500 * time.Millisecond,
		}},
	})
	add("assistant/render", record.Record{
		Kind: record.KindTool, Status: record.StatusCompleted, Name: "render", Duration: time.Second, Elapsed: time.Second,
		Detail: &record.Detail{Artifact: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"},
	})
	add("assistant/render", record.Record{
		Kind: record.KindTool, Status: record.StatusStarted, Name: "render", Generation: 2,
		Detail: &record.Detail{Replaces: &record.Replaced{Seq: 11, Status: record.StatusCompleted, Attempts: 1}},
	})
	add("assistant@2/pay", record.Record{
		Kind: record.KindTool, Status: record.StatusCompleted, Name: "pay", Stage: record.StageEntry,
		Detail: &record.Detail{Output: encode(1), Irreversible: true, SetInFork: true, Effect: &record.Effect{Address: collect, Seq: 7}},
	})
	add("assistant/collect", record.Record{
		Kind: record.KindTool, Status: record.StatusFailed, Name: "collect", Err: errors.New("a sum is missing"),
		Detail: &record.Detail{ToolCall: "call-1", NamedCalls: []record.Address{collect}},
	})
	add("assistant/model", record.Record{
		Kind: record.KindLLM, Status: record.StatusStarted, Name: "model",
		Detail: &record.Detail{InputArtifacts: []string{"sha256-1"}, AfterReworded: true, Signal: "paid-1"},
	})
	add("assistant/render", record.Record{Kind: record.KindTool, Status: record.StatusRecovered, Name: "render", Replayed: true})
	add("assistant/a%2Fb", record.Record{Kind: record.KindStep, Status: record.StatusCompleted, Name: "a/b", Detail: &record.Detail{Output: encode(time.UnixMilli(1795163400123).UTC())}})
	add("assistant/render", record.Record{Kind: record.KindValue, Status: record.StatusRecorded, Name: "city", Detail: &record.Detail{Output: encode("Oslo")}})
	add("", record.Record{Kind: record.KindValue, Status: record.StatusRecorded, Name: "city", Detail: &record.Detail{Output: encode("Bergen")}})
	add("assistant", record.Record{Kind: record.KindValue, Status: record.StatusRecorded, Name: "lost", Detail: &record.Detail{Output: encode(1)}})
	add("", record.Record{Kind: record.KindValue, Status: record.StatusRecorded, Name: "count", Detail: &record.Detail{Output: encode(2)}})
	add("assistant", record.Record{
		Kind: record.KindLog, Status: record.StatusRecorded,
		Detail: &record.Detail{Severity: slog.LevelWarn, Message: "slow\nservice", Metadata: map[string]any{
			"text": "größe", "n": 7, "negative": -7, "big": int64(math.MinInt64), "bigger": uint64(math.MaxUint64), "float": 1.5,
			"yes": true, "nothing": nil, "bytes": []byte{0, 255}, "at": time.UnixMilli(1795163400123), "list": []any{1, []string{"x"}},
			"map": map[int]string{1: "one"}, "error": io.EOF, "complex": complex(1, 2), "json": asJSON{`{"b":[1,"x"],"a":null}`},
		}},
	})
	add("assistant", record.Record{Kind: record.KindQuestion, Status: record.StatusAwaiting, Name: "assistant?1", Detail: &record.Detail{Awaits: record.AwaitAnswer, Message: "send it?"}})
	add("assistant", record.Record{
		Kind: record.KindAgent, Status: record.StatusAwaiting, Name: "assistant", Stage: record.StageHandler,
		Err: &core.InterruptedError{Reason: record.InterruptAwait, Message: "send it?", Question: "assistant?1", Awaits: record.AwaitAnswer},
	})
	add("assistant", record.Record{Kind: record.KindAnswer, Status: record.StatusRecorded, Name: "assistant?1", Detail: &record.Detail{Output: encode(true), By: "ann"}})
	add("assistant/group:all/1/fetch", record.Record{
		Kind: record.KindTool, Status: record.StatusInterrupted, Name: "fetch", Stage: record.StageWait,
		Err: &core.InterruptedError{Reason: record.InterruptGroup, Cause: errOutOfStock, Origin: groupPath("assistant/group:all")},
	})
	add("", record.Record{
		Kind: record.KindRun, Status: record.StatusInterrupted, Name: "weather", Elapsed: time.Hour,
		Err: &core.InterruptedError{Reason: record.InterruptUser, Message: "deploy", By: "ops"},
	})
	s.LastSeq = uint64(len(s.Records))
	return s
}

// exported returns a snapshot as JSON with the names that docs/format.md uses, in the form in which
// formatreader prints it.
func exported(t *testing.T, data []byte) map[string]any {
	t.Helper()
	s := decoded(t, data)
	var summary struct {
		Values    map[string]any `msgpack:"values"`
		Artifacts []string       `msgpack:"artifacts"`
		Retry     []byte         `msgpack:"retry"`
	}
	require.NoError(t, msgpack.Unmarshal(data, &summary))
	records := []any{}
	for i := range s.Records {
		records = append(records, exportedRecord(&s.Records[i]))
	}
	header := map[string]any{
		"run_id": s.RunID, "parent_run_id": s.ParentID, "status": s.Status,
		"metadata": map[string]any{
			"description": s.Metadata.Description, "pipeline": s.Metadata.Pipeline,
			"tags": s.Metadata.Tags, "custom": s.Metadata.Custom,
		},
		"created_at": nanoseconds(s.Created), "updated_at": nanoseconds(s.Updated),
		"due_at": nanoseconds(s.Due), "expires_at": nanoseconds(s.Expires),
		"owner": s.Owner, "program": s.Program, "program_version": s.Version,
		"priority": s.Priority, "restarts": s.Restarts, "pinned": s.Pinned, "retry_to": s.RetryTo, "refused_by": s.RefusedBy, "retry": exportedRetry(t, s.Retry, summary.Retry),
		"generation": s.Generation, "last_seq": s.LastSeq, "usage": exportedUsage(s.Usage),
		"values": summary.Values, "artifacts": summary.Artifacts, "stop": exportedStop(s.Stop),
	}
	return map[string]any{"header": header, "records": records}
}

func exportedUsage(u record.Usage) any {
	if u.IsZero() {
		return nil
	}
	return []any{u.InputTokens, u.OutputTokens, u.Cost}
}

func exportedStop(stop snapshot.Stop) any {
	if stop == (snapshot.Stop{}) {
		return nil
	}
	return map[string]any{"reason": stop.Reason, "by": stop.By, "message": stop.Message}
}

// exportedRetry returns the retry levels in the form that they have in the document, after
// comparing them with the decoded ones. In the first documents, there is a key "disabled", which is
// skipped.
func exportedRetry(t *testing.T, levels snapshot.RetryLevels, encoded []byte) any {
	t.Helper()
	if len(levels) == 0 {
		return nil
	}
	var kept, known map[string]map[string]any
	require.NoError(t, json.Unmarshal(encoded, &kept))
	require.NoError(t, json.Unmarshal(encoded, &known))
	for _, level := range known {
		delete(level, "disabled")
	}
	want, err := json.Marshal(known)
	require.NoError(t, err)
	got, err := json.Marshal(levels)
	require.NoError(t, err)
	assert.JSONEq(t, string(want), string(got))
	return kept
}

func exportedRecord(r *record.Record) map[string]any {
	return map[string]any{
		"seq": r.Seq, "time": nanoseconds(r.Time), "address": r.Address, "name": r.Name,
		"kind": uint8(r.Kind), "status": uint8(r.Status), "reason": uint8(r.Reason), "stage": uint8(r.Stage),
		"class": uint8(r.Class), "waiting": uint8(r.DelaySource), "attempt": r.Attempt, "max_attempts": r.MaxAttempts,
		"will_retry": r.WillRetry, "replayed": r.Replayed,
		"duration": decimal(r.Duration), "elapsed": decimal(r.Elapsed), "delay": decimal(r.Delay),
		"generation": r.Generation, "ordinal": r.Ordinal,
		"error": exportedError(r.Err), "detail": exportedDetail(r.Detail),
	}
}

func exportedError(err error) any {
	switch e := err.(type) { //nolint:errorlint // decoded records have exactly these types
	case *record.Error:
		typed := []any{}
		for _, one := range e.Typed {
			typed = append(typed, map[string]any{"name": one.Name, "value": one.Value})
		}
		return map[string]any{
			"form": 0, "message": e.Message, "type": e.Type, "class": uint8(e.Class), "status": e.Status,
			"after": decimal(e.After), "sentinels": append([]string{}, e.Sentinels...), "typed": typed,
		}
	case *core.InterruptedError:
		out := map[string]any{
			"form": 1, "reason": e.Reason, "message": e.Message, "by": e.By, "question": e.Question,
			"awaits": uint8(e.Awaits), "local": e.Origin != nil, "cause": exportedError(e.Cause),
		}
		if e.Origin != nil { // the field was added after the first snapshots
			out["origin"] = e.Origin.Path()
		}
		return out
	}
	return nil
}

func exportedDetail(d *record.Detail) any {
	if d == nil {
		return nil
	}
	out := map[string]any{
		"input_hash": nil, "input": d.Input, "output": d.Output, "artifact": d.Artifact, "usage": nil,
		"message": d.Message, "severity": int(d.Severity), "metadata": portable(d.Metadata),
	}
	if d.NoStore {
		out["no_store"] = true
	}
	if d.Awaits != 0 {
		out["awaits"] = uint8(d.Awaits)
	}
	if r := d.Replaces; r != nil {
		out["replaces"] = []any{r.Seq, uint8(r.Status), r.Attempts}
	}
	if d.Irreversible {
		out["irreversible"] = true
	}
	if e := d.Effect; e != nil {
		out["effect"] = []any{e.RunID, e.Address, e.Seq, uint8(e.Kind), e.Name, nil, e.InDoubt, e.NoOutput, nil, e.Artifact}
	}
	if d.SetInFork {
		out["set_in_fork"] = true
	}
	if d.Signal != "" {
		out["signal"] = d.Signal
	}
	if d.ToolCall != "" {
		out["tool_call_id"] = d.ToolCall
	}
	if len(d.InputArtifacts) > 0 {
		out["input_artifacts"] = d.InputArtifacts
	}
	if d.AfterReworded {
		out["after_reworded"] = true
	}
	if len(d.NamedCalls) > 0 {
		out["named_calls"] = d.NamedCalls
	}
	if d.Branches > 0 {
		out["branches"] = d.Branches
	}
	if len(d.Unrecorded) > 0 {
		var claims []any
		for _, c := range d.Unrecorded {
			claims = append(claims, []any{c.Address, c.Ordinal, uint8(c.Kind), c.Name, c.Input.String()})
		}
		out["unrecorded"] = claims
	}
	if !d.InputHash.IsZero() {
		out["input_hash"] = d.InputHash.String()
	}
	if d.Compensable {
		out["compensable"] = true
	}
	if d.By != "" {
		out["answered_by"] = d.By
	}
	if d.Cached {
		out["cached"] = true
	}
	if !d.WholeInput.IsZero() {
		out["whole_input_hash"] = d.WholeInput.String()
	}
	if usage := exportedUsage(d.Usage); usage != nil {
		out["usage"] = usage
	}
	return out
}

func decimal(d time.Duration) string { return strconv.FormatInt(int64(d), 10) }

func nanoseconds(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return strconv.FormatInt(t.UnixNano(), 10)
}

// portable returns v in the form in which JavaScript represents it: times have milliseconds, and
// integers that do not fit into a float64 are text.
func portable(v any) any {
	switch v := v.(type) {
	case int64:
		if v > 1<<53-1 || v < -(1<<53-1) {
			return strconv.FormatInt(v, 10)
		}
	case uint64:
		return strconv.FormatUint(v, 10)
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	case time.Time:
		return v.Format("2006-01-02T15:04:05.000Z")
	case []any:
		list := []any{}
		for _, element := range v {
			list = append(list, portable(element))
		}
		return list
	case map[string]any:
		if v == nil {
			return nil
		}
		m := make(map[string]any)
		for key, value := range v {
			m[key] = portable(value)
		}
		return m
	}
	return v
}

func decoded(t *testing.T, data []byte) *snapshot.Snapshot {
	t.Helper()
	run, err := snapshot.Decode(data)
	require.NoError(t, err)
	s, err := run.Snapshot()
	require.NoError(t, err)
	return s
}
