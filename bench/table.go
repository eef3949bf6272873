package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"
)

// A target is an upper limit for a quantity, either in the quantity's unit or as a ratio to a peer.
type target struct {
	scenario, lib string
	metric        metric
	peer          string // empty if the target is in the quantity's unit
	most          float64
}

var targets = []target{
	{"Success", "reprise-run-listener", nanoseconds, "failsafe-listeners", 1},
	{"Success", "reprise-run-listener", allocations, "", 2},
	{"Success", "reprise", nanoseconds, "failsafe", 1},
	{"TwoFailuresListeners", "reprise-run-listener", nanoseconds, "failsafe-listeners", 0.8},
	{"Timeout", "reprise", nanoseconds, "loop-abandon", 0.8},
	{"Timeout", "reprise-run-listener", nanoseconds, "loop-abandon", 0.8},
	{sleepersName, "reprise", bytesEach, "", 4500},
	{sleepersName, "reprise", bytesEach, "failsafe", 0.8},
	{sleepersName, "reprise", release, "failsafe", 1},
	{sleepersName, "reprise-run", bytesEach, "", 4500},
	{sleepersName, "reprise-run", bytesEach, "failsafe", 0.8},
	{sleepersName, "reprise-run", release, "failsafe", 1},
	{"Encode", "reprise", nanoseconds, "", 600},
	{"Encode", "reprise", allocations, "", 0},
	{"Encode", "reprise", nanoseconds, "msgpack", 1. / 5},
	{"Decode", "reprise", nanoseconds, "", 1900},
	{"Decode", "reprise", allocated, "", 520},
	{"Durable", "reprise", nanoseconds, "bare", 0.8},
	{"Durable", "reprise", nanoseconds, "sqlite", 1},
	{"Durable", "reprise-16", nanoseconds, "reprise", 1. / 4},
	{"Durable", "reprise-postgres", nanoseconds, "pgx", 1.5},
	{"Durable", "reprise-postgres-16", nanoseconds, "pgx-16", 1 / 0.8},
	{runsName, "reprise-postgres", nanoseconds, runsPeer, 1 / 0.7},
	{runsName, "reprise-postgres", nanoseconds, "dbos", 1},
	{"Replay10000", "reprise", nanoseconds, "", 35e6},
	{"Replay10000", "reprise", nanoseconds, "sqlite", 0.4},
	{"Replay10000", "reprise-replay", nanoseconds, "", 35e6},
	{"Replay10000", "reprise-replay", nanoseconds, "sqlite", 0.4},
	{recordName, "memory-100000", nanoseconds, "memory-100", sameTolerance},
	{recordName, "file-100000", nanoseconds, "file-100", sameTolerance},
	{groupName, "reprise", nanoseconds, "errgroup", 1.5},
	{groupName, "reprise-yield", nanoseconds, "errgroup", 1.5},
	{"LLM", "reprise", nanoseconds, "go-openai", 1.3},
	{"LLM", "reprise-run", nanoseconds, "go-openai", 1.3},
	{"LLMStream", "reprise-watch", nanoseconds, "go-openai", 1.3},
	{"LLMStream", "reprise-watch", allocations, "", 5 * streamChunks},
	{"LLMStream", "reprise-iterator", nanoseconds, "go-openai", 1.3},
	{"LLMStream", "reprise-iterator", allocations, "", 5 * streamChunks},
	{"FanOut100", "reprise", perDelivery, "r3labs", 1. / 4},
	{"FanOut100", "reprise", perDelivery, "go-sse", 1. / 5},
	{"FanOut100", "reprise", bytesEach, "r3labs", 1.5},
	{"FanOut100", "reprise", bytesEach, "go-sse", 1.5},
	{"FanOut1000", "reprise", perDelivery, "r3labs", 1. / 4},
	{"FanOut1000", "reprise", perDelivery, "go-sse", 1. / 5},
	{"FanOut1000", "reprise", bytesEach, "r3labs", 1.5},
	{"FanOut1000", "reprise", bytesEach, "go-sse", 1.5},
}

// sameTolerance is the tolerance for figures that should be equal: even two medians of the same
// measurement can differ by this much.
const sameTolerance = 1.1

// judge returns the measured figure, and reports whether there is one.
func (t target) judge(results map[string]result) (figure float64, measured bool) {
	r := results[t.scenario]
	if t.peer != "" {
		ratios := r.ratios(t.lib, t.peer, t.metric)
		return quantile(ratios, 0.5), len(ratios) > 0
	}
	return r.median(t.lib, t.metric), len(r[t.lib][t.metric]) > 0
}

// allocTolerance is the fraction of an allocation by which a target may be exceeded. It allows for
// an allocation shared by five or more calls.
const allocTolerance = 0.2

func (t target) verdict(figure float64) string {
	slack := 0.0
	if t.metric == allocations && t.peer == "" {
		slack = allocTolerance
	}
	if figure > t.most+slack {
		return "missed"
	}
	return "met"
}

func (t target) wanted() string { return "≤ " + t.format(t.most) }

