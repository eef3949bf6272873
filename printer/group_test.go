package printer

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

// grouped publishes the records of a group to a printer.
type grouped struct {
	*testing.T
	out strings.Builder
	*Printer
}

func newGrouped(t *testing.T, options ...Option) *grouped {
	g := &grouped{T: t}
	g.Printer = New(&g.out, options...)
	return g
}

func (g *grouped) record(kind record.Kind, status record.Status, path, name string, changes ...func(*record.Record)) {
	g.T.Helper()
	a, err := record.ParseAddress(path)
	require.NoError(g.T, err)
	r := record.Record{RunID: "r", Kind: kind, Status: status, Name: name, Address: a, MaxAttempts: 3}
	for _, change := range changes {
		change(&r)
	}
	g.Publish(r)
}

// begin starts the group g with n branches.
func (g *grouped) begin(n int) {
	g.T.Helper()
	g.record(record.KindGroup, record.StatusStarted, "group:g", "g", func(r *record.Record) { r.Detail = &record.Detail{Branches: n} })
}

// mapped publishes a record of branch i of the group g, where the branch is a tool call.
func (g *grouped) mapped(status record.Status, i int, changes ...func(*record.Record)) {
	g.T.Helper()
	g.record(record.KindTool, status, fmt.Sprintf("group:g/%d", i), "tool", changes...)
}

// branch publishes a record of branch i of the group g, where the branch is a function.
func (g *grouped) branch(status record.Status, i int, changes ...func(*record.Record)) {
	g.T.Helper()
	g.record(record.KindBranch, status, fmt.Sprintf("group:g/%d", i), fmt.Sprint("g ", i), changes...)
}

// progress returns the progress lines of the group.
func (g *grouped) progress() (lines []string) {
	for line := range strings.Lines(g.out.String()) {
		if s, ok := strings.CutPrefix(line, "▦ g "); ok {
			lines = append(lines, strings.TrimSpace(s))
		}
	}
	return lines
}

func permanent(text string) func(*record.Record) {
	return func(r *record.Record) { r.Err, r.Reason = errors.New(text), record.ReasonPermanent }
}

func TestGroupsShowTheirProgressAtEachTenth(t *testing.T) {
	g := newGrouped(t)
	g.begin(200)
	for i := range 200 {
		g.mapped(record.StatusStarted, i+1)
	}
	for i := range 200 {
		g.mapped(record.StatusCompleted, i+1)
	}
	g.record(record.KindGroup, record.StatusCompleted, "group:g", "g")
	assert.Equal(t, []string{
		"[STARTED] 200 branches",
		"20 of 200 done, 180 running", "40 of 200 done, 160 running", "60 of 200 done, 140 running", "80 of 200 done, 120 running",
		"100 of 200 done, 100 running", "120 of 200 done, 80 running", "140 of 200 done, 60 running", "160 of 200 done, 40 running",
		"180 of 200 done, 20 running",
	}, g.progress())
	assert.True(t, strings.HasSuffix(g.out.String(), "\n✔ g [COMPLETED] (<1ms)\n"))
}

func TestGroupKnowsItsTotalBeforeAllBranchesBegin(t *testing.T) {
	g := newGrouped(t)
	g.begin(5)
	g.mapped(record.StatusStarted, 1)
	g.mapped(record.StatusStarted, 2)
	for n := range 3 { // two workers share the five branches
		g.mapped(record.StatusCompleted, n+1)
		g.mapped(record.StatusStarted, n+3)
	}
	g.mapped(record.StatusCompleted, 4)
	g.mapped(record.StatusCompleted, 5)
	assert.Equal(t, []string{
		"[STARTED] 5 branches", "1 of 5 done, 1 running", "2 of 5 done, 1 running", "3 of 5 done, 1 running", "4 of 5 done, 1 running",
	}, g.progress())
}

func TestFailedGroupShowsTheOutcomesOfItsBranches(t *testing.T) {
	for name, options := range map[string][]Option{"plain": nil, "compact": {WithCompact()}} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t, options...)
			g.begin(20)
			g.mapped(record.StatusStarted, 1)
			g.mapped(record.StatusStarted, 2)
			g.mapped(record.StatusFailed, 1, permanent("boom"))
			g.mapped(record.StatusInterrupted, 2)
			g.record(record.KindGroup, record.StatusFailed, "group:g", "g", permanent("group g: 1 of 20 branches failed"))
			assert.True(t, strings.HasSuffix(g.out.String(), "▦ g 0 of 20 done, 1 failed, 1 stopped\n"+
				"✖ g [FAILED: permanent] (<1ms) - group g: 1 of 20 branches failed\n"), g.out.String())
			assert.True(t, strings.HasPrefix(g.out.String(), "▦ g [STARTED] 20 branches\n  🔧 tool (g/1) [STARTED]\n"), g.out.String())
		})
	}
}

func TestRecalledBranchesAreDone(t *testing.T) {
	g := newGrouped(t)
	g.begin(3)
	recalled := func(r *record.Record) { r.Replayed = true }
	g.mapped(record.StatusRecovered, 1, recalled)
	g.mapped(record.StatusRecovered, 2, recalled, permanent("boom"))
	g.mapped(record.StatusStarted, 3)
	g.mapped(record.StatusInterrupted, 3)
	g.record(record.KindGroup, record.StatusInterrupted, "group:g", "g")
	assert.Equal(t, []string{"[STARTED] 3 branches", "1 of 3 done, 1 failed, 1 stopped"}, g.progress())
}

