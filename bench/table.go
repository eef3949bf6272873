package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unicode/utf8"
)

// A target is the most that something may be: in its unit, or as a ratio to a
// peer.
type target struct {
	scenario, lib string
	metric        metric
	peer          string // "" for a target in the unit
	most          float64
	aim           float64 // what is wished for beyond; 0 for nothing
}

var targets = []target{
	{"Success", "reprise-run-listener", nanoseconds, "", 400, 250},
	{"Success", "reprise-run-listener", allocations, "", 1, 0},
	{"Success", "reprise-run-listener", nanoseconds, "failsafe-listeners", 0.9, 0.5},
	{"Success", "reprise-run-subscriber", nanoseconds, "", 400, 250},
	{"Success", "reprise-run-subscriber", allocations, "", 1, 0},
	{"Success", "reprise-run-subscriber", nanoseconds, "failsafe-listeners", 0.9, 0.5},
	{"Success", "reprise", nanoseconds, "", 30, 0},
	{"Success", "reprise", allocations, "", 0, 0},
	{"Success", "reprise", nanoseconds, "sethvargo", 0.7, 0},
	{"TwoFailuresListeners", "reprise-run-listener", nanoseconds, "", 1200, 0},
	{"TwoFailuresListeners", "reprise-run-listener", allocations, "", 3, 0},
	{"TwoFailuresListeners", "reprise-run-listener", nanoseconds, "failsafe-listeners", 0.6, 0},
	{"TwoFailuresListeners", "reprise-run-subscriber", nanoseconds, "", 1200, 0},
	{"TwoFailuresListeners", "reprise-run-subscriber", allocations, "", 3, 0},
	{"TwoFailuresListeners", "reprise-run-subscriber", nanoseconds, "failsafe-listeners", 0.6, 0},
	{"Timeout", "reprise", nanoseconds, "loop", 0.6, 0},
	{"Timeout", "reprise-run", nanoseconds, "loop", 0.6, 0},
	{"Timeout", "reprise", nanoseconds, "loop-abandon", 0.6, 0},
	{"Timeout", "reprise-run", nanoseconds, "loop-abandon", 0.6, 0},
	{sleepersName, "reprise-run", bytesEach, "", 3300, 0},
	{sleepersName, "reprise-run", bytesEach, "failsafe", 0.6, 0},
	{sleepersName, "reprise-run", release, "failsafe", 1, 0},
	{sleepersName, "reprise", bytesEach, "", 3300, 0},
	{sleepersName, "reprise", bytesEach, "failsafe", 0.6, 0},
	{sleepersName, "reprise", release, "failsafe", 1, 0},
}

// judge returns the measured figure, and false if there is none.
func (t target) judge(results map[string]result) (figure float64, measured bool) {
	r := results[t.scenario]
	if t.peer != "" {
		ratios := r.ratios(t.lib, t.peer, t.metric)
		return quantile(ratios, 0.5), len(ratios) > 0
	}
	return r.median(t.lib, t.metric), len(r[t.lib][t.metric]) > 0
}

// shared is the part of an allocation by which a target may be exceeded: what
// five calls or more have in common.
const shared = 0.2

func (t target) verdict(figure float64) string {
	slack := 0.0
	if t.metric == allocations {
		slack = shared
	}
	switch {
	case figure > t.most+slack:
		return "missed"
	case t.aim > 0 && figure <= t.aim:
		return "met, and the aim"
	}
	return "met"
}

func (t target) wanted() string {
	s := "≤ " + t.format(t.most)
	if t.aim > 0 {
		s += ", aim " + t.format(t.aim)
	}
	return s
}

func (t target) format(v float64) string {
	if t.peer != "" {
		return fmt.Sprintf("%.2f", v)
	}
	if t.metric == allocations {
		return fmt.Sprintf("%.4g", v)
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
}

func printScenario(s scenario, r result) {
	fmt.Printf("\n%s: %s. Ratio to %s.\n\n", s.name, s.title, s.peer)
	t := table{{"lib", "ns/op", "allocs/op", "B/op", "ratio", "25–75 %"}}
	for _, c := range s.contestants {
		ratios := r.ratios(c.lib, s.peer, nanoseconds)
		ratio, spread := "", ""
		if ratios != nil {
			ratio = fmt.Sprintf("%.2f", quantile(ratios, 0.5))
			spread = fmt.Sprintf("%.2f–%.2f", quantile(ratios, 0.25), quantile(ratios, 0.75))
		}
		t = append(t, []string{
			c.lib, fmt.Sprintf("%.1f", r.median(c.lib, nanoseconds)),
			fmt.Sprintf("%.2f", r.median(c.lib, allocations)), fmt.Sprintf("%.0f", r.median(c.lib, allocated)),
			ratio, spread,
		})
	}
	t.print()
}

func printSleepers(contestants []sleeping, r result, n int) {
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

// A table has a heading as its first row.
type table [][]string

// print writes it as Markdown that is aligned. Columns of numbers are aligned
// to the right.
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
