package actors

import "slices"

// messageIdentity is the part of a message that belongs to the identity of a conversation.
type messageIdentity struct {
	Role       Role
	Text       string     `json:",omitempty"` // empty in tool results
	Parts      []Part     `json:",omitempty"`
	ToolCalls  []ToolCall `json:",omitempty"`
	ToolCallID string     `json:",omitempty"`
	IsError    bool       `json:",omitempty"`
}

// Identity implements core.Identifier. The identity is the conversation without the instructions,
// the texts of tool results, the tools, and the options. A reworded instruction, a new tool or a
// new field in a tool's output therefore does not change the identity, and the model's recorded
// answer is used.
func (r Request) Identity() any { return messageIdentities(r.Messages) }

// Identity implements core.Identifier. The identity consists of the text, the parts and the
// history, which is reduced as in the identity of a [Request]. The options are not included.
func (p Prompt) Identity() any {
	return struct {
		Text    string
		Parts   []Part
		History []messageIdentity
	}{p.Text, withoutExtra(p.Parts), messageIdentities(p.History)}
}

func messageIdentities(messages []Message) []messageIdentity {
	var all []messageIdentity
	for _, m := range messages {
		if m.Role != RoleSystem {
			all = append(all, identityOf(&m))
		}
	}
	return all
}

func identityOf(m *Message) messageIdentity {
	t := messageIdentity{Role: m.Role, ToolCalls: m.ToolCalls, ToolCallID: m.ToolCallID, IsError: m.IsError}
	if m.Role != RoleTool { // the text of a tool result comes from a recorded output, whose type may have gained a field
		t.Text, t.Parts = m.Text, withoutExtra(m.Parts)
	}
	return t
}

func withoutExtra(parts []Part) []Part {
	if !slices.ContainsFunc(parts, func(p Part) bool { return len(p.Extra) > 0 }) {
		return parts
	}
	parts = slices.Clone(parts)
	for i := range parts {
		parts[i].Extra = nil
	}
	return parts
}
