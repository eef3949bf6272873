package eino

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cloudwego/eino/schema"
)

// newIDPrefix begins the IDs made by makeIDsUnique. It is followed by the position of the call, an
// underscore, and the original ID.
const newIDPrefix = "reprise_"

// makeIDsUnique replaces empty and repeated IDs of a message's calls. The ID of its call is all
// that eino tells a tool about the call, and eino matches results to calls by these IDs.
func makeIDsUnique(calls []schema.ToolCall) {
	seen := make(map[string]bool, len(calls))
	for i := range calls {
		if id := calls[i].ID; id == "" || seen[id] {
			calls[i].ID = fmt.Sprintf("%s%d_%s", newIDPrefix, i+1, id)
		}
		seen[calls[i].ID] = true
	}
}

// originalID returns the ID that the service originally gave to a call.
func originalID(id string) string {
	if rest, isNew := strings.CutPrefix(id, newIDPrefix); isNew {
		if _, original, ok := strings.Cut(rest, "_"); ok {
			return original
		}
	}
	return id
}

// withOriginalIDs returns the messages with the IDs that the service gave to the calls, since an ID
// may mean something to the service: Gemini's is the name of the tool. The given messages, which
// belong to the graph, are not changed.
func withOriginalIDs(messages []*schema.Message) []*schema.Message {
	messages = slices.Clone(messages)
	for i, m := range messages {
		if m == nil {
			continue
		}
		hasNew := func(c schema.ToolCall) bool { return c.ID != originalID(c.ID) }
		if m.ToolCallID == originalID(m.ToolCallID) && !slices.ContainsFunc(m.ToolCalls, hasNew) {
			continue
		}
		original := *m
		original.ToolCallID = originalID(m.ToolCallID)
		original.ToolCalls = slices.Clone(m.ToolCalls)
		for j := range original.ToolCalls {
			original.ToolCalls[j].ID = originalID(original.ToolCalls[j].ID)
		}
		messages[i] = &original
	}
	return messages
}
