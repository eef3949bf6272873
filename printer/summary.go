package printer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Summary counts the calls in the records that were published to a [Printer], over all runs.
type Summary struct {
	record.Counts

	Interrupts map[record.InterruptReason]int // interrupted calls by reason; nil if there are none
	Slowest    []SlowCall                     // at most five calls, slowest first
}

// A SlowCall describes a slow call to a tool or an LLM, or a slow step. Agents are
// excluded because they spend their time in the calls that they make.
type SlowCall struct {
	RunID    string
	Address  record.Address
	Name     string        // the actor's name
	Elapsed  time.Duration // over all attempts and waits
	Attempts int
}

// Summary returns the counts of all records published so far, over all runs. These may
// include the records of a restored run.
//
// Groups and their branches are not counted as calls. A record that is published twice,
// with the same sequence number in its run, counts once. A recalled call counts as
// recovered unless its outcome was already counted. To do this, the printer remembers
// the last sequence numbers of 4,096 runs, and 65,536 calls without an outcome. Beyond
// this limit, a call is counted only when it has an outcome.
func (p *Printer) Summary() Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts.total()
}

// PrintSummary writes the totals, the slowest calls and, if there were retries, the
// retry statistics.
func (p *Printer) PrintSummary() {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.counts.total()
	s.write(&p.scheduler.out)
	_ = p.flush()
}

func (s *Summary) write(t *text) {
	t.tree("SUMMARY", s.totals())
	if len(s.Slowest) > 1 {
		t.end()
		t.tree("SLOWEST CALLS", s.slowest(t))
	}
	if s.Retried > 0 {
		t.end()
		t.tree("RETRY STATISTICS", s.retries())
	}
}

func (s *Summary) totals() []string {
	all := s.All()
	lines := []string{s.byKind("Calls", record.Stock.Calls)}
	add := func(wanted bool, line string) {
		if wanted {
			lines = append(lines, line)
		}
	}
	add(true, s.byKind("Completed", func(of record.Stock) int { return of.Completed }))
	add(true, s.byKind("Failed", func(of record.Stock) int { return of.Failed }))
	add(all.Stopped > 0, s.byKind("Interrupted", func(of record.Stock) int { return of.Stopped }))
	add(len(s.Interrupts) > 0, "Interrupted because of: "+s.reasons())
	add(all.Asking > 0, s.byKind("Awaiting an answer", func(of record.Stock) int { return of.Asking }))
	add(all.Waiting > 0, s.byKind("Waiting for their time", func(of record.Stock) int { return of.Waiting }))
	add(all.Restored > 0, s.byKind("Recovered from history", func(of record.Stock) int { return of.Restored }))
	add(all.Running > 0, s.byKind("Not ended", func(of record.Stock) int { return of.Running }))
	attempts := fmt.Sprintf("Attempts: %d", s.Attempts-s.Repeats)
	if s.Repeats > 0 {
		attempts += fmt.Sprintf("; %d re-entered after a stop", s.Repeats)
	}
	add(true, attempts)
	add(s.Took > 0, "Total time: "+duration(s.Took))
	add(s.Waited > 0, "Time waiting: "+duration(s.Waited)+" (added up over calls)")
	estimated := ""
	if s.Usage.Estimated {
		estimated = ", in part estimated"
	}
	add(s.Usage.TotalTokens() != 0, fmt.Sprintf("Tokens: %s%d (%d in, %d out%s)", estimateMark(&s.Usage), s.Usage.TotalTokens(), s.Usage.InputTokens, s.Usage.OutputTokens, estimated))
	add(s.Usage.Cost != 0, "Cost: "+estimateMark(&s.Usage)+money(s.Usage.Cost))
	return lines
}

// byKind returns a line such as "Failed: 3 (tools 2, LLMs 1)".
func (s *Summary) byKind(what string, of func(record.Stock) int) string {
	var kinds []string
	for _, k := range []struct {
		name string
		n    int
	}{{"tools", of(s.Tools)}, {"LLMs", of(s.LLMs)}, {"agents", of(s.Agents)}, {"steps", of(s.Steps)}, {"compensations", of(s.Compensations)}} {
		if k.n > 0 {
			kinds = append(kinds, fmt.Sprintf("%s %d", k.name, k.n))
		}
	}
	line := fmt.Sprintf("%s: %d", what, of(s.All()))
	if len(kinds) > 0 {
		line += " (" + strings.Join(kinds, ", ") + ")"
	}
	return line
}

func (s *Summary) reasons() string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(s.Interrupts)) {
		name := appendClean(nil, strings.ReplaceAll(string(reason), "_", " "), maxKey, "...")
		parts = append(parts, fmt.Sprintf("%s %d", name, s.Interrupts[reason]))
	}
	return strings.Join(parts, ", ")
}

// slowest returns a line for each slow call. The line contains the address of the call. It also
// contains the actor if the address does not show it, and the run if there are several.
func (s *Summary) slowest(t *text) []string {
	several := slices.ContainsFunc(s.Slowest, func(c SlowCall) bool { return c.RunID != s.Slowest[0].RunID })
	lines := make([]string, len(s.Slowest))
	for i, c := range s.Slowest {
		lines[i] = t.capture(func(t *text) {
			t.add(duration(c.Elapsed), " ")
			t.cleanOr(c.Address.String(), maxMessage, "?")
			var more []string
			if segment, _ := lastSegment(c.Address.String()); segment != c.Name && c.Name != "" {
				more = append(more, t.capture(func(t *text) { t.clean(c.Name, maxName) })) // a branch, or a call with a tag
			}
			if several {
				more = append(more, "run "+t.capture(func(t *text) { t.cleanOr(c.RunID, maxName, "?") }))
			}
			if c.Attempts > 1 {
				more = append(more, count(c.Attempts, "attempt", "attempts"))
			}
			if len(more) > 0 {
				t.add(" (", strings.Join(more, ", "), ")")
			}
		})
	}
	return lines
}

func (s *Summary) retries() []string {
	return []string{
		fmt.Sprintf("Total events with retries: %d", s.Retried),
		fmt.Sprintf("Succeeded after retry: %d (%.0f%%)", s.RetriedCompleted, s.percent(s.RetriedCompleted)),
		fmt.Sprintf("Failed after all retries: %d (%.0f%%)", s.RetriedFailed, s.percent(s.RetriedFailed)),
		fmt.Sprintf("Total retry attempts: %d", s.Retries),
		fmt.Sprintf("Avg retries per event: %.1f", float64(s.Retries)/float64(s.Retried)),
	}
}

// percent returns n as a percentage of the retried calls.
func (s *Summary) percent(n int) float64 { return 100 * float64(n) / float64(s.Retried) }

// tree adds a title and, below it, a block of lines.
func (t *text) tree(title string, lines []string) {
	t.add(t.chart, title)
	t.end()
	for i, line := range lines {
		branch := t.branch
		if i == len(lines)-1 {
			branch = t.last
		}
		t.paint(faint, branch)
		t.add(line)
		t.end()
	}
}
