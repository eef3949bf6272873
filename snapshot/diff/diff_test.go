package diff_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-go/reprise/snapshot/diff"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

func TestCompareReturnsEveryChange(t *testing.T) {
	failed := testkit.CallRecord(t, "main/fetch", record.StatusFailed, nil)
	failed.Err, failed.Reason, failed.Attempt = errors.New("connection\nrefused"), record.ReasonExhausted, 2
	artifact := testkit.CallRecord(t, "main/render", record.StatusCompleted, nil)
	artifact.Detail = &record.Detail{Artifact: "aaaa"}
	other := artifact
	other.Detail = &record.Detail{Artifact: "bbbb"}

	a := testkit.Stored(snapshot.StatusInterrupted,
		testkit.CallRecord(t, "main", record.StatusStarted, nil),
		testkit.CallRecord(t, "main/same", record.StatusCompleted, 1),
		testkit.CallRecord(t, "main/gone", record.StatusCompleted, 1),
		failed, artifact,
		testkit.CallRecord(t, "main/answer", record.StatusCompleted, "yes"),
		testkit.ValueRecord(t, "city", "Oslo"), testkit.ValueRecord(t, "old", 1), testkit.ValueRecord(t, "same", 1),
		testkit.ValueRecord(t, "now", 5),
	)
	a.Metadata = snapshot.Metadata{Description: "d", Tags: []string{"a"}, Custom: map[string]string{"team": "x"}}
	b := testkit.Stored(snapshot.StatusCompleted,
		testkit.CallRecord(t, "main", record.StatusStarted, nil),
		testkit.CallRecord(t, "main/fetch", record.StatusStarted, nil),
		testkit.CallRecord(t, "main/fetch", record.StatusCompleted, 3),
		testkit.CallRecord(t, "main/new", record.StatusCompleted, 1),
		testkit.CallRecord(t, "main/same", record.StatusCompleted, 1), other,
		testkit.CallRecord(t, "main/answer", record.StatusCompleted, "no"),
		testkit.ValueRecord(t, "city", "Rome"), testkit.ValueRecord(t, "city", "Bergen"), testkit.ValueRecord(t, "same", 1),
		testkit.ValueRecord(t, "today", strings.Repeat("x", 200)),
		testkit.CallRecord(t, "main", record.StatusCompleted, 1),
	)
	b.Metadata = snapshot.Metadata{Description: "d", Pipeline: "p", Tags: []string{"a", "b"}}

	d := diff.Compare(a, b)
	assert.Equal(t, strings.TrimSpace(`
~ status "interrupted" → "completed"
- custom.team "x"
+ pipeline "p"
~ tags "a" → "a, b"
~ tool_call main started → completed
~ tool_call main/fetch failed (exhausted, attempt 3): connection refused → completed
+ tool_call main/new completed
~ tool_call main/render completed → completed (different output)
~ tool_call main/answer completed → completed (different output)
- tool_call main/gone completed
~ value "city" "Oslo" → "Bergen"
- value "now" 5
- value "old" 1
+ value "today" "`+strings.Repeat("x", 78)+`…
- artifact aaaa
+ artifact bbbb`), d.String())
	assert.False(t, d.IsEmpty())
	for range 20 {
		require.Equal(t, d, diff.Compare(a, b))
	}
	require.Len(t, d.Events, 6)
	assert.Equal(t, diff.Added, d.Events[2].Change)
	assert.Nil(t, d.Events[2].Before)
	assert.Equal(t, record.StatusCompleted, d.Events[2].After.Status)
	assert.Equal(t, diff.Removed, d.Events[5].Change)
	assert.Equal(t, testkit.Address(t, "main/gone"), d.Events[5].Address)
}

func TestTimesAndNumbersAreNotDifferences(t *testing.T) {
	a := testkit.Stored("", testkit.CallRecord(t, "a", record.StatusCompleted, 1), testkit.CallRecord(t, "b", record.StatusCompleted, 1))
	b := testkit.Stored("", testkit.CallRecord(t, "b", record.StatusCompleted, 1), testkit.CallRecord(t, "a", record.StatusCompleted, 1))
	b.Updated = time.Now()
	b.Records[0].Time, b.Records[0].Duration = time.Now(), time.Second
	assert.Equal(t, "no difference", diff.Compare(a, b).String())
}

func TestDiffNamesChangesThatALineDoesNotShow(t *testing.T) {
	a, b := testkit.CallRecord(t, "a", record.StatusCompleted, 1), testkit.CallRecord(t, "a", record.StatusCompleted, 1)
	b.Detail.InputHash, b.Name = record.Hash{1}, "y"
	long := strings.Repeat("x", 500)
	assert.Equal(t, "~ tool_call a completed → completed (name \"x\" → \"y\", different input)\n"+
		`~ value "k" "`+long[:78]+`… → "`+long[:78]+`… (different value)`,
		diff.Compare(
			testkit.Stored("", a, testkit.ValueRecord(t, "k", long+"1")),
			testkit.Stored("", b, testkit.ValueRecord(t, "k", long+"2")),
		).String())
	assert.Equal(t, "change(9)", diff.Change(9).String())
}

func TestDiffTellsArtifactsApart(t *testing.T) {
	a, b := testkit.ValueRecord(t, "k", nil), testkit.ValueRecord(t, "k", nil)
	a.Detail, b.Detail = &record.Detail{Artifact: "aaaa"}, &record.Detail{Artifact: "bbbb"}
	assert.Equal(t, `~ value "k" (artifact) → (artifact) (different value)
- artifact aaaa
+ artifact bbbb`, diff.Compare(testkit.Stored("", a), testkit.Stored("", b)).String())
}

func TestDiffShowsBothStagesOfACall(t *testing.T) {
	a, b := testkit.CallRecord(t, "a", record.StatusInterrupted, nil), testkit.CallRecord(t, "a", record.StatusInterrupted, nil)
	a.Stage, b.Stage = record.StageHandler, record.StageWait
	assert.Equal(t, "~ tool_call a interrupted → interrupted (stage handler → wait)",
		diff.Compare(testkit.Stored("", a), testkit.Stored("", b)).String())
	a.Stage = record.StageNone
	assert.Equal(t, "~ tool_call a interrupted → interrupted (stage none → wait)",
		diff.Compare(testkit.Stored("", a), testkit.Stored("", b)).String())
}

func TestDiffShowsRetryLevels(t *testing.T) {
	a, b := testkit.Stored(snapshot.StatusCompleted), testkit.Stored(snapshot.StatusCompleted)
	a.Retry = snapshot.RetryLevels{"all": {MaxAttempts: 1}, "tool_call": {MaxAttempts: 1}}
	b.Retry = snapshot.RetryLevels{"all": {MaxAttempts: 1, AttemptTimeout: time.Second}, "llm_call": {MaxAttempts: 1}}
	d := diff.Compare(a, b)
	assert.False(t, d.IsEmpty())
	assert.Equal(t, `~ retry.all "1 attempt" → "1 attempt, 1s per attempt"
+ retry.llm_call "1 attempt"
- retry.tool_call "1 attempt"`, d.String())
	assert.True(t, diff.Compare(a, a).IsEmpty())
}