func (t target) format(v float64) string {
	if t.peer != "" {
		return fmt.Sprintf("%.2f", v)
	}
	if t.metric == allocations {
		return fmt.Sprintf("%.4g", math.Round(v*100)/100)
	}
	if t.metric == nanoseconds && t.most >= 1e6 {
		return fmt.Sprintf("%.1f ms", v/1e6)
	}
	return fmt.Sprintf("%.0f", v)
}

func (t target) what() string {
	if t.peer != "" {
		return fmt.Sprintf("%s ÷ %s", t.metric, t.peer)
	}
	return string(t.metric)
}

func printMachine() {
	fmt.Printf("%s %s/%s, %d processors\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.GOMAXPROCS(0))
	name, memory := fileSystem()
	fmt.Printf("Files are on %s.\n", name)
	if memory {
		fmt.Println("Syncing costs nothing there, so the results of Durable are meaningless. Set TMPDIR to a directory on a disk.")
	}
}

func printScenario(s scenario, r result) {
	fmt.Printf("\n%s: %s. Ratio to %s.\n\n", s.name, s.title, s.peer)
	heading := []string{"lib", s.unit.String(), "allocs/op", "B/op", "ratio", "25–75 %"}
	sized := r.median(s.contestants[0].lib, bytesOf) > 0
	if sized {
		heading = append(heading, string(bytesOf))
	}
	t := table{heading}
	for _, c := range s.contestants {
		ratio, spread := formatRatios(r.ratios(c.lib, s.peer, nanoseconds))
		row := []string{
			c.lib, s.unit.format(r.median(c.lib, nanoseconds), s.attempts),
			s.unit.formatAllocations(r.median(c.lib, allocations)), fmt.Sprintf("%.0f", r.median(c.lib, allocated)),
			ratio, spread,
		}
		if sized {
			row = append(row, fmt.Sprintf("%.0f", r.median(c.lib, bytesOf)))
		}
		t = append(t, row)
	}
	t.print()
}

// formatRatios returns the median and the interquartile range.
func formatRatios(ratios []float64) (ratio, spread string) {
	if ratios == nil {
		return "", ""
	}
	return fmt.Sprintf("%.2f", quantile(ratios, 0.5)), fmt.Sprintf("%.2f–%.2f", quantile(ratios, 0.25), quantile(ratios, 0.75))
}

func (u unit) String() string { return [...]string{"ns/op", "ms/op", "ops/s", "runs/s"}[u] }

// format formats the time of a call that makes the given number of runs.
func (u unit) format(nanoseconds float64, runs int) string {
	switch u {
	case inMilliseconds:
		return fmt.Sprintf("%.2f", nanoseconds/1e6)
	case perSecond:
		return fmt.Sprintf("%.0f", 1e9/nanoseconds)
	case runsPerSecond:
		return fmt.Sprintf("%.0f", float64(runs)*1e9/nanoseconds)
	}
	return fmt.Sprintf("%.1f", nanoseconds)
}

func (u unit) formatAllocations(n float64) string {
	if u == inMilliseconds || u == runsPerSecond {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.2f", n)
}

func printSleepers(contestants []sleeperContestant, r result, n int) {
	fmt.Printf("\n%s: %d calls asleep in backoff. Ratios to %s.\n\n", sleepersName, n, sleepersPeer)
	t := table{{"lib", "bytes each", "ratio", "release ms", "ratio"}}
	for _, s := range contestants {
		row := []string{s.lib}
		for _, m := range []metric{bytesEach, release} {
			ratio := ""
			if ratios := r.ratios(s.lib, sleepersPeer, m); ratios != nil {
				ratio = fmt.Sprintf("%.2f", quantile(ratios, 0.5))
			}
			row = append(row, fmt.Sprintf("%.0f", r.median(s.lib, m)), ratio)
		}
		t = append(t, row)
	}
	t.print()
}

func printTargets(results map[string]result) {
	fmt.Print("\nTargets.\n\n")
	t := table{{"scenario", "lib", "what", "measured", "target", "verdict"}}
	for _, g := range targets {
		measured, verdict := "", "not measured"
		if figure, ok := g.judge(results); ok {
			measured, verdict = g.format(figure), g.verdict(figure)
		}
		t = append(t, []string{g.scenario, g.lib, g.what(), measured, g.wanted(), verdict})
	}
	t.print()
}

// A table is a list of rows. The first row is the heading.
type table [][]string

// print writes the table as aligned Markdown. Columns of numbers are
// right-aligned.
func (t table) print() {
	widths := make([]int, len(t[0]))
	numeric := make([]bool, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			numeric[i] = numeric[i] || strings.Trim(cell, "0123456789.") == "" && cell != ""
		}
	}
	var b strings.Builder
	for n, row := range t {
		for i, cell := range row {
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if numeric[i] {
				cell = gap + cell
			} else {
				cell += gap
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
		if n > 0 {
			continue
		}
		for i, width := range widths {
			rule := strings.Repeat("-", width+1)
			if numeric[i] {
				b.WriteString("|" + rule + ":")
			} else {
				b.WriteString("|" + rule + "-")
			}
		}
		b.WriteString("|\n")
	}
	fmt.Fprint(os.Stdout, b.String())
}
