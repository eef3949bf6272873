package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/reprise-go/reprise/state"
)

const (
	recordName = "Record"
	window     = 256 // number of records measured at a time; constant, because the history grows in chunks
	windows    = 16  // windows per sample
	lead       = 64  // records between a garbage collection and the window; not measured
)

// recordContestant is a contestant of Record.
type recordContestant struct {
	lib           string
	length        int  // length of the history
	stored        bool // whether the run is in a file store, without syncing
	roundsDivisor int  // the number of rounds is divided by it
}

func (c recordContestant) String() string { return c.lib }

// first returns the name of the contestant whose time is compared with the
// time of c.
func (c recordContestant) first() string {
	kind, _, _ := strings.Cut(c.lib, "-")
	return kind + "-100"
}

var recordContestants = []recordContestant{
	{"memory-100", 100, false, 2},
	{"memory-10000", 10_000, false, 2},
	{"memory-100000", 100_000, false, 2},
	{"file-100", 100, true, 5},
	{"file-10000", 10_000, true, 5},
	{"file-100000", 100_000, true, 5},
}

// sample returns the time that one record takes. It measures only a few records in each run, so the
// length of the history stays nearly constant.
func (c recordContestant) sample() (nanoseconds float64, err error) {
	each := min(windows, max(1, c.length/10/(lead+window)))
	var elapsed time.Duration
	for left := windows; left > 0; {
		n := min(each, left)
		d, err := c.measure(n)
		if err != nil {
			return 0, fmt.Errorf("%s/lib=%s: %w", recordName, c.lib, err)
		}
		elapsed += d
		left -= n
	}
	return float64(elapsed) / (windows * window), nil
}

// measure fills a run to its length and measures the given number of windows.
// A call has two records.
func (c recordContestant) measure(windows int) (elapsed time.Duration, err error) {
	w := &work{}
	tool := newTool(handler((*work).succeed).bind(w), immediateRetry, 0)
	st, dir, err := c.open()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close(), os.RemoveAll(dir)) }()
	ctx := st.Context(context.Background())
	in := instance{call: func() (int, error) { return tool.Event().Execute(ctx, answer) }}
	if err := in.repeat((c.length - lead) / 2); err != nil {
		return 0, err
	}
	for range windows {
		runtime.GC()
		if err := in.repeat(lead / 2); err != nil {
			return 0, err
		}
		start := time.Now()
		if err := in.repeat(window / 2); err != nil {
			return 0, err
		}
		elapsed += time.Since(start)
	}
	if want := c.length - lead + windows*(lead+window) + 1; st.Report().Records != uint64(want) {
		err = fmt.Errorf("the run has %d records, want %d", st.Report().Records, want)
	}
	return elapsed, err
}

func (c recordContestant) open() (*state.ExecutionState, string, error) {
	if !c.stored {
		return state.New(), "", nil
	}
	store, dir, err := newStore()
	if err != nil {
		return nil, "", err
	}
	st, err := state.Open(context.Background(), store, runID, state.WithSync(state.SyncNever))
	return st, dir, err
}

func measureRecordings(contestants []recordContestant, rounds int) (result, error) {
	r := make(result)
	for round := range rounds {
		for _, i := range order(round, len(contestants)) {
			c := contestants[i]
			if round%c.roundsDivisor != 0 {
				continue
			}
			ns, err := c.sample()
			if err != nil {
				return nil, err
			}
			r.add(c.lib, nanoseconds, ns)
		}
	}
	return r, nil
}

func printRecordings(contestants []recordContestant, r result) {
	fmt.Printf("\n%s: one more record in a history of this length. Ratios to 100.\n\n", recordName)
	t := table{{"lib", "ns each", "ratio", "25–75 %"}}
	for _, c := range contestants {
		ratio, spread := formatRatios(r.ratios(c.lib, c.first(), nanoseconds))
		t = append(t, []string{c.lib, fmt.Sprintf("%.1f", r.median(c.lib, nanoseconds)), ratio, spread})
	}
	t.print()
}
