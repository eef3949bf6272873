// Package caller records, in the metadata of a run, which other run started it and waits for it.
package caller

import (
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
)

// A Caller is the run that has started another one and waits for it. It is sent a signal when the
// other run may have ended.
type Caller struct {
	RunID  string
	Signal string // the name of the signal
}

// The keys of a caller in Metadata.Custom.
const (
	callerKey = "reprise.called_by"
	signalKey = "reprise.called_signal"
)

// AddTo adds the caller to the metadata of the run that it calls.
func (c Caller) AddTo(m *snapshot.Metadata) {
	custom := map[string]string{callerKey: c.RunID, signalKey: c.Signal}
	for key, value := range m.Custom {
		custom[key] = value
	}
	m.Custom = custom
}

// Of returns the caller of a run; ok is false if it has none.
func Of(m *snapshot.Metadata) (c Caller, ok bool) {
	c = Caller{m.Custom[callerKey], m.Custom[signalKey]}
	return c, c.RunID != "" && c.Signal != ""
}

// SignalID returns the ID of the signal that a run sends to its caller when it may have ended. It is
// the same however often the run says so in one generation, so that the caller receives it once.
func SignalID(runID string, generation uint64) string {
	return fmt.Sprintf("%s in generation %d", runID, generation)
}
