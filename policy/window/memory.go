package window

import (
	"context"
	"math"
	"regexp"
	"strings"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// A memory is what a run remembers about a conversation. It is stored as a value of the
// run, so that a resumed run sends the same requests.
type memory struct {
	Left    int     `json:"left"`    // number of messages left out, not counting system messages
	Mark    uint64  `json:"mark"`    // their fingerprint
	Summary string  `json:"summary"` // their summary
	Scale   float64 `json:"scale"`   // actual tokens per estimated token; 0 means 1
	Refused int     `json:"refused"` // the lowest estimate for messages that the service refused as too long; 0 if there is none
}

// forget removes what belongs to a different conversation.
func (m *memory) forget(messages []actors.Message) {
	if !isMarked(messages, m.Left, m.Mark) {
		m.Left, m.Mark, m.Summary = 0, 0, ""
	}
}

func (m *memory) scale() float64 {
	if m.Scale == 0 {
		return 1
	}
	return m.Scale
}

// learn updates the scale from the token count that the service reported.
func (m *memory) learn(counted, estimated int) {
	const most, same = 8, 0.1
	if counted == 0 || estimated == 0 {
		return
	}
	scale := min(most, max(1.0/most, float64(counted)/float64(estimated)))
	if math.Abs(scale/m.scale()-1) > same {
		m.Scale = scale
	}
}

// refuse notes that the service refused messages with the given estimate as too long.
func (m *memory) refuse(estimated int) {
	if estimated = max(1, estimated); m.Refused == 0 || estimated < m.Refused {
		m.Refused = estimated
	}
}

// memoryKey returns the key of the window's memory. A memory belongs to the attempt that calls the
// window, which is usually an agent's attempt. If the window is inside other models, such as a
// failover, the memory belongs to the attempt that calls the outermost model, and the key contains
// the path from there to the window. Branches run in parallel, so they must not share a memory:
// their numbers stay in the path, unlike the numbers of calls and attempts. Outside any run,
// memoryKey returns "".
func memoryKey(ctx context.Context) string {
	asked := core.ScopeOf(ctx)
	path := asked.Address().String()
	for s := asked.Parent(); s.Kind() != 0 && s.Kind() != record.KindAgent && s.Kind() != record.KindTool; s = s.Parent() {
		if s.Kind() == record.KindLLM {
			asked = s
		}
	}
	scope := asked.Address().Scope()
	path = strings.TrimPrefix(strings.TrimPrefix(path, scope), "/")
	return keyOf(ctx, "window", scope, numbers.ReplaceAllString(path, "$1"))
}

// numbers matches the numbers of calls and attempts in a path.
var numbers = regexp.MustCompile(`(?:[#@][0-9]+)+(/|$)`)

// cutKey returns the key of the cut made by the call that ctx belongs to.
func cutKey(ctx context.Context) string { return "cut:" + core.ScopeOf(ctx).Address().String() }

// keyOf returns the key of a value that the run stores for an attempt, or "" outside a run. Keys of
// different attempts differ, since no path contains two slashes in a row.
func keyOf(ctx context.Context, what, path, name string) string {
	if state.From(ctx) == nil {
		return ""
	}
	return what + ":" + path + "//" + name
}
