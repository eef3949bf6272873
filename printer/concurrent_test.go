package printer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// writes records the data of each call of Write. It has no lock, so that the race
// detector reports concurrent calls.
type writes []string

func (w *writes) Write(data []byte) (int, error) {
	*w = append(*w, string(data))
	return len(data), nil
}

func TestLinesOfConcurrentRunsNeverMix(t *testing.T) {
	for name, options := range map[string][]printer.Option{"plain": nil, "compact": {printer.WithCompact()}} {
		t.Run(name, func(t *testing.T) {
			const runs, rounds = 8, 50
			records := make([][]record.Record, runs)
			want := map[string]int{}
			for run := range runs {
				records[run] = exhausting(t)
				if run%2 == 0 {
					records[run] = recovering(t)
				}
				var alone writes
				p := printer.New(&alone, options...)
				for i := range records[run] {
					r := &records[run][i]
					r.RunID, r.Seq, r.Name = fmt.Sprint(run), uint64(i+1), strings.Repeat(string(rune('a'+run)), 60)
					p.Publish(*r)
				}
				for _, text := range alone {
					want[text] += rounds
				}
			}

			var out writes
			p := printer.New(&out, options...)
			var wg sync.WaitGroup
			for run := range runs {
				wg.Go(func() {
					for range rounds {
						for _, r := range records[run] {
							p.Publish(r)
						}
						p.Summary()
						assert.NoError(t, p.Err())
					}
				})
			}
			wg.Wait()

			got := map[string]int{}
			for _, text := range out {
				got[text]++
			}
			require.Equal(t, want, got)
			assert.Equal(t, runs, p.Summary().All().Calls())
		})
	}
}

// hundredCalls makes a hundred concurrent calls. Each call fails twice, and every seventh call then
// fails for good. The names of the calls and the errors contain the number of the call.
func hundredCalls(ctx context.Context, p *printer.Printer) error {
	const calls = 100
	type number struct{ N int }
	var attempts [calls]atomic.Int64
	tool := decorators.Tool("tool", "", func(ctx context.Context, in number) (int, error) {
		n := attempts[in.N].Add(1)
		state.From(ctx).Log(slog.LevelInfo, fmt.Sprintf("<%d> begins", in.N), nil)
		fmt.Fprintf(p, "print <%d>\n", in.N)
		if n <= 2 {
			return 0, core.Retryable(fmt.Errorf("<%d> busy", in.N))
		}
		if in.N%7 == 0 {
			return 0, core.Permanent(fmt.Errorf("<%d> broken", in.N))
		}
		return in.N, nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	st := state.New(state.WithPublisher(p))
	defer st.Close()
	_, err := actors.Parallel(st.Context(ctx), actors.Group{Name: "all", CollectAll: true}, func() []func(context.Context) (int, error) {
		branches := make([]func(context.Context) (int, error), calls)
		for i := range branches {
			branches[i] = func(ctx context.Context) (int, error) {
				return tool.Event().WithTag(fmt.Sprintf("<%d>", i)).Execute(ctx, number{i})
			}
		}
		return branches
	}()...)
	var failed *actors.GroupError
	if !errors.As(err, &failed) || len(failed.Failed) != 15 {
		return fmt.Errorf("unexpected result: %w", err)
	}
	return nil
}

// ofHundred lists patterns for all lines. The number in a line identifies its call;
// lines without a number belong to attempts, the group or the run.
var ofHundred = []*regexp.Regexp{
	regexp.MustCompile(`^  🔧 tool \(<(\d+)>, all/\d+\) \[STARTED\]( \(retry [23]/3\))?$`),
	regexp.MustCompile(`^  ✖ tool \(<(\d+)>, all/\d+\) \[FAILED\] \([<\dms.]+\) - <(\d+)> busy$`),
	regexp.MustCompile(`^  ✖ tool \(<(\d+)>, all/\d+\) \[FAILED: permanent after 3 attempts\] \([<\dms., ]+ total\) - <(\d+)> broken$`),
	regexp.MustCompile(`^  ✔ tool \(<(\d+)>, all/\d+\) \[COMPLETED after 3 attempts\] \([<\dms.]+ total\)$`),
	regexp.MustCompile(`^    · INFO <(\d+)> begins$`),
	regexp.MustCompile(`^print <(\d+)>$`),
	regexp.MustCompile(`^    ↻ Retrying \(attempt [23]/3\) at once\.\.\.$`),
	regexp.MustCompile(`^    ↻ Recovered after 2 retries$`),
	regexp.MustCompile(`^▦ all (\[STARTED\] 100 branches|\d+ of 100 done(?:, \d+ (?:failed|running))*)$`),
	regexp.MustCompile(`^✖ all \[FAILED: permanent\] \([<\dms.]+\) - 15 of 100 branches failed; group:all/1/\S+: .*…$`),
	regexp.MustCompile(`^[▶✔✖] run \S+ \[(STARTED|COMPLETED|FAILED)\]( \([<\dms.]+\))?$`),
	regexp.MustCompile(`^✖ run \S+ \[FAILED: permanent\] \([<\dms.]+\) - group:all: 15 of 100 branches failed; group:all/1/\S+: .*…$`),
}

func TestEveryLineOfAHundredConcurrentCallsBelongsToOneOfThem(t *testing.T) {
	for name, options := range map[string][]printer.Option{"plain": nil, "compact": {printer.WithCompact()}} {
		t.Run(name, func(t *testing.T) {
			var out writes
			p := printer.New(&out, options...)
			require.NoError(t, hundredCalls(t.Context(), p))
			require.NoError(t, p.Close())

			text := strings.Join(out, "")
			require.True(t, strings.HasSuffix(text, "\n"))
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			for i, line := range lines {
				matched := false
				for _, shape := range ofHundred {
					if m := shape.FindStringSubmatch(line); m != nil {
						matched = true
						if len(m) == 3 && strings.HasPrefix(line, "  ✖") {
							require.Equal(t, m[1], m[2], "the error belongs to another call: %s", line)
						}
					}
				}
				require.True(t, matched, "line %d belongs to no call: %q", i+1, line)
				if strings.Contains(line, "↻ Retrying") {
					require.Contains(t, lines[i-1], "[FAILED]", "a wait must follow its failure")
				}
				if strings.Contains(line, "↻ Recovered") {
					require.Contains(t, lines[i-1], "[COMPLETED after")
				}
			}
			assert.Contains(t, text, "▦ all 85 of 100 done, 15 failed\n")
			assert.Equal(t, 300, strings.Count(text, "print <"))
			assert.Equal(t, 300, strings.Count(text, "· INFO <"))
		})
	}
}
