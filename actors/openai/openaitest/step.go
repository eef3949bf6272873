package openaitest

import (
	"net/http"
	"slices"
	"time"
)

// A Step answers one request. Its methods return changed copies, so a Step can
// be used in several places and by several servers.
//
// The zero Step refuses the request it is handed.
type Step struct {
	player player
	checks []Check
	delay  time.Duration
	gates  []<-chan struct{}
	header http.Header
	times  int // 0 is once
}

// A player is what a step does once the request has been found good.
type player interface {
	play(x *exchange)
	String() string // the name of the step in reports
}

// Expect returns a step that also demands every one of checks of its request.
// A request that fails one is unexpected, and uses the step up.
func (st Step) Expect(checks ...Check) Step {
	st.checks = append(slices.Clip(st.checks), checks...)
	return st
}

// After returns a step that waits d before it answers. The wait ends at once,
// without an answer, when the client disconnects or the server closes.
func (st Step) After(d time.Duration) Step {
	st.delay = d
	return st
}

// Until returns a step that does not answer before gate is closed or sent to.
// The wait ends at once, without an answer, when the client disconnects or the
// server closes.
func (st Step) Until(gate <-chan struct{}) Step {
	st.gates = append(slices.Clip(st.gates), gate)
	return st
}

// WithHeader returns a step whose answer carries one more header. It sets
// nothing on steps that break the connection.
func (st Step) WithHeader(key, value string) Step {
	st.header = st.header.Clone()
	if st.header == nil {
		st.header = http.Header{}
	}
	st.header.Set(key, value)
	return st
}

// String is how reports name the step.
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
