package printer_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
)

// A script generates runs. A run consists of the records of nested calls, in sequence and in
// groups. Some of the calls succeed, and others fail or are retried, interrupted or abandoned. Each
// call has a unique name.
type script struct {
	t      testing.TB
	random *rand.Rand
	names  int
	calls  map[string]*scripted // by name
}

// scripted describes how a generated call ends.
type scripted struct {
	path, around string // around is the name of the calling actor, or empty
	started      bool
	ended        bool
	explained    bool // its attempts are shown
	recalled     bool // from history
}

func newScript(t testing.TB, seed uint64) *script {
	return &script{t: t, random: rand.New(rand.NewPCG(seed, 1)), calls: map[string]*scripted{}}
}

// run generates the records of a whole run.
func (s *script) run(id string) []record.Record {
	records := []record.Record{{Kind: record.KindRun, Status: record.StatusStarted}}
	records = append(records, s.calling("", "", 3)...)
	records = append(records, record.Record{Kind: record.KindRun, Status: record.StatusCompleted})
	for i := range records {
		records[i].RunID, records[i].Seq = id, uint64(i+1)
		records[i].Time = time.Date(2026, 11, 20, 8, 0, i, 0, time.UTC)
	}
	return records
}

// calling generates the contents of a scope: up to two calls, and sometimes a group. deeper is how
// many more levels of calls may follow.
func (s *script) calling(around, scope string, deeper int) []record.Record {
	var records []record.Record
	for range s.random.IntN(3) {
		records = append(records, s.call(around, scope, deeper)...)
	}
	if s.random.IntN(3) == 0 {
		s.names++
		records = append(records, s.group(around, scope, deeper)...)
	}
	return records
}

// group generates a group whose branches are calls, or functions that make calls.
func (s *script) group(around, scope string, deeper int) []record.Record {
	name := fmt.Sprintf("g%d", s.names)
	path := scope + "group:" + name
	n := s.random.IntN(5)
	rec := func(kind record.Kind, status record.Status, path string) record.Record {
		return record.Record{Kind: kind, Status: status, Name: name, Address: address(s.t, path)}
	}
	begins := rec(record.KindGroup, record.StatusStarted, path)
	begins.Detail = &record.Detail{Branches: n}
	var branches [][]record.Record
	for i := range n {
		branch := fmt.Sprintf("%s/%d", path, i+1)
		if s.random.IntN(2) == 0 {
			branches = append(branches, s.callAt(around, branch, deeper))
			continue
		}
		records := []record.Record{rec(record.KindBranch, record.StatusStarted, branch)}
		records = append(records, s.call(around, branch+"/", deeper)...)
		branches = append(branches, append(records, rec(record.KindBranch, record.StatusCompleted, branch)))
	}
	records := append([]record.Record{begins}, s.merge(branches)...)
	return append(records, rec(record.KindGroup, record.StatusCompleted, path))
}

// merge interleaves concurrent records.
func (s *script) merge(branches [][]record.Record) []record.Record {
	var merged []record.Record
	for len(branches) > 0 {
		i := s.random.IntN(len(branches))
		if len(branches[i]) == 0 {
			branches = slices.Delete(branches, i, i+1)
			continue
		}
		n := 1
		if branches[i][0].WillRetry {
			n = 2 // keep two records together
		}
		n = min(n, len(branches[i]))
		merged, branches[i] = append(merged, branches[i][:n]...), branches[i][n:]
	}
	return merged
}

func (s *script) call(around, scope string, deeper int) []record.Record {
	return s.callAt(around, fmt.Sprintf("%scall%d", scope, s.names+1), deeper)
}

