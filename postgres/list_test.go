package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/postgres"
	"github.com/reprise-go/reprise/snapshot"
)

// randomFilter is one that selects some of the runs of TestFiltersAreThoseOfEveryStore.
func randomFilter(rng *rand.Rand, all []snapshot.Info) snapshot.Filter {
	var f snapshot.Filter
	statuses := []snapshot.Status{
		snapshot.StatusQueued, snapshot.StatusRunning, snapshot.StatusPaused, snapshot.StatusInterrupted, snapshot.StatusCompleted,
	}
	for range rng.IntN(3) {
		f.Status = append(f.Status, statuses[rng.IntN(len(statuses))])
	}
	for range rng.IntN(3) {
		f.Tags = append(f.Tags, texts[rng.IntN(len(texts))])
	}
	if rng.IntN(3) == 0 {
		f.Pipeline = texts[rng.IntN(len(texts))]
	}
	if rng.IntN(3) == 0 {
		f.Program = texts[rng.IntN(len(texts))]
	}
	if rng.IntN(3) == 0 {
		f.Since = all[rng.IntN(len(all))].Updated
	}
	if rng.IntN(3) == 0 {
		f.Until = all[rng.IntN(len(all))].Updated
	}
	f.Limit = rng.IntN(8)
	return f
}

// texts are some that a database might take for others, or not keep.
var texts = []string{"", "a", "A", "ä", "a%", "it's", "a\x00b", "a\xffb", "\uFFFD"}

// What SQL leaves out is what the filter does not select.
func TestFiltersAreThoseOfEveryStore(t *testing.T) {
	t.Parallel()
	s, rng := open(t, postgres.Options{Schema: newSchema(t), Mute: true}), rand.New(rand.NewPCG(1, 1))
	text := func() string { return texts[rng.IntN(len(texts))] }
	for i := range 120 {
		info := snapshot.Info{RunID: fmt.Sprintf("run-%03d", i), Program: text(), Metadata: snapshot.Metadata{Pipeline: text()}}
		for range rng.IntN(3) {
			info.Metadata.Tags = append(info.Metadata.Tags, text())
		}
		info.Status = []snapshot.Status{snapshot.StatusQueued, snapshot.StatusPaused, snapshot.StatusCompleted}[rng.IntN(3)]
		run, err := snapshot.NewRun(info, nil)
		require.NoError(t, err)
		_, err = s.Create(t.Context(), run)
		require.NoError(t, err)
		if rng.IntN(4) == 0 { // and stays open
			_, err := s.Open(t.Context(), info.RunID, snapshot.OpenOptions{})
			require.NoError(t, err)
		}
	}
	page, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 120)
	require.True(t, slices.IsSortedFunc(page.Runs, func(a, b snapshot.Info) int { return b.Updated.Compare(a.Updated) }))
	for range 300 {
		f := randomFilter(rng, page.Runs)
		var want, got []string
		for i := range page.Runs {
			if f.Matches(&page.Runs[i]) {
				want = append(want, page.Runs[i].RunID)
			}
		}
		limit := f.Limit
		for {
			part, err := s.List(t.Context(), f)
			require.NoError(t, err, "%+v", f)
			if limit > 0 {
				require.LessOrEqual(t, len(part.Runs), limit)
			}
			for _, info := range part.Runs {
				got = append(got, info.RunID)
			}
			if f.Before = part.Next; part.Next == "" {
				break
			}
		}
		require.Equal(t, want, got, "%+v", f)
	}
}

// TestRunsThatACrashHasLeftAreListedAsInterrupted: they are stored as running.
func TestRunsThatACrashHasLeftAreListedAsInterrupted(t *testing.T) {
	t.Parallel()
	schema := newSchema(t)
	killed, s := open(t, postgres.Options{Schema: schema, Mute: true}), open(t, postgres.Options{Schema: schema, Mute: true})
	_, err := killed.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	list := func(status snapshot.Status) int {
		page, err := s.List(t.Context(), snapshot.Filter{Status: []snapshot.Status{status}})
		require.NoError(t, err)
		return len(page.Runs)
	}
	assert.Equal(t, 1, list(snapshot.StatusRunning))
	assert.Equal(t, 0, list(snapshot.StatusInterrupted))
	postgres.Crash(killed)
	require.NoError(t, postgres.TakeAway(t.Context(), killed, s))
	assert.Equal(t, 0, list(snapshot.StatusRunning))
	assert.Equal(t, 1, list(snapshot.StatusInterrupted))
}

// BenchmarkList lists 50 of many runs: REPRISE_RUNS, or 10,000.
func BenchmarkList(b *testing.B) {
	runs := 10_000
	if set := os.Getenv("REPRISE_RUNS"); set != "" {
		var err error
		runs, err = strconv.Atoi(set)
		require.NoError(b, err)
	}
	schema := newSchema(b)
	s := open(b, postgres.Options{Schema: schema, Mute: true})
	info, err := snapshot.AppendInfo(nil, &snapshot.Info{RunID: "x", Status: snapshot.StatusCompleted, Program: "p", Created: time.Now(), Updated: time.Now()})
	require.NoError(b, err)
	conn, err := pgx.Connect(b.Context(), serverURL(b))
	require.NoError(b, err)
	defer func() { _ = conn.Close(b.Context()) }()
	in := pgx.Identifier{schema, "runs"}.Sanitize()
	_, err = conn.Exec(b.Context(), `insert into `+in+` (uid, id, version, opening, swaps, last_seq, info, status, program, pipeline, tags, updated)
		select 'u' || i, 'run-' || i, 1, '', '', 0, $2, case when i % 1000 = 0 then 'failed' else 'completed' end, 'program-' || i % 20, '',
			case when i % 500 = 0 then '{rare}'::text[] else '{}' end, 1700000000000000000 + i * 1000 from generate_series(1, $1::int) i`, runs, info)
	require.NoError(b, err)
	_, err = conn.Exec(b.Context(), `analyze `+in)
	require.NoError(b, err)
	all, err := s.List(b.Context(), snapshot.Filter{Limit: 1})
	require.NoError(b, err)
	middle := strconv.Itoa(1700000000000000000+runs/2*1000) + "/run-" + strconv.Itoa(runs/2)
	require.NotEmpty(b, all.Next)
	for name, f := range map[string]snapshot.Filter{
		"newest": {}, "middle": {Before: middle}, "failed": {Status: []snapshot.Status{snapshot.StatusFailed}},
		"unfinished": {Status: []snapshot.Status{snapshot.StatusQueued, snapshot.StatusPaused, snapshot.StatusInterrupted, snapshot.StatusRunning}},
		"program":    {Program: "program-7"}, "tag": {Tags: []string{"rare"}}, "no such tag": {Tags: []string{"none"}},
		"program and status": {Program: "program-7", Status: []snapshot.Status{snapshot.StatusFailed}},
	} {
		f.Limit = 50
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, err := s.List(b.Context(), f)
				require.NoError(b, err)
			}
		})
	}
}
