package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// randomFilter returns a filter that selects some of the given runs.
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
	if rng.IntN(4) == 0 {
		f.Version = texts[rng.IntN(len(texts))]
	}
	if rng.IntN(6) == 0 {
		f.Parent = fmt.Sprint("parent-", rng.IntN(3))
	}
	if rng.IntN(6) == 0 {
		f.ErrorClass = []string{"transient", "permanent"}[rng.IntN(2)]
	}
	f.Asking = rng.IntN(6) == 0
	if rng.IntN(3) == 0 {
		f.Text = searched[rng.IntN(len(searched))]
	}
	if rng.IntN(8) == 0 {
		f.Only = func(runID string) bool { return strings.HasSuffix(runID, "3") }
	}
	f.Sort, f.Ascending = sorts[rng.IntN(len(sorts))], rng.IntN(2) == 0
	f.Count = rng.IntN(2) == 0
	f.Limit = rng.IntN(8)
	return f
}

var sorts = []snapshot.Sort{
	snapshot.SortUpdated, snapshot.SortCreated, snapshot.SortEnded, snapshot.SortDuration, snapshot.SortCost, snapshot.SortTokens, snapshot.SortRetries,
}

// searched are texts to search for.
var searched = []string{"run-", "RUN-01", "a", "A%", "\xff", "\uFFFD", "\uFFFF", "_", `\`, "Ä", "why", "no such text", "it's\x00"}

// texts are strings that a database might confuse with others, or be unable to store.
var texts = []string{"", "a", "A", "ä", "a%", "it's", "a\x00b", "a\xffb", "\uFFFD", `a\"b`, "a,b}"}

// randomRun returns a run for randomFilter.
func randomRun(rng *rand.Rand, i int) snapshot.Info {
	text := func() string { return texts[rng.IntN(len(texts))] }
	info := snapshot.Info{RunID: fmt.Sprintf("run-%03d", i), Program: text(), Version: text()}
	info.Metadata = snapshot.Metadata{Pipeline: text(), Description: searched[rng.IntN(len(searched))]}
	for range rng.IntN(3) {
		info.Metadata.Tags = append(info.Metadata.Tags, text())
	}
	if rng.IntN(2) == 0 {
		info.ParentID = fmt.Sprint("parent-", rng.IntN(3))
	}
	info.Status = []snapshot.Status{snapshot.StatusQueued, snapshot.StatusPaused, snapshot.StatusCompleted}[rng.IntN(3)]
	info.Created = time.Unix(int64(rng.IntN(5)), 0).UTC()
	return info
}

// end closes a run with random figures.
func end(t *testing.T, s *postgres.Store, rng *rand.Rand, runID string) {
	j, err := s.Open(t.Context(), runID, snapshot.OpenOptions{})
	require.NoError(t, err)
	e := snapshot.End{Status: []snapshot.Status{snapshot.StatusPaused, snapshot.StatusCompleted, snapshot.StatusFailed}[rng.IntN(3)]}
	e.Usage = record.Usage{InputTokens: rng.IntN(3), OutputTokens: rng.IntN(3), Cost: float64(rng.IntN(3)) / 7}
	e.Summary.Retries = rng.IntN(3)
	if rng.IntN(2) == 0 {
		e.Summary.LastError = &snapshot.Failure{Class: []string{"transient", "permanent"}[rng.IntN(2)], Message: searched[rng.IntN(len(searched))]}
	}
	if rng.IntN(3) == 0 {
		e.Summary.Asking, e.Summary.Questions = 1, []snapshot.OpenQuestion{{ID: "q", Text: "Why " + texts[rng.IntN(len(texts))] + "?"}}
	}
	require.NoError(t, j.Close(t.Context(), e))
}

