package openaitest

import (
	"net/http"
	"slices"
	"time"
)

// A Step answers one request. Its methods return modified copies, so a Step can be used
// several times and by several servers.
//
// The zero Step refuses its request.
type Step struct {
	player player
	checks []Check
	delay  time.Duration
	gates  []<-chan struct{}
	header http.Header
	times  int // 0 means once
}

// A player answers a request that has passed all checks.
type player interface {
	play(x *exchange)
	String() string // name of the step in reports
}

// Expect returns a copy of the step that also requires its request to pass the given checks. A
// request that fails a check is unexpected and uses up the step.
func (st Step) Expect(checks ...Check) Step {
	st.checks = append(slices.Clip(st.checks), checks...)
	return st
}

// After returns a copy of the step that waits for d before it answers. If the client
// disconnects or the server closes, the wait ends without an answer.
func (st Step) After(d time.Duration) Step {
	st.delay = d
	return st
}

// Until returns a copy of the step that does not answer until it receives from gate or gate is
// closed. If the client disconnects or the server closes, the wait ends without an answer.
func (st Step) Until(gate <-chan struct{}) Step {
	st.gates = append(slices.Clip(st.gates), gate)
	return st
}

// WithHeader returns a copy of the step with an additional response header. It has no
// effect on steps that break the connection.
func (st Step) WithHeader(key, value string) Step {
	st.header = st.header.Clone()
	if st.header == nil {
		st.header = http.Header{}
	}
	st.header.Set(key, value)
	return st
}

// String returns the name of the step for reports.
func (st Step) String() string {
	if st.player == nil {
		return "zero Step"
	}
	return st.player.String()
}

func (st Step) check(req Request) error {
	for _, check := range st.checks {
		if err := check(req); err != nil {
			return err
		}
	}
	return nil
}
