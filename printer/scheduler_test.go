package printer

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

// paths returns the wanted addresses that are valid, and others that a hostile snapshot may
// contain.
func paths(t testing.TB, wanted string) []record.Address {
	t.Helper()
	var addresses []record.Address
	for _, path := range append([]string{
		"", "a", "a/b", "a@2/b", "a@pre/b", "a/group:g/1/b", "a/group:g/2/b", "a/group:g/2", "a/group:g", "a/group:g/1/group:h/3/c",
		"group:g/1/a", "group:g/9999999999/a", "group:g/99999999999999999999/a", "group:g/x/a", "group:g/a/b/c", "a/b/c/d/e#7", "step:s",
	}, strings.Split(wanted, "\n")...) {
		if a, err := record.ParseAddress(path); err == nil {
			addresses = append(addresses, a)
		}
	}
	return addresses
}

// FuzzScheduler publishes records of calls at any address, in any order.
func FuzzScheduler(f *testing.F) {
	f.Add("a/b/c", []byte{1, 0, 0, 0, 2, 0, 1, 0})
	f.Add("group:x/1/y\ngroup:x/2/y", []byte{17, 0, 0, 0, 18, 1, 0, 0, 17, 2, 0, 1, 18, 3, 0, 2})
	f.Add("0", []byte("Z022Z020"))
	f.Fuzz(func(t *testing.T, wanted string, script []byte) {
		addresses := paths(t, wanted)
		var records []record.Record
		for ; len(script) >= 4; script = script[4:] {
			r := record.Record{
				RunID: string('a' + rune(script[3]&1)), Address: addresses[int(script[0])%len(addresses)], Name: "n",
				Kind: record.Kind(script[2] % 14), Status: record.Status(script[1] % 9), Attempt: int(script[2] >> 4), MaxAttempts: 3,
				WillRetry: script[3]&2 != 0, Delay: time.Duration(script[3]&4) * time.Second, Replayed: script[3]&8 != 0, Time: time.Now(),
			}
			records = append(records, r)
		}
		for _, options := range [][]Option{nil, {WithCompact()}, {WithTerminal(func() (int, int) { return 40, 9 })}} {
			var out strings.Builder
			p := New(&out, options...)
			for _, r := range records {
				p.Publish(r)
				p.mu.Lock()
				checkTree(t, &p.scheduler.tree)
				_ = p.flush()
				p.mu.Unlock()
			}
			require.NoError(t, p.Close())
			tree := &p.scheduler.tree
			require.Zero(t, tree.nodes+tree.calls+tree.waiting+tree.hidden+len(tree.runs), "nothing is left after Close")
			require.Nil(t, tree.root.first)
			if options == nil {
				for line := range strings.Lines(out.String()) {
					require.False(t, strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(c rune) bool { return !unicode.IsGraphic(c) }), "%q", line)
				}
			}
		}
	})
}

// checkTree checks the counters of a tree against the nodes of the tree.
func checkTree(t testing.TB, tree *tree) {
	t.Helper()
	var nodes, calls, waiting, hidden int
	var count func(n *node)
	count = func(n *node) {
		var before *node
		var running, retrying int
		for below := n.first; below != nil; before, below = below, below.next {
			nodes++
			require.Same(t, n, below.parent)
			require.Equal(t, before, below.prev)
			if below.call == nil {
				require.NotNil(t, below.first, "a run without calls must not be kept")
				require.Same(t, below, tree.runs[below.run.id])
				count(below)
				continue
			}
			calls++
			if below.call.waits {
				waiting++
				retrying++
			} else {
				running++
			}
			if below.isBranch() && below.first != nil {
				hidden++
			}
			require.Same(t, below, below.run.calls[below.path])
			count(below)
		}
		require.Same(t, n.last, before)
		if g := n.group(); g != nil {
			require.Equal(t, []int{running, retrying}, []int{g.running, g.retrying})
		}
	}
	count(&tree.root)
	require.Equal(t, []int{nodes, calls, waiting, hidden}, []int{tree.nodes, tree.calls, tree.waiting, tree.hidden})
}

func FuzzFit(f *testing.F) {
	f.Add("日本語🔧e\u0301👩‍💻", 5)
	f.Add("\u200d\u200d❤️🇳🇴", 1)
	f.Fuzz(func(t *testing.T, s string, columns int) {
		columns = min(max(columns, 0), 500)
		s = string(appendClean(nil, s, 200, "…"))
		for _, ellipsis := range []string{"…", "..."} {
			line := liveLine{{good, s}, {"", s}, {bad, s}}.cut(columns, ellipsis)
			require.LessOrEqual(t, line.width(), columns, "%q", line)
			drawn := line.appendTo(nil, false)
			require.True(t, utf8.Valid(drawn))
			require.LessOrEqual(t, displayWidth(string(drawn)), columns, "%q", drawn)
		}
	})
}