// callAt generates a call at the given path.
func (s *script) callAt(around, path string, deeper int) []record.Record {
	s.names++
	name := fmt.Sprintf("call%d", s.names)
	call := &scripted{path: path, around: around}
	s.calls[name] = call
	base := record.Record{Kind: record.KindTool, Name: name, Address: address(s.t, call.path), MaxAttempts: 3}
	rec := func(status record.Status, attempt int) record.Record {
		r := base
		r.Status, r.Attempt = status, attempt
		return r
	}
	if s.random.IntN(10) == 0 {
		call.recalled = true
		return []record.Record{rec(record.StatusRecovered, 0)}
	}
	call.started = true
	var records []record.Record
	for attempt := 0; ; attempt++ {
		records = append(records, rec(record.StatusStarted, attempt))
		if s.random.IntN(4) == 0 {
			records = append(records, record.Record{Kind: record.KindLog, Address: base.Address, Detail: &record.Detail{Message: "log of " + name}})
		}
		if deeper > 0 {
			inside := call.path + "/"
			if attempt > 0 {
				inside = fmt.Sprintf("%s@%d/", call.path, attempt+1)
			}
			records = append(records, s.calling(name, inside, deeper-1)...)
		}
		switch last := attempt == 2; s.random.IntN(6) {
		case 0, 1, 2:
			call.ended = true
			return append(records, rec(record.StatusCompleted, attempt))
		case 3:
			call.ended, call.explained = true, true
			return append(records, rec(record.StatusInterrupted, attempt))
		case 4:
			if s.random.IntN(3) == 0 {
				call.explained = true
				return records[:len(records)-s.random.IntN(len(records))] // abandoned
			}
			fallthrough
		default:
			failed := rec(record.StatusFailed, attempt)
			failed.Err = errTimeout
			if last {
				call.ended, call.explained = true, true
				failed.Reason = record.ReasonExhausted
				return append(records, failed)
			}
			failed.WillRetry, failed.Delay = true, sec
			records = append(records, failed, retrying(failed))
		}
	}
}

// linesOf returns the lines of each call, by the name of the call, and all log lines.
func linesOf(output string) (calls map[string][]int, lines []string) {
	calls = map[string][]int{}
	latest := ""
	for i, line := range strings.Split(strings.TrimSuffix(output, "\n"), "\n") {
		lines = append(lines, line)
		fields := strings.Fields(line)
		switch {
		case strings.Contains(line, " log of "), strings.Contains(line, recoveredTag), fields[0] == "▦", strings.HasPrefix(fields[1], "g"), fields[0] == "▶", strings.Contains(line, " run "):
			continue
		case fields[0] != "↻" || strings.HasPrefix(fields[1], "call"):
			latest = fields[1]
		}
		calls[latest] = append(calls[latest], i)
	}
	return calls, lines
}

const recoveredTag = "[RECOVERED from history]"

// recalledIn returns the number of recalled calls that the lines report.
func recalledIn(t *testing.T, output string) (n int) {
	for line := range strings.Lines(output) {
		if !strings.Contains(line, recoveredTag) {
			continue
		}
		fields := strings.Fields(line)
		if fields[2] != "calls" {
			n++
			continue
		}
		several, err := strconv.Atoi(fields[1])
		require.NoError(t, err, line)
		n += several
	}
	return n
}

func TestCompactFormShowsTheSameAsPlainInCallOrder(t *testing.T) {
	for seed := range uint64(100) {
		s := newScript(t, seed)
		records := s.run("r1")
		plainCalls, plain := linesOf(printed(records))
		calls, lines := linesOf(printed(records, printer.WithCompact()))
		recalled := 0
		for i := range records {
			if records[i].Status == record.StatusRecovered {
				recalled++
			}
		}
		require.Equal(t, recalled, recalledIn(t, printed(records)), "seed %d", seed)
		require.Equal(t, recalled, recalledIn(t, printed(records, printer.WithCompact())), "seed %d", seed)

		for name, call := range s.calls {
			if call.recalled {
				continue // the call may share a line with others
			}
			var want, got []string
			for _, i := range plainCalls[name] {
				want = append(want, strings.TrimSpace(plain[i]))
			}
			for _, i := range calls[name] {
				if line := strings.TrimSpace(lines[i]); !strings.Contains(line, "[UNFINISHED]") {
					got = append(got, line)
				}
			}
			if len(want) == 0 {
				continue // the call was abandoned before it began
			}
			switch {
			case call.explained:
				require.Equal(t, want, got, "seed %d: a call that did not succeed must have all its lines", seed)
			case call.ended:
				require.Equal(t, want[0], got[0], "seed %d", seed)
				require.Equal(t, want[len(want)-1], got[len(got)-1], "seed %d", seed)
				require.Subset(t, want, got, "seed %d", seed)
			}
			if around := calls[call.around]; call.around != "" && len(calls[name]) > 0 {
				require.Less(t, around[0], calls[name][0], "seed %d: %s must begin after the call around it", seed, name)
				require.Greater(t, around[len(around)-1], calls[name][len(calls[name])-1], "seed %d: %s must end before the call around it", seed, name)
			}
		}
	}
}