// Lists of the database are the same as those of a store in memory.
func TestListsAreThoseOfEveryStore(t *testing.T) {
	t.Parallel()
	s, rng := open(t, postgres.Options{Schema: newSchema(t), Mute: true}), rand.New(rand.NewPCG(1, 1))
	for i := range 120 {
		info := randomRun(rng, i)
		run, err := snapshot.NewRun(info, nil)
		require.NoError(t, err)
		_, err = s.Create(t.Context(), run)
		require.NoError(t, err)
		switch rng.IntN(4) {
		case 0: // the run stays open
			_, err := s.Open(t.Context(), info.RunID, snapshot.OpenOptions{})
			require.NoError(t, err)
		case 1, 2:
			end(t, s, rng, info.RunID)
		}
	}
	page, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	require.Len(t, page.Runs, 120)
	for i := range 400 {
		postgres.SetMaxSorted(s, []int{5000, 10, 0}[i%3])
		f := randomFilter(rng, page.Runs)
		all := f
		all.Limit = 0
		want, err := storekit.Page(all, page.Runs)
		require.NoError(t, err)
		var got []string
		for limit := f.Limit; ; {
			part, err := s.List(t.Context(), f)
			require.NoError(t, err, "%+v", f)
			require.Equal(t, want.Counts, part.Counts, "%+v", f)
			if limit > 0 {
				require.LessOrEqual(t, len(part.Runs), limit)
			}
			got = append(got, runIDs(part.Runs)...)
			if f.After = part.Next; part.Next == "" {
				break
			}
		}
		require.Equal(t, runIDs(want.Runs), got, "%+v", f)
	}
}

func runIDs(all []snapshot.Info) (ids []string) {
	for i := range all {
		ids = append(ids, all[i].RunID)
	}
	return ids
}

// TestRunsThatACrashHasLeftAreListedAsInterrupted checks runs that are still stored as running.
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

// BenchmarkList lists 50 of the stored runs. REPRISE_RUNS sets how many are stored; the default is
// 10,000.
func BenchmarkList(b *testing.B) {
	runs := 10_000
	if set := os.Getenv("REPRISE_RUNS"); set != "" {
		var err error
		runs, err = strconv.Atoi(set)
		require.NoError(b, err)
	}
	schema := newSchema(b)
	app, err := asApp(serverURL(b))
	require.NoError(b, err)
	pool, err := poolOf(app+"&options=-c%20max_parallel_workers_per_gather%3D0", 4) // serverTime does not count the time of parallel workers
	require.NoError(b, err)
	b.Cleanup(pool.Close)
	s := openOn(b, pool, postgres.Options{Schema: schema, Mute: true})
	conn, err := pgx.Connect(b.Context(), serverURL(b))
	require.NoError(b, err)
	defer func() { _ = conn.Close(b.Context()) }()
	fill(b, conn, schema, runs)
	half := listedRun(runs/2, runs)
	middle := fmt.Sprint(half.Updated.UnixNano(), "/", half.RunID)
	for name, f := range map[string]snapshot.Filter{
		"counted": {Count: true}, "program, counted": {Program: "program-7", Count: true}, "dearest": {Sort: snapshot.SortCost}, "cheapest": {Sort: snapshot.SortCost, Ascending: true},
		"dearest of a program": {Sort: snapshot.SortCost, Program: "program-7"}, "dearest failed": {Sort: snapshot.SortCost, Status: []snapshot.Status{snapshot.StatusFailed}},
		"longest": {Sort: snapshot.SortDuration}, "oldest": {Sort: snapshot.SortCreated, Ascending: true}, "last ended": {Sort: snapshot.SortEnded},
		"text of all": {Text: "run-"}, "text of one": {Text: "run-9876"}, "text of 1 of 500": {Text: "odd one"}, "no such text": {Text: "nowhere"},
		"old tag": {Tags: []string{"old"}}, "tag and status": {Tags: []string{"rare"}, Status: []snapshot.Status{snapshot.StatusCompleted}}, "common tag": {Tags: []string{"common"}},
		"newest": {}, "middle": {After: middle}, "failed": {Status: []snapshot.Status{snapshot.StatusFailed}},
		"unfinished": {Status: []snapshot.Status{snapshot.StatusQueued, snapshot.StatusPaused, snapshot.StatusInterrupted, snapshot.StatusRunning}},
		"program":    {Program: "program-7"}, "tag": {Tags: []string{"rare"}}, "no such tag": {Tags: []string{"none"}},
		"program and status": {Program: "program-0", Status: []snapshot.Status{snapshot.StatusFailed}},
	} {
		f.Limit = 50
		b.Run(name, func(b *testing.B) {
			before := serverTime(b, conn)
			for b.Loop() {
				page, err := s.List(b.Context(), f)
				require.NoError(b, err)
				require.Equal(b, name == "unfinished" || strings.HasPrefix(name, "no such"), len(page.Runs) == 0, name)
			}
			b.ReportMetric(float64(serverTime(b, conn)-before)/float64(time.Millisecond)/float64(b.N), "server-ms/op")
		})
	}
}

