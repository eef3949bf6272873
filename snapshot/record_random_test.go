package snapshot_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// randomRecord returns a record with random values in all fields.
func randomRecord(tb testing.TB, rng *rand.Rand, seq uint64) record.Record {
	r := record.Record{
		Seq:    seq,
		Kind:   record.Kind(1 + rng.IntN(int(record.KindCompensation))),
		Status: record.Status(1 + rng.IntN(int(record.StatusRecorded))),
		Reason: record.Reason(rng.IntN(int(record.ReasonGroupTimeout) + 1)),
		Stage:  record.Stage(rng.IntN(int(record.StageWait) + 1)),
		Class:  record.Class(rng.IntN(int(record.ClassBreaker) + 1)),

		DelaySource: record.Source(rng.IntN(4)),
		Attempt:     rng.IntN(1 << (1 + rng.IntN(31))),
		MaxAttempts: rng.IntN(100) + core.Unlimited,
		WillRetry:   rng.IntN(2) == 0,
		Replayed:    rng.IntN(2) == 0,
		Generation:  rng.Uint64() >> rng.IntN(64),
		Ordinal:     rng.IntN(1<<(1+rng.IntN(31))) - rng.IntN(100),
		Duration:    randomDuration(rng),
		Elapsed:     randomDuration(rng),
		Delay:       randomDuration(rng),
		Name:        randomText(rng),
	}
	if rng.IntN(10) > 0 {
		r.Time = time.Unix(0, int64(rng.Uint64())).UTC()
	}
	r.Address = randomAddress(tb, rng)
	r.Err = randomError(rng)
	if r.Status == record.StatusInterrupted && rng.IntN(4) > 0 {
		r.Err = randomInterrupt(rng)
	}
	if rng.IntN(3) > 0 {
		r.Detail = randomDetail(tb, rng)
	}
	return r
}

func randomDuration(rng *rand.Rand) time.Duration {
	return time.Duration(rng.Uint64() >> rng.IntN(64))
}

func randomText(rng *rand.Rand) string {
	texts := []string{"", "get_weather", "größe", "a\x00b", "\xff\xfe", "日本語", string(make([]byte, 300)), string(make([]byte, 70_000))}
	return texts[rng.IntN(len(texts))]
}

