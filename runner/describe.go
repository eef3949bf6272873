package runner

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// A ProgramInfo describes a registered program.
type ProgramInfo struct {
	Name      string
	About     string          // the actor's description; may be empty
	Version   string          // the version that new runs use
	Versions  []string        // the registered versions, sorted
	Input     json.RawMessage // the JSON schema of the input; nil if there is none
	InputType reflect.Type    // the Go type of the input

	Schedules []NextStart // the schedules that start the program
}

// A NextStart describes when a schedule starts its next run.
type NextStart struct {
	Name string
	When string    // such as "every 1h0m0s" or "0 9 * * MON-FRI (UTC)"
	Next time.Time // zero if there is no next run
}

// Describe returns descriptions of the registered programs, sorted by name.
func (r *Runner) Describe() []ProgramInfo {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]ProgramInfo, 0, len(r.current))
	for name, p := range r.current {
		d := ProgramInfo{Name: name, About: p.description, Version: p.version, Input: p.inputSchema, InputType: p.inputType}
		for key := range r.programs {
			if key.name == name {
				d.Versions = append(d.Versions, key.version)
			}
		}
		slices.Sort(d.Versions)
		for _, s := range r.schedules {
			if s.program.name == name {
				d.Schedules = append(d.Schedules, NextStart{s.Name, s.describe(), s.next(time.Now())})
			}
		}
		all = append(all, d)
	}
	slices.SortFunc(all, func(a, b ProgramInfo) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// describe returns a description of when runs start.
func (s *Schedule) describe() string {
	switch {
	case !s.At.IsZero():
		return "once, at " + s.At.UTC().Format(time.RFC3339)
	case s.Every > 0:
		return fmt.Sprintf("every %v", s.Every)
	case s.Location != nil:
		return fmt.Sprintf("%s (%v)", s.Cron, s.Location)
	}
	return s.Cron + " (UTC)"
}