// listedRun returns a run for BenchmarkList.
func listedRun(i, runs int) snapshot.Info {
	at := time.Unix(1700000000, 0).UTC().Add(time.Duration(i) * time.Millisecond)
	info := snapshot.Info{RunID: fmt.Sprint("run-", i), Status: snapshot.StatusCompleted, Program: fmt.Sprint("program-", i%20), Version: "1", Created: at, Updated: at.Add(time.Duration(i % 997))}
	info.Usage.Cost = float64(i%100*(i%1000)) / 100
	switch {
	case i%500 == 0:
		info.Metadata.Tags = []string{"rare", "common"}
	case i%20 == 0:
		info.Metadata.Tags = []string{"common"}
	case i < runs/200:
		info.Metadata.Tags = []string{"old"}
	}
	if i%500 == 7 {
		info.Metadata.Description = "An odd one"
	}
	if i%1000 == 0 {
		info.Status = snapshot.StatusFailed
	}
	return info
}

// fill adds many runs.
func fill(b *testing.B, conn *pgx.Conn, schema string, runs int) {
	b.Helper()
	copyFrom := func(table string, columns []string, row func(i int) ([]any, error)) {
		_, err := conn.CopyFrom(b.Context(), pgx.Identifier{schema, table}, columns, pgx.CopyFromSlice(runs, row))
		require.NoError(b, err)
		_, err = conn.Exec(b.Context(), `vacuum analyze `+pgx.Identifier{schema, table}.Sanitize())
		require.NoError(b, err)
	}
	copyFrom("runs", []string{
		"uid", "id", "version", "opening", "swaps", "last_seq", "info", "status", "program", "program_version", "pipeline", "parent", "error_class", "asking", "tags", "created", "updated",
	}, func(i int) ([]any, error) {
		info := listedRun(i, runs)
		encoded, err := snapshot.AppendInfo(nil, &info)
		tags := append([]string{}, info.Metadata.Tags...)
		return []any{
			fmt.Sprint("u", i), info.RunID, 1, "", "", 0, encoded, string(info.Status), info.Program, info.Version, "", "", "", false, tags,
			info.Created.UnixNano(), info.Updated.UnixNano(),
		}, err
	})
	copyFrom("figures", []string{"uid", "id", "program", "ended", "cost", "tokens", "retries"}, func(i int) ([]any, error) {
		info := listedRun(i, runs)
		return []any{fmt.Sprint("u", i), info.RunID, info.Program, snapshot.SortEnded.Value(&info), snapshot.SortCost.Value(&info), 0, 0}, nil
	})
	copyFrom("words", []string{"uid", "words"}, func(i int) ([]any, error) {
		info := listedRun(i, runs)
		return []any{fmt.Sprint("u", i), postgres.Words(&info)}, nil
	})
}

// serverTime returns the CPU time that the connections of the tests have used in a server on this
// machine, as counted by Linux in hundredths of a second.
func serverTime(b *testing.B, conn *pgx.Conn) time.Duration {
	b.Helper()
	rows, err := conn.Query(b.Context(), `select pid from pg_stat_activity where usename = 'reprise_app'`)
	require.NoError(b, err)
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(b, err)
	ticks := 0
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return 0
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')'):]))
		for _, field := range fields[12:14] { // utime and stime
			n, err := strconv.Atoi(field)
			require.NoError(b, err)
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
