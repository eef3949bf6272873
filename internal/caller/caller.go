// Package caller records in a run's metadata which other run started it and waits for it.
package caller

import (
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
)

// A Caller is a run that started another run and waits for it. The caller receives a signal when
// the other run may have ended.
type Caller struct {
	RunID  string
	Signal string // the name of the signal
}

// Keys in Metadata.Custom that identify the caller.
const (
	callerKey = "reprise.called_by"
	signalKey = "reprise.called_signal"
)

// AddTo adds c to the metadata of the run that c started.
func (c Caller) AddTo(m *snapshot.Metadata) {
	custom := map[string]string{callerKey: c.RunID, signalKey: c.Signal}
	for key, value := range m.Custom {
		custom[key] = value
	}
	m.Custom = custom
}

// Of returns the caller of a run; ok is false if the run has none.
func Of(m *snapshot.Metadata) (c Caller, ok bool) {
	c = Caller{m.Custom[callerKey], m.Custom[signalKey]}
	return c, c.RunID != "" && c.Signal != ""
}

// SignalID returns the ID of the signal that is sent to a run's caller when the run may have ended.
// The ID stays the same within one generation, so the caller receives the signal only once, no
// matter how often it is sent.
func SignalID(runID string, generation uint64) string {
	return fmt.Sprintf("%s in generation %d", runID, generation)
}