func randomBytes(rng *rand.Rand) []byte {
	if rng.IntN(4) == 0 {
		return nil
	}
	b := make([]byte, rng.IntN(1<<(1+rng.IntN(16))))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func randomAddress(tb testing.TB, rng *rand.Rand) record.Address {
	paths := []string{
		"", "assistant", "assistant/get_weather", "assistant/get_weather#2", "assistant/step:collect",
		"assistant@2/get_weather", "assistant/group:collect/3/get_weather", "a%2Fb/c%25#17", "größe/日本語#3",
	}
	path := paths[rng.IntN(len(paths))]
	for path != "" && rng.IntN(3) == 0 {
		path = fmt.Sprintf("agent@%d/%s", 2+rng.IntN(1000), path)
	}
	a, err := record.ParseAddress(path)
	require.NoError(tb, err)
	return a
}

type serviceError struct {
	Code  int           `json:"code"`
	Again time.Duration `json:"again"`
}

func (e *serviceError) Error() string             { return fmt.Sprint("service: ", e.Code) }
func (e *serviceError) HTTPStatusCode() int       { return e.Code }
func (e *serviceError) RetryAfter() time.Duration { return e.Again }

var errDomain = errors.New("out of stock")

func init() {
	record.RegisterError("snapshot_test.errDomain", errDomain)
	record.RegisterErrorType[*serviceError]("snapshot_test.serviceError")
}

// knownErrors are errors that errors.Is must find in a restored error.
var knownErrors = []error{
	io.EOF, io.ErrUnexpectedEOF, fs.ErrNotExist, context.Canceled, context.DeadlineExceeded,
	core.ErrExhausted, core.ErrPermanent, core.ErrAttemptOver, errDomain,
}

// lostErrors are errors that errors.Is must not find in a restored error: one
// that is not registered, and ErrInterrupted, which is never found in a failure.
var lostErrors = []error{errors.New("unheard of"), record.ErrInterrupted}

func randomError(rng *rand.Rand) error {
	switch rng.IntN(8) {
	case 0:
		return errors.New(randomText(rng))
	case 1:
		return knownErrors[rng.IntN(len(knownErrors))]
	case 2:
		return fmt.Errorf("wrapped: %w", errors.Join(randomError(rng), randomError(rng)))
	case 3:
		return core.Permanent(errDomain)
	case 4:
		return &serviceError{400 + rng.IntN(200), randomDuration(rng)}
	case 5:
		return lostErrors[rng.IntN(len(lostErrors))]
	case 6:
		return &core.CallError{Name: "inner", Reason: record.ReasonExhausted, Attempts: 3, Err: &serviceError{Code: 503}}
	}
	return nil
}

// origin is the path of a part of a run.
type origin string

func (o origin) Path() string { return string(o) }

func randomInterrupt(rng *rand.Rand) *record.InterruptedError {
	e := &record.InterruptedError{
		Reason: record.InterruptReason(randomText(rng)), Message: randomText(rng), By: randomText(rng),
		Question: randomText(rng), Awaits: record.AwaitKind(rng.IntN(5)), Cause: randomError(rng),
	}
	if rng.IntN(2) == 0 {
		e.Origin = origin(randomText(rng))
	}
	return e
}

func randomEffect(rng *rand.Rand) *record.Effect {
	return &record.Effect{
		RunID: randomText(rng), Seq: rng.Uint64() >> 8, Kind: record.KindTool, Name: randomText(rng), Input: record.Hash{byte(rng.Uint32())},
		InDoubt: rng.IntN(2) == 0, NoOutput: rng.IntN(2) == 0, Output: randomBytes(rng), Artifact: randomText(rng),
	}
}

func randomDetail(tb testing.TB, rng *rand.Rand) *record.Detail {
	tb.Helper()
	d := &record.Detail{
		Input: randomBytes(rng), Output: randomBytes(rng), Artifact: randomText(rng), Message: randomText(rng),
		Severity: slog.Level(rng.IntN(20) - 8), NoStore: rng.IntN(2) == 0, Compensable: rng.IntN(2) == 0, Cached: rng.IntN(2) == 0,
	}
	if rng.IntN(4) == 0 {
		d.Branches, d.By = rng.IntN(100), randomText(rng)
		for range rng.IntN(3) {
			d.Unrecorded = append(d.Unrecorded, record.Claim{
				Ordinal: rng.IntN(9) - 4, Kind: record.Kind(1 + rng.IntN(int(record.KindBranch))), Name: randomText(rng),
				Input: record.Hash{byte(rng.Uint32()), 15: byte(rng.Uint32())},
			})
		}
	}
	if rng.IntN(8) == 0 {
		d.Fingerprint, d.Overlaps = []byte{byte(rng.Uint32())}, rng.IntN(2) == 0
		d.Awaits = record.AwaitKind(rng.IntN(4))
	}
	if rng.IntN(8) == 0 {
		d.Replaces = &record.Replaced{Seq: rng.Uint64() >> 8, Status: record.StatusFailed, Attempts: rng.IntN(9)}
	}
	if rng.IntN(8) == 0 {
		d.Irreversible, d.Effect, d.SetInFork = true, randomEffect(rng), rng.IntN(2) == 0
		d.Signal, d.ToolCall = randomText(rng), randomText(rng)
		for range rng.IntN(3) {
			d.InputArtifacts = append(d.InputArtifacts, randomText(rng))
		}
		d.AfterReworded = rng.IntN(2) == 0
		for range rng.IntN(3) {
			d.NamedCalls = append(d.NamedCalls, randomAddress(tb, rng))
		}
	}
	if rng.IntN(8) == 0 {
		d.Fork = &record.Fork{Keys: randomText(rng)}
		for range rng.IntN(3) {
			d.Fork.Undone = append(d.Fork.Undone, record.UndoneCalls{Place: randomText(rng), Times: rng.IntN(9)})
			d.Fork.Made = append(d.Fork.Made, record.MadeCall{Place: randomText(rng), Input: record.Hash{15: byte(rng.Uint32())}})
			d.Fork.Effects = append(d.Fork.Effects, *randomEffect(rng))
		}
	}
	if rng.IntN(2) == 0 {
		d.InputHash = record.Hash{byte(rng.Uint32()), 15: byte(rng.Uint32())}
		d.WholeInput = record.Hash{byte(rng.Uint32()), 15: byte(rng.Uint32())}
	}
	if rng.IntN(2) == 0 {
		d.Usage = record.Usage{InputTokens: rng.IntN(1 << 20), OutputTokens: rng.IntN(10), Cost: rng.Float64()}
	}
	if rng.IntN(2) == 0 {
		d.Metadata = make(map[string]any)
		for range rng.IntN(5) {
			d.Metadata[randomText(rng)] = randomValue(rng, 0)
		}
	}
	return d
}

// randomValue returns a value of a type that restored metadata can have.
func randomValue(rng *rand.Rand, depth int) any {
	if depth < 3 {
		switch rng.IntN(6) {
		case 0:
			list := make([]any, rng.IntN(4))
			for i := range list {
				list[i] = randomValue(rng, depth+1)
			}
			return list
		case 1:
			m := make(map[string]any)
			for range rng.IntN(4) {
				m[randomText(rng)] = randomValue(rng, depth+1)
			}
			return m
		}
	}
	return []any{
		nil, true, int64(rng.Uint64()), ^uint64(0) - uint64(rng.IntN(9)), rng.Float64(), randomText(rng),
		[]byte{1, byte(rng.Uint32())},
		time.Unix(rng.Int64N(1<<40), rng.Int64N(1e9)).UTC(),
	}[rng.IntN(8)]
}

// assertSameRecord compares all fields of two records. It compares their errors by message, and
// with errors.Is and errors.As.
func assertSameRecord(t *testing.T, want, got record.Record) {
	t.Helper()
	assertSameError(t, want.Err, got.Err)
	want.Err, got.Err = nil, nil
	assert.Equal(t, want, got)
}

func assertSameError(t *testing.T, want, got error) {
	t.Helper()
	if want == nil {
		assert.NoError(t, got)
		return
	}
	if interrupt, ok := want.(*record.InterruptedError); ok { //nolint:errorlint // the error itself, not one that it wraps
		assertSameInterrupt(t, interrupt, got)
		return
	}
	require.IsType(t, &record.Error{}, got)
	assert.Equal(t, record.ErrorOf(want).Error(), got.Error())
	assert.Equal(t, record.Classify(want), record.Classify(got))
	assert.Equal(t, record.ErrorOf(want), got)
	wantStatus, _ := record.HTTPStatus(want)
	status, _ := record.HTTPStatus(got)
	assert.Equal(t, wantStatus, status)
	for _, known := range knownErrors {
		assert.Equal(t, errors.Is(want, known), errors.Is(got, known), "%v is %v", want, known)
	}
	for _, lost := range lostErrors {
		assert.NotErrorIs(t, got, lost)
	}
	var wantService, service *serviceError
	assert.Equal(t, errors.As(want, &wantService), errors.As(got, &service))
	assert.Equal(t, wantService, service)
}

func assertSameInterrupt(t *testing.T, want *record.InterruptedError, got error) {
	t.Helper()
	e, ok := got.(*record.InterruptedError) //nolint:errorlint // the error itself, not one that it wraps
	require.True(t, ok, "%T", got)
	if kept := *want; want.Cause != nil { // the length of the cause's text is limited
		kept.Cause = record.ErrorOf(want.Cause)
		assert.Equal(t, kept.Error(), e.Error())
	} else {
		assert.Equal(t, want.Error(), e.Error())
	}
	if want.Origin == nil {
		assert.Nil(t, e.Origin)
	} else {
		require.NotNil(t, e.Origin)
		assert.Equal(t, want.Origin.Path(), e.Origin.Path())
	}
	assert.Equal(t, []string{string(want.Reason), want.Message, want.By, want.Question}, []string{string(e.Reason), e.Message, e.By, e.Question})
	assert.ErrorIs(t, e, record.ErrInterrupted)
	assertSameError(t, want.Cause, e.Cause)
}
