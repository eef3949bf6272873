package printer

import (
	"fmt"
	"time"

	"github.com/reprise-go/reprise/core"
)

// A Summary counts the calls that a [Printer] saw. Each of them is in one of
// Completed, Failed, Interrupted and Recovered, or still going on.
type Summary struct {
	Tools, LLMs, Agents int // calls by kind

	Completed   int
	Failed      int
	Interrupted int // stopped without an outcome: interrupted, or awaiting an answer
	Recovered   int // answered from restored history; the call itself was not seen

	Attempts int // that were begun; of a resumed call also those before
	Retries  int // the attempts that were not the first of their call

	Retried             int // calls with a retry
	SucceededAfterRetry int
	FailedAfterRetries  int

	Waited time.Duration // the waits between attempts that are over, as long as they took
	Usage  core.Usage    // of all attempts, the failed too
}

// Calls is their number, of all kinds.
func (s Summary) Calls() int { return s.Tools + s.LLMs + s.Agents }

// Summary counts what was published so far, in all runs together.
//
// A call is known by its run and address, so that a record that is published
// again, when a run is replayed, counts once. For that the printer remembers
// the latest 32,768 calls at least and twice as many at most, in some
// megabytes; what comes late about a call that was forgotten counts as
// another call. Calls that are going on are forgotten last.
func (p *Printer) Summary() Summary {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tally.summary
}

// PrintSummary writes the totals, and the statistics of retries if there were
// any.
func (p *Printer) PrintSummary() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(p.tally.summary.lines(p.symbols))
}

func (s *Summary) lines(look *symbols) []byte {
	totals := []string{
		fmt.Sprintf("Calls: %d (tools %d, LLMs %d, agents %d)", s.Calls(), s.Tools, s.LLMs, s.Agents),
		fmt.Sprintf("Completed: %d", s.Completed),
		fmt.Sprintf("Failed: %d", s.Failed),
	}
	if s.Interrupted > 0 {
		totals = append(totals, fmt.Sprintf("Interrupted: %d", s.Interrupted))
	}
	if s.Recovered > 0 {
		totals = append(totals, fmt.Sprintf("Recovered from history: %d", s.Recovered))
	}
	totals = append(totals, fmt.Sprintf("Attempts: %d", s.Attempts))
	if s.Waited > 0 {
		totals = append(totals, "Time waiting: "+duration(s.Waited))
	}
	if !s.Usage.IsZero() {
		totals = append(totals, fmt.Sprintf("Tokens: %d (%d in, %d out)", s.Usage.TotalTokens(), s.Usage.InputTokens, s.Usage.OutputTokens))
	}
	if s.Usage.Cost != 0 {
		totals = append(totals, "Cost: "+money(s.Usage.Cost))
	}
	text := look.tree(nil, "SUMMARY", totals)
	if s.Retried == 0 {
		return text
	}
	return look.tree(append(text, '\n'), "RETRY STATISTICS", []string{
		fmt.Sprintf("Total events with retries: %d", s.Retried),
		fmt.Sprintf("Succeeded after retry: %d (%.0f%%)", s.SucceededAfterRetry, s.percent(s.SucceededAfterRetry)),
		fmt.Sprintf("Failed after all retries: %d (%.0f%%)", s.FailedAfterRetries, s.percent(s.FailedAfterRetries)),
		fmt.Sprintf("Total retry attempts: %d", s.Retries),
		fmt.Sprintf("Avg retries per event: %.1f", float64(s.Retries)/float64(s.Retried)),
	})
}

// percent is the share of the calls with a retry.
func (s *Summary) percent(n int) float64 { return 100 * float64(n) / float64(s.Retried) }

func (s *symbols) tree(dst []byte, title string, lines []string) []byte {
	dst = fmt.Appendf(dst, "%s%s\n", s.chart, title)
	for i, line := range lines {
		branch := s.branch
		if i == len(lines)-1 {
			branch = s.last
		}
		dst = fmt.Appendf(dst, "%s%s\n", branch, line)
	}
	return dst
}