func TestVeryDeepAddressesAreFollowedAsIfTheyWereInTheRun(t *testing.T) {
	for _, part := range []string{"a/", "group:g/1/"} {
		a, err := record.ParseAddress(strings.Repeat(part, 10_000) + "b")
		require.NoError(t, err)
		for _, options := range [][]Option{nil, {WithCompact()}, {WithTerminal(func() (int, int) { return 40, 9 })}} {
			var out strings.Builder
			p := New(&out, options...)
			for range 20 {
				p.Publish(record.Record{Kind: record.KindTool, Status: record.StatusStarted, Name: "b", Address: a})
				p.Publish(record.Record{Kind: record.KindLog, Address: a})
				p.Publish(record.Record{Kind: record.KindTool, Status: record.StatusCompleted, Name: "b", Address: a})
			}
			require.NoError(t, p.Close())
			assert.Equal(t, 20, strings.Count(out.String(), "[COMPLETED]"))
		}
	}
}

func TestCallFirstSeenFailingHasItsName(t *testing.T) {
	var out strings.Builder
	p := New(&out, WithCompact())
	a, err := record.ParseAddress("fetch")
	require.NoError(t, err)
	p.Publish(record.Record{Kind: record.KindTool, Status: record.StatusFailed, WillRetry: true, Name: "fetch", Address: a, MaxAttempts: 3})
	p.Publish(record.Record{Kind: record.KindTool, Status: record.StatusRetrying, Attempt: 1, Name: "fetch", Address: a, MaxAttempts: 3})
	require.NoError(t, p.Close())
	assert.Equal(t, "✖ fetch [FAILED] (<1ms)\n  ↻ Retrying (attempt 2/3) at once...\n⏸ fetch [UNFINISHED]\n", out.String())
}

func TestTreeIsBounded(t *testing.T) {
	const limit = 10
	var out strings.Builder
	p := New(&out, WithCompact())
	p.scheduler.tree = newTree(limit)
	for i := range 100 {
		a, err := record.ParseAddress(fmt.Sprintf("agent/group:g/%d/tool", i+1))
		require.NoError(t, err)
		p.Publish(record.Record{Kind: record.KindTool, Status: record.StatusStarted, Name: fmt.Sprint("tool", i), Address: a})
		require.LessOrEqual(t, p.scheduler.tree.nodes, limit)
	}
	checkTree(t, &p.scheduler.tree)
	assert.Equal(t, 91, strings.Count(out.String(), "[STARTED]"), "calls that are not tracked are written immediately")
	require.NoError(t, p.Close())
	assert.Equal(t, 100, strings.Count(out.String(), "[STARTED]"))
}

func TestRememberedQuestionsAreBounded(t *testing.T) {
	var q questions
	call := record.Record{Kind: record.KindTool, Status: record.StatusAwaiting}
	for i := range 2 * maxAsked {
		call.RunID = fmt.Sprint("run", i/3)
		id := fmt.Sprint("question", i)
		before, answered := q.add(&call, id)
		require.False(t, before || answered)
		before, answered = q.add(&call, id)
		require.True(t, before && !answered)
		if i%3 == 0 {
			q.add(&record.Record{Kind: record.KindAnswer, RunID: call.RunID, Name: id}, "")
			_, answered = q.add(&call, id)
			require.True(t, answered)
		}
		n := 0
		for _, ids := range q.answered {
			require.NotEmpty(t, ids)
			n += len(ids)
		}
		require.Equal(t, q.n, n)
		require.LessOrEqual(t, n, maxAsked)
	}
}

func TestRewrapCountsTheRowsOfLinesThatNoLongerFit(t *testing.T) {
	s := screen{reflows: true, columns: 100, drawn: []int{17, 75, 0, 24, 25}}
	s.rewrap(120)
	assert.Len(t, s.drawn, 5)
	s.rewrap(24)
	assert.Equal(t, []int{17, 24, 24, 24, 3, 0, 24, 24, 1}, s.drawn)
	s = screen{columns: 100, drawn: []int{75}}
	s.rewrap(24)
	assert.Len(t, s.drawn, 1, "this terminal cuts off lines")
}