func TestBranchesHaveOnlyTheLinesOfTheirCalls(t *testing.T) {
	const want = `▦ g [STARTED] 2 branches
  🔧 one (g/1) [STARTED]
    · INFO in the call
  · INFO in the branch
  ✖ one (g/1) [FAILED: permanent] (<1ms) - boom
  🔧 two (g/1) [STARTED]
  ✔ two (g/1) [COMPLETED] (<1ms)
▦ g 1 of 2 done, 1 running
  🔧 one (g/2) [STARTED]
  ✖ one (g/2) [FAILED: permanent] (<1ms) - bang
▦ g 1 of 2 done, 1 failed
✖ g [FAILED: permanent] (<1ms) - branch 2: bang
`
	for name, options := range map[string][]Option{"plain": nil, "compact": {WithCompact()}} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t, options...)
			log := func(path, message string) {
				g.record(record.KindLog, record.StatusRecorded, path, "", func(r *record.Record) { r.Detail = &record.Detail{Message: message} })
			}
			g.begin(2)
			g.branch(record.StatusStarted, 1)
			g.branch(record.StatusStarted, 2)
			g.record(record.KindTool, record.StatusStarted, "group:g/1/one", "one")
			log("group:g/1/one", "in the call")
			log("group:g/1", "in the branch")
			g.record(record.KindTool, record.StatusFailed, "group:g/1/one", "one", permanent("boom"))
			g.record(record.KindTool, record.StatusStarted, "group:g/1/two", "two")
			g.record(record.KindTool, record.StatusCompleted, "group:g/1/two", "two")
			g.branch(record.StatusCompleted, 1)
			g.record(record.KindTool, record.StatusStarted, "group:g/2/one", "one")
			g.record(record.KindTool, record.StatusFailed, "group:g/2/one", "one", permanent("bang"))
			g.branch(record.StatusFailed, 2, permanent("group:g/2/one: permanent: bang"))
			g.record(record.KindGroup, record.StatusFailed, "group:g", "g", permanent("branch 2: bang"))
			assert.Equal(t, want, g.out.String())
		})
	}
}

func TestBranchThatDoesNotFailByItsCallsIsShown(t *testing.T) {
	for name, c := range map[string]struct {
		publish func(g *grouped)
		want    string
	}{
		"no call": {func(g *grouped) {
			g.branch(record.StatusFailed, 1, permanent("boom"))
		}, "  ✖ g/1 [FAILED: permanent] (<1ms) - boom\n"},
		"another error": {func(g *grouped) {
			g.record(record.KindTool, record.StatusStarted, "group:g/1/one", "one")
			g.record(record.KindTool, record.StatusFailed, "group:g/1/one", "one", permanent("bang"))
			g.branch(record.StatusFailed, 1, permanent("boom"))
		}, "  ✖ one (g/1) [FAILED: permanent] (<1ms) - bang\n  ✖ g/1 [FAILED: permanent] (<1ms) - boom\n"},
		"interrupted": {func(g *grouped) {
			g.branch(record.StatusInterrupted, 1, func(r *record.Record) { r.Err = &record.InterruptedError{Reason: record.InterruptUser} })
		}, "  ⏸ g/1 [INTERRUPTED] user\n"},
		"recalled": {func(g *grouped) {
			g.branch(record.StatusRecovered, 1, permanent("boom"))
		}, "  ↻ g/1 [RECOVERED from history] - boom\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t)
			g.begin(1)
			g.branch(record.StatusStarted, 1)
			c.publish(g)
			assert.True(t, strings.HasSuffix(g.out.String(), c.want), g.out.String())
		})
	}
}

func TestAbandonedBranchIsShownOnce(t *testing.T) {
	for name, c := range map[string]struct{ inside, want string }{
		"with a call":    {"one", "  🔧 one (g/1) [STARTED]\n  ⏸ one (g/1) [UNFINISHED]\n"},
		"without a call": {"", "  ⏸ g/1 [UNFINISHED]\n"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGrouped(t, WithCompact())
			g.begin(1)
			g.branch(record.StatusStarted, 1)
			if c.inside != "" {
				g.record(record.KindTool, record.StatusStarted, "group:g/1/"+c.inside, c.inside)
			}
			require.NoError(t, g.Close())
			assert.Equal(t, "▦ g [STARTED] 1 branch\n"+c.want+"⏸ g [UNFINISHED]\n", g.out.String())
		})
	}
}

func TestGroupsInBranchesHaveTheBranchInTheirNames(t *testing.T) {
	g := newGrouped(t)
	g.begin(1)
	g.branch(record.StatusStarted, 1)
	g.record(record.KindGroup, record.StatusStarted, "group:g/1/group:h#2", "h", func(r *record.Record) { r.Detail = &record.Detail{Branches: 2} })
	g.record(record.KindTool, record.StatusStarted, "group:g/1/group:h#2/2", "tool")
	g.record(record.KindTool, record.StatusStarted, "group:g/1/group:h#2/2@2/lookup", "lookup")
	assert.Equal(t, `▦ g [STARTED] 1 branch
  ▦ h#2 (g/1) [STARTED] 2 branches
    🔧 tool (h#2/2) [STARTED]
      🔧 lookup (h#2/2) [STARTED]
`, g.out.String())
}
